BEGIN ISOLATION LEVEL READ COMMITTED;

SELECT 'pools', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    ARRAY (
        SELECT name
        FROM ficha.pools
        WHERE name = ANY ($1::text[]) OR name = ANY ($2::text[]) AND coalesce(resized, slots) IS NOT NULL
        ORDER BY name
        FOR UPDATE
    ), NULL::record;

WITH candidates AS MATERIALIZED (
    SELECT r.*
    FROM unnest($1::text[], $2::text[]::bigint[], $6::text[]::bigint[]) AS w(pool, most, losses)
    CROSS JOIN LATERAL (
        SELECT found.*
        FROM unnest($3::text[], $4::text[]::bigint[], $5::text[]::bigint[]) AS s(pool, first, beyond)
        CROSS JOIN LATERAL (
            SELECT ready.*
            FROM ficha.ready
            WHERE ready.pool = w.pool AND rank >= s.first AND rank < s.beyond AND recoveries <= w.losses
            ORDER BY rank, job_id
            LIMIT w.most
            FOR UPDATE SKIP LOCKED
        ) found
        WHERE s.pool = w.pool
        LIMIT w.most
    ) r
) (
    SELECT j.id::text, j.account_id, j.tool, j.pool, j.cost, j.units, j.timeout_ms, j.max_attempts, j.backoff_ms,
        j.backoff_max_ms, j.content_hash, j.session, j.correlation_id, j.trace_context, j.part_of::text, j.priority,
        (extract(epoch FROM j.created_at) * 1000000)::bigint, j.status,
        (extract(epoch FROM j.wait_until_at) * 1000000)::bigint, j.batch_id::text, j.requeue_of::text, r.epoch,
        r.attempts, r.recoveries, (extract(epoch FROM r.started_at) * 1000000)::bigint, r.events, r.first_worker,
        (extract(epoch FROM r.first_run_at) * 1000000)::bigint, (extract(epoch FROM j.finished_at) * 1000000)::bigint,
        j.error, j.user_error, j.charged, j.refunded, j.delivered, (extract(epoch FROM j.dead_at) * 1000000)::bigint,
        j.plan, j.number, r.late_finishes, r.callbacks, (extract(epoch FROM j.removed_at) * 1000000)::bigint,
        (extract(epoch FROM j.payload_removed_at) * 1000000)::bigint, j.provider_cost, j.submitted_by::text, r.rank,
        (extract(epoch FROM r.ages_at) * 1000000)::bigint, NULL::bigint, NULL::bigint, NULL::text, NULL::text,
        NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, c.name, c.progress,
        c.data::text, (extract(epoch FROM c.saved_at) * 1000000)::bigint, c.partial::text, 0, j.payload::text,
        NULL::record
    FROM candidates r
    CROSS JOIN LATERAL (SELECT * FROM ficha.jobs k WHERE k.id = r.job_id OFFSET 0) AS j
    LEFT JOIN LATERAL (SELECT * FROM ficha.checkpoints k WHERE k.job_id = r.job_id OFFSET 0) AS c ON true
    ORDER BY r.pool, r.rank, r.job_id
)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 0, NULL::text, ROW (q.name, (SELECT count(*) FROM ficha.leases WHERE leases.pool = q.name))
FROM ficha.pools q
WHERE q.name = ANY ($1::text[]) AND (coalesce(q.resized, q.slots) IS NOT NULL OR q.name = ANY ($7::text[]))
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 1, NULL::text, ROW (k.name, k.slots, k.resized, k.paused, k.paused_tools::text)
FROM ficha.pools k
WHERE k.name = ANY ($8::text[])
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, 2, NULL::text, ROW ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

WITH ready_gone AS (
    DELETE FROM ficha.ready AS t
    USING unnest($1::text::uuid[]) AS v(job_id)
    WHERE t.job_id = ANY (ARRAY[v.job_id])
), leases_new AS (
    INSERT INTO ficha.leases(
        job_id, account_id, pool, status, epoch, attempts, recoveries, started_at, events, late_finishes, callbacks,
        first_worker, first_run_at, worker, ref, leased_at, heartbeat_at, expires_at, deadline_at, poll_at
    )
    SELECT v.job_id, v.account_id, v.pool, v.status, v.epoch, v.attempts, v.recoveries, v.started_at, v.events,
        v.late_finishes, v.callbacks, v.first_worker, v.first_run_at, v.worker, v.ref, v.leased_at, v.heartbeat_at,
        v.expires_at, v.deadline_at, v.poll_at
    FROM unnest($2::text::ficha.leases[]) AS v
), tallies AS (
    INSERT INTO ficha.worker_counts(worker, kind, runs, busy_us)
    SELECT v.worker, v.kind, v.runs, v.busy_us
    FROM unnest($3::text::ficha.worker_counts[]) AS v
), commits_new AS (
    INSERT INTO ficha.commits(committer, sequence, at, size, events, figures)
    SELECT v.committer, v.sequence, v.at, v.size, v.events, v.figures
    FROM unnest($4::text::ficha.commits[]) AS v
)
SELECT pg_current_xact_id()::xid::text || (SELECT '@' || extract(epoch FROM pg_postmaster_start_time()));

COMMIT;
