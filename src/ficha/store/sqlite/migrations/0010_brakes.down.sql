ALTER TABLE pools DROP COLUMN paused_tools;
DROP TABLE brakes;
