DROP INDEX IF EXISTS ficha.ready_suspects;
