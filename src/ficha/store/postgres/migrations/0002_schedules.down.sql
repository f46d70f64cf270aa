DROP TABLE ficha.schedules;
