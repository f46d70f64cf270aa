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
        ) = $5::bigint AND NOT EXISTS (
            SELECT
            FROM unnest($6::text::text[], $7::text::text[], $8::text::text[]) AS v(account_id, scope, key)
            CROSS JOIN LATERAL (
                SELECT
                FROM ficha.keys k
                WHERE k.account_id = v.account_id AND k.scope = v.scope AND k.key = v.key
                OFFSET 0
            ) AS found
        ) AND NOT EXISTS (SELECT FROM unnest($9::text::text[]) AS v(name) JOIN ficha.brakes USING (name))
), accounts_by_position AS (
    UPDATE ficha.accounts AS t
    SET plan = v.plan, opened_at = v.opened_at, balance = v.balance, active = v.active, admitted = v.admitted,
        parked = v.parked, reserved = v.reserved, submitted = v.submitted, latest_job = v.latest_job,
        hour_at = v.hour_at, hour_submits = v.hour_submits, day_at = v.day_at, day_spent = v.day_spent,
        month_at = v.month_at, month_spent = v.month_spent, entries = v.entries
    FROM guard
    CROSS JOIN unnest($11::text::tid[], $10::text::ficha.accounts[]) AS v(position)
    WHERE t.ctid = v.position
    RETURNING t.id, t.ctid
), keys_new AS (
    INSERT INTO ficha.keys(account_id, scope, key, fingerprint, created_at, expires_at, job_id, batch_id, jobs, cost, entry)
    SELECT v.account_id, v.scope, v.key, v.fingerprint, v.created_at, v.expires_at, v.job_id, v.batch_id, v.jobs,
        v.cost, v.entry
    FROM guard
    CROSS JOIN unnest($12::text::ficha.keys[]) AS v
), born AS (
    INSERT INTO ficha.jobs(
        id, account_id, tool, pool, cost, units, timeout_ms, max_attempts, backoff_ms, backoff_max_ms, content_hash,
        session, correlation_id, trace_context, part_of, priority, created_at, status, wait_until_at, batch_id,
        requeue_of, epoch, attempts, recoveries, started_at, events, first_worker, first_run_at, finished_at, error,
        user_error, charged, refunded, delivered, dead_at, plan, number, late_finishes, callbacks, removed_at,
        payload_removed_at, provider_cost, submitted_by, payload, result
    )
    SELECT v.id, v.account_id, v.tool, v.pool, v.cost, v.units, v.timeout_ms, v.max_attempts, v.backoff_ms,
        v.backoff_max_ms, v.content_hash, v.session, v.correlation_id, v.trace_context, v.part_of, v.priority,
        v.created_at, v.status, v.wait_until_at, v.batch_id, v.requeue_of, v.epoch, v.attempts, v.recoveries,
        v.started_at, v.events, v.first_worker, v.first_run_at, v.finished_at, v.error, v.user_error, v.charged,
        v.refunded, v.delivered, v.dead_at, v.plan, v.number, v.late_finishes, v.callbacks, v.removed_at,
        v.payload_removed_at, v.provider_cost, v.submitted_by, v.payload, v.result
    FROM guard
    CROSS JOIN unnest($13::text::ficha.jobs[]) AS v
), ready_new AS (
    INSERT INTO ficha.ready(
        job_id, account_id, pool, wait_until_at, epoch, attempts, recoveries, started_at, events, late_finishes,
        callbacks, first_worker, first_run_at, rank, ages_at
    )
    SELECT v.job_id, v.account_id, v.pool, v.wait_until_at, v.epoch, v.attempts, v.recoveries, v.started_at, v.events,
        v.late_finishes, v.callbacks, v.first_worker, v.first_run_at, v.rank, v.ages_at
    FROM guard
    CROSS JOIN unnest($14::text::ficha.ready[]) AS v
), entries_new AS (
    INSERT INTO ficha.entries(account_id, number, kind, amount, balance_after, at, job_id, reason)
    SELECT v.account_id, v.number, v.kind, v.amount, v.balance_after, v.at, v.job_id, v.reason
    FROM guard
    CROSS JOIN unnest($15::text::ficha.entries[]) AS v
), commits_new AS (
    INSERT INTO ficha.commits(committer, sequence, at, size, events, figures)
    SELECT v.committer, v.sequence, v.at, v.size, v.events, v.figures
    FROM guard
    CROSS JOIN unnest($16::text::ficha.commits[]) AS v
)
SELECT ARRAY (SELECT ARRAY[id, ctid::text] FROM accounts_by_position),
    pg_current_xact_id()::xid::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time()))
FROM guard;
