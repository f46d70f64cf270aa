DROP TABLE ficha.configurations;
