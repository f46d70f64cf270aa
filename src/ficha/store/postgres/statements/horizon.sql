-- How far the commits' numbers go, and which transactions may still fill a gap below. A transaction holds this lock on the
-- table from before it takes a number until after its rows can be seen. Whoever deletes there holds it too, which does no
-- harm. The snapshot's running transactions would tell the same, but among them is every long one of every other database
-- on the server, and all would wait for those. The statement's snapshot, which sees the last number, is older than its
-- look at the locks.
SELECT
    coalesce((SELECT max(number) FROM commits), 0),
    ARRAY(
        SELECT virtualtransaction FROM pg_locks
        WHERE relation = 'commits'::regclass AND mode = 'RowExclusiveLock' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
