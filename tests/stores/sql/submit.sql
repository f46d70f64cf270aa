BEGIN ISOLATION LEVEL READ COMMITTED;

WITH owners AS MATERIALIZED (SELECT account_id FROM ficha.jobs WHERE id = ANY ($2::text[]::uuid[])) (
    SELECT 'account', a.id, a.plan, (extract(epoch FROM a.opened_at) * 1000000)::bigint, a.balance, a.active,
        a.admitted, a.parked, a.reserved, a.submitted, a.latest_job::text,
        (extract(epoch FROM a.hour_at) * 1000000)::bigint, a.hour_submits,
        (extract(epoch FROM a.day_at) * 1000000)::bigint, a.day_spent,
        (extract(epoch FROM a.month_at) * 1000000)::bigint, a.month_spent, a.entries, NULL::text[], NULL::record
    FROM (
        SELECT *
        FROM ficha.accounts
        WHERE id = ANY ($1::text[] || ARRAY (SELECT account_id FROM owners) || ARRAY (SELECT account_id FROM ficha.reservations WHERE id = ANY ($3::text[]::uuid[])))
        ORDER BY id
        FOR UPDATE
    ) a
)
UNION ALL
SELECT 'owners', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    ARRAY (SELECT account_id FROM owners), NULL::record;

WITH keyed AS MATERIALIZED (
    SELECT k.*
    FROM unnest($1::text[], $2::text[], $3::text[]) AS w(account_id, scope, key)
    CROSS JOIN LATERAL (
        SELECT *
        FROM ficha.keys k
        WHERE k.account_id = w.account_id AND k.scope = w.scope AND k.key = w.key
        OFFSET 0
    ) AS k
)
SELECT j.id::text, j.account_id, j.tool, j.pool, j.cost, j.units, j.timeout_ms, j.max_attempts, j.backoff_ms,
    j.backoff_max_ms, j.content_hash, j.session, j.correlation_id, j.trace_context, j.part_of::text, j.priority,
    (extract(epoch FROM j.created_at) * 1000000)::bigint, coalesce(l.status, j.status),
    (extract(epoch FROM j.wait_until_at) * 1000000)::bigint, j.batch_id::text, j.requeue_of::text,
    coalesce(l.epoch, r.epoch, p.epoch, j.epoch), coalesce(l.attempts, r.attempts, p.attempts, j.attempts),
    coalesce(l.recoveries, r.recoveries, p.recoveries, j.recoveries),
    (extract(epoch FROM coalesce(l.started_at, r.started_at, p.started_at, j.started_at)) * 1000000)::bigint,
    coalesce(l.events, r.events, p.events, j.events),
    coalesce(l.first_worker, r.first_worker, p.first_worker, j.first_worker),
    (extract(epoch FROM coalesce(l.first_run_at, r.first_run_at, p.first_run_at, j.first_run_at)) * 1000000)::bigint,
    (extract(epoch FROM j.finished_at) * 1000000)::bigint, j.error, j.user_error, j.charged, j.refunded, j.delivered,
    (extract(epoch FROM j.dead_at) * 1000000)::bigint, j.plan, j.number,
    coalesce(l.late_finishes, r.late_finishes, p.late_finishes, j.late_finishes),
    coalesce(l.callbacks, r.callbacks, p.callbacks, j.callbacks), (extract(epoch FROM j.removed_at) * 1000000)::bigint,
    (extract(epoch FROM j.payload_removed_at) * 1000000)::bigint, j.provider_cost, j.submitted_by::text, r.rank,
    (extract(epoch FROM r.ages_at) * 1000000)::bigint, p.rank, (extract(epoch FROM p.due_at) * 1000000)::bigint,
    p.behind::text, l.worker, l.ref, (extract(epoch FROM l.leased_at) * 1000000)::bigint,
    (extract(epoch FROM l.heartbeat_at) * 1000000)::bigint, (extract(epoch FROM l.expires_at) * 1000000)::bigint,
    (extract(epoch FROM l.deadline_at) * 1000000)::bigint, (extract(epoch FROM l.poll_at) * 1000000)::bigint, c.name,
    c.progress, c.data::text, (extract(epoch FROM c.saved_at) * 1000000)::bigint, c.partial::text, 0, NULL::text,
    NULL::record
FROM keyed
CROSS JOIN LATERAL (SELECT * FROM ficha.jobs k WHERE k.id = keyed.job_id OFFSET 0) AS j
LEFT JOIN LATERAL (SELECT * FROM ficha.leases k WHERE k.job_id = j.id OFFSET 0) AS l ON true
LEFT JOIN LATERAL (SELECT * FROM ficha.ready k WHERE k.job_id = j.id OFFSET 0) AS r ON true
LEFT JOIN LATERAL (SELECT * FROM ficha.parked k WHERE k.job_id = j.id OFFSET 0) AS p ON true
LEFT JOIN LATERAL (SELECT * FROM ficha.checkpoints k WHERE k.job_id = j.id OFFSET 0) AS c ON true
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 0, NULL::text, ROW (
        k.account_id, k.scope, k.key, k.fingerprint, (extract(epoch FROM k.created_at) * 1000000)::bigint,
        (extract(epoch FROM k.expires_at) * 1000000)::bigint, k.job_id::text, k.batch_id::text, k.jobs, k.cost, k.entry
    )
FROM keyed k
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 1, NULL::text,
    ROW (e.name, (extract(epoch FROM e.since_at) * 1000000)::bigint, e.paused, e.settled, e.closed)
FROM unnest($4::text[]) AS w(key)
CROSS JOIN LATERAL (SELECT * FROM ficha.brakes k WHERE k.name = w.key OFFSET 0) AS e
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 2, NULL::text, ROW ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

WITH accounts_changed AS (
    UPDATE ficha.accounts t
    SET plan = v.plan, opened_at = v.opened_at, balance = v.balance, active = v.active, admitted = v.admitted,
        parked = v.parked, reserved = v.reserved, submitted = v.submitted, latest_job = v.latest_job,
        hour_at = v.hour_at, hour_submits = v.hour_submits, day_at = v.day_at, day_spent = v.day_spent,
        month_at = v.month_at, month_spent = v.month_spent, entries = v.entries
    FROM unnest($1::text::ficha.accounts[]) AS v
    WHERE t.id = ANY (ARRAY[v.id])
), keys_new AS (
    INSERT INTO ficha.keys(account_id, scope, key, fingerprint, created_at, expires_at, job_id, batch_id, jobs, cost, entry)
    SELECT v.account_id, v.scope, v.key, v.fingerprint, v.created_at, v.expires_at, v.job_id, v.batch_id, v.jobs,
        v.cost, v.entry
    FROM unnest($2::text::ficha.keys[]) AS v
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
    FROM unnest($3::text::ficha.jobs[]) AS v
), ready_new AS (
    INSERT INTO ficha.ready(
        job_id, account_id, pool, wait_until_at, epoch, attempts, recoveries, started_at, events, late_finishes,
        callbacks, first_worker, first_run_at, rank, ages_at
    )
    SELECT v.job_id, v.account_id, v.pool, v.wait_until_at, v.epoch, v.attempts, v.recoveries, v.started_at, v.events,
        v.late_finishes, v.callbacks, v.first_worker, v.first_run_at, v.rank, v.ages_at
    FROM unnest($4::text::ficha.ready[]) AS v
), entries_new AS (
    INSERT INTO ficha.entries(account_id, number, kind, amount, balance_after, at, job_id, reason)
    SELECT v.account_id, v.number, v.kind, v.amount, v.balance_after, v.at, v.job_id, v.reason
    FROM unnest($5::text::ficha.entries[]) AS v
), commits_new AS (
    INSERT INTO ficha.commits(committer, sequence, at, size, events, figures)
    SELECT v.committer, v.sequence, v.at, v.size, v.events, v.figures
    FROM unnest($6::text::ficha.commits[]) AS v
)
SELECT pg_current_xact_id()::xid::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time()));

COMMIT;
