WITH guard AS MATERIALIZED (
    SELECT
    WHERE ($1::bigint IS NULL OR abs((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) < 500000)
        AND (
            SELECT count(*)
            FROM (
                SELECT
                FROM unnest($2::text::uuid[], $3::text::text[]) AS v(job_id, version)
                CROSS JOIN LATERAL (
                    SELECT
                    FROM ficha.leases l
                    WHERE l.job_id = v.job_id
                        AND l.xmin::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time())) = v.version
                    FOR NO KEY UPDATE SKIP LOCKED
                ) AS found
            ) AS found
        ) = $4::bigint
), leases_changed AS (
    UPDATE ficha.leases t
    SET account_id = v.account_id, pool = v.pool, status = v.status, epoch = v.epoch, attempts = v.attempts,
        recoveries = v.recoveries, started_at = v.started_at, events = v.events, late_finishes = v.late_finishes,
        callbacks = v.callbacks, first_worker = v.first_worker, first_run_at = v.first_run_at, worker = v.worker,
        ref = v.ref, leased_at = v.leased_at, heartbeat_at = v.heartbeat_at, expires_at = v.expires_at,
        deadline_at = v.deadline_at, poll_at = v.poll_at
    FROM guard
    CROSS JOIN unnest($5::text::ficha.leases[]) AS v
    WHERE t.job_id = ANY (ARRAY[v.job_id])
), commits_new AS (
    INSERT INTO ficha.commits(committer, sequence, at, size, events, figures)
    SELECT v.committer, v.sequence, v.at, v.size, v.events, v.figures
    FROM guard
    CROSS JOIN unnest($6::text::ficha.commits[]) AS v
)
SELECT '{}'::text[], pg_current_xact_id()::xid::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time()))
FROM guard;
