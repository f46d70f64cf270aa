-- The highest number of a commit, and the transactions that may still fill a gap below it. A transaction has this lock
-- on the table from before it takes a number until its rows are visible. A delete has it too, which does no harm. The
-- running transactions of the snapshot would serve as well, but they include every long transaction of every other
-- database on the server, and followers would wait for those. The statement's snapshot, which has the last number, is
-- taken before the locks are read.
SELECT
    coalesce((SELECT max(number) FROM ficha.commits), 0),
    ARRAY(
        SELECT virtualtransaction FROM pg_locks
        WHERE relation = 'ficha.commits'::regclass AND mode = 'RowExclusiveLock' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
