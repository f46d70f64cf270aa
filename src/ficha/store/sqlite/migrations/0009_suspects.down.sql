DROP INDEX ready_suspects;
