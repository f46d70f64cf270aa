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
    ARRAY (SELECT account_id FROM owners), NULL::record
UNION ALL
SELECT 'ready', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    ARRAY (
        SELECT job_id::text
        FROM ficha.ready
        WHERE job_id = ANY ($4::text[]::uuid[])
        ORDER BY job_id
        FOR UPDATE
    ), NULL::record
UNION ALL
SELECT 'leases', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    ARRAY (
        SELECT job_id::text
        FROM ficha.leases
        WHERE job_id = ANY ($4::text[]::uuid[])
        ORDER BY job_id
        FOR UPDATE
    ), NULL::record;

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
FROM unnest($1::text[]::uuid[]) AS w(id)
CROSS JOIN LATERAL (SELECT * FROM ficha.jobs k WHERE k.id = w.id OFFSET 0) AS j
LEFT JOIN LATERAL (SELECT * FROM ficha.leases k WHERE k.job_id = j.id OFFSET 0) AS l ON true
LEFT JOIN LATERAL (SELECT * FROM ficha.ready k WHERE k.job_id = j.id OFFSET 0) AS r ON true
LEFT JOIN LATERAL (SELECT * FROM ficha.parked k WHERE k.job_id = j.id OFFSET 0) AS p ON true
LEFT JOIN LATERAL (SELECT * FROM ficha.checkpoints k WHERE k.job_id = j.id OFFSET 0) AS c ON true
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 1, NULL::text, ROW ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

WITH accounts_changed AS (
    UPDATE ficha.accounts t
    SET plan = v.plan, opened_at = v.opened_at, balance = v.balance, active = v.active, admitted = v.admitted,
        parked = v.parked, reserved = v.reserved, submitted = v.submitted, latest_job = v.latest_job,
        hour_at = v.hour_at, hour_submits = v.hour_submits, day_at = v.day_at, day_spent = v.day_spent,
        month_at = v.month_at, month_spent = v.month_spent, entries = v.entries
    FROM unnest($1::text::ficha.accounts[]) AS v
    WHERE t.id = ANY (ARRAY[v.id])
), ended AS (
    UPDATE ficha.jobs t
    SET status = v.status, finished_at = v.finished_at, error = v.error, user_error = v.user_error, charged = v.charged,
        refunded = v.refunded, delivered = v.delivered, dead_at = v.dead_at, provider_cost = v.provider_cost,
        epoch = v.epoch, attempts = v.attempts, recoveries = v.recoveries, started_at = v.started_at, events = v.events,
        late_finishes = v.late_finishes, callbacks = v.callbacks, first_worker = v.first_worker,
        first_run_at = v.first_run_at, result = v.result
    FROM unnest($2::text::ficha.jobs[]) AS v
    WHERE t.id = ANY (ARRAY[v.id])
), leases_gone AS (
    DELETE FROM ficha.leases AS t
    USING unnest($3::text::uuid[]) AS v(job_id)
    WHERE t.job_id = ANY (ARRAY[v.job_id])
), tallies AS (
    INSERT INTO ficha.worker_counts(worker, kind, runs, busy_us)
    SELECT v.worker, v.kind, v.runs, v.busy_us
    FROM unnest($4::text::ficha.worker_counts[]) AS v
), commits_new AS (
    INSERT INTO ficha.commits(committer, sequence, at, size, events, figures)
    SELECT v.committer, v.sequence, v.at, v.size, v.events, v.figures
    FROM unnest($5::text::ficha.commits[]) AS v
)
SELECT pg_current_xact_id()::xid::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time()));

COMMIT;
