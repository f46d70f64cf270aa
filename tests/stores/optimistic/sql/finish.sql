WITH guard AS MATERIALIZED (
    SELECT
    WHERE ($1::bigint IS NULL OR abs((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) < 500000)
        AND (
            SELECT count(*)
            FROM (
                SELECT
                FROM unnest($2::text::text[], $3::text::text[], $4::text::tid[]) AS v(id, version, position)
                CROSS JOIN LATERAL (
                    SELECT
                    FROM ficha.accounts a
                    WHERE a.ctid = coalesce(v.position, (SELECT k.ctid FROM ficha.accounts k WHERE k.id = v.id LIMIT 1))
                        AND a.id = v.id
                        AND a.xmin::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time())) = v.version
                    FOR NO KEY UPDATE SKIP LOCKED
                ) AS found
            ) AS found
        ) = $5::bigint AND (
            SELECT count(*)
            FROM (
                SELECT
                FROM unnest($6::text::uuid[], $7::text::text[]) AS v(job_id, version)
                CROSS JOIN LATERAL (
                    SELECT
                    FROM ficha.leases l
                    WHERE l.job_id = v.job_id
                        AND l.xmin::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time())) = v.version
                    FOR NO KEY UPDATE SKIP LOCKED
                ) AS found
            ) AS found
        ) = $8::bigint
), accounts_by_position AS (
    UPDATE ficha.accounts AS t
    SET plan = v.plan, opened_at = v.opened_at, balance = v.balance, active = v.active, admitted = v.admitted,
        parked = v.parked, reserved = v.reserved, submitted = v.submitted, latest_job = v.latest_job,
        hour_at = v.hour_at, hour_submits = v.hour_submits, day_at = v.day_at, day_spent = v.day_spent,
        month_at = v.month_at, month_spent = v.month_spent, entries = v.entries
    FROM guard
    CROSS JOIN unnest($10::text::tid[], $9::text::ficha.accounts[]) AS v(position)
    WHERE t.ctid = v.position
    RETURNING t.id, t.ctid
), ended AS (
    UPDATE ficha.jobs t
    SET status = v.status, finished_at = v.finished_at, error = v.error, user_error = v.user_error, charged = v.charged,
        refunded = v.refunded, delivered = v.delivered, dead_at = v.dead_at, provider_cost = v.provider_cost,
        epoch = v.epoch, attempts = v.attempts, recoveries = v.recoveries, started_at = v.started_at, events = v.events,
        late_finishes = v.late_finishes, callbacks = v.callbacks, first_worker = v.first_worker,
        first_run_at = v.first_run_at, result = v.result
    FROM guard
    CROSS JOIN unnest($11::text::ficha.jobs[]) AS v
    WHERE t.id = ANY (ARRAY[v.id])
), leases_gone AS (
    DELETE FROM ficha.leases AS t
    USING guard
    CROSS JOIN unnest($12::text::uuid[]) AS v(job_id)
    WHERE t.job_id = ANY (ARRAY[v.job_id])
), tallies AS (
    INSERT INTO ficha.worker_counts(worker, kind, runs, busy_us)
    SELECT v.worker, v.kind, v.runs, v.busy_us
    FROM guard
    CROSS JOIN unnest($13::text::ficha.worker_counts[]) AS v
), commits_new AS (
    INSERT INTO ficha.commits(committer, sequence, at, size, events, figures)
    SELECT v.committer, v.sequence, v.at, v.size, v.events, v.figures
    FROM guard
    CROSS JOIN unnest($14::text::ficha.commits[]) AS v
)
SELECT ARRAY (SELECT ARRAY[id, ctid::text] FROM accounts_by_position),
    pg_current_xact_id()::xid::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time()))
FROM guard;
