ALTER TABLE ficha.pools DROP COLUMN paused_tools;
DROP TABLE ficha.brakes;
