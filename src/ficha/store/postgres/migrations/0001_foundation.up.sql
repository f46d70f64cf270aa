-- All of it is in one schema, named in full, whatever the connection's search_path; one database can hold several.
-- Text that serves as a key is ordered by code point everywhere, whatever the database's locale.
-- There are no foreign keys. All writes go through `decide`, which keeps references whole; checking them again row by
-- row would double the cost of a batch. `verify` proves them on a live database.

-- An account exists once: this is where that is made sure of. Were the index on the rows below unique, every write of a
-- row that needs a new entry there would have to look at all its old versions, of which there are thousands while a long
-- transaction elsewhere keeps them alive.
CREATE TABLE ficha.account_ids (
    id text COLLATE "C" PRIMARY KEY
);

-- What changes stands behind what does not, and what changes at every end last: PostgreSQL logs a row that is rewritten on
-- its page only from the first byte to the last that differ. Every page has room for a second version of its rows.
CREATE TABLE ficha.accounts (
    id            text COLLATE "C" NOT NULL,
    plan          text NOT NULL,
    opened_at     timestamptz NOT NULL,
    hour_at       timestamptz NOT NULL,
    day_at        timestamptz NOT NULL,
    month_at      timestamptz NOT NULL,
    parked        bigint NOT NULL,
    reserved      bigint NOT NULL,
    balance       bigint NOT NULL,
    hour_submits  bigint NOT NULL,
    day_spent     bigint NOT NULL,
    month_spent   bigint NOT NULL,
    submitted     bigint NOT NULL,
    entries       bigint NOT NULL,
    active        bigint NOT NULL,
    admitted      bigint NOT NULL,
    latest_job    uuid,
    -- One check instead of many: a statement reads each of them anew.
    CHECK (least(balance, active, admitted, parked, reserved, submitted, hour_submits, entries) >= 0)
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX accounts_by_id ON ficha.accounts (id);

-- The wide row of a job: written at its birth and at its end. While a job is active, `status` stays 'queued' and the
-- truth is in its row of `ready`, `parked` or `leases`; `job_states` shows both as one. Nothing that changes at the
-- end of an ordinary job is indexed, so that the second write stays on its page.
-- First what a job is born with, then what its end writes (see `accounts`).
CREATE TABLE ficha.jobs (
    id              uuid PRIMARY KEY,
    created_at      timestamptz NOT NULL,
    wait_until_at   timestamptz,
    cost            bigint NOT NULL,
    units           bigint NOT NULL,
    timeout_ms      bigint NOT NULL,
    max_attempts    bigint NOT NULL,
    backoff_ms      bigint NOT NULL,
    backoff_max_ms  bigint NOT NULL,
    charged         bigint NOT NULL,
    number          bigint NOT NULL,
    priority        smallint NOT NULL,
    batch_id        uuid,
    requeue_of      uuid,
    account_id      text COLLATE "C" NOT NULL,
    tool            text COLLATE "C" NOT NULL,
    pool            text COLLATE "C" NOT NULL,
    plan            text NOT NULL,
    session         text,
    correlation_id  text,
    content_hash    text,
    payload         json NOT NULL,
    refunded        bigint NOT NULL,
    delivered       bigint,
    provider_cost   bigint,
    started_at      timestamptz,
    first_run_at    timestamptz,
    finished_at     timestamptz,
    dead_at         timestamptz,
    removed_at      timestamptz,
    epoch           integer NOT NULL,
    attempts        integer NOT NULL,
    recoveries      integer NOT NULL,
    events          integer NOT NULL,
    late_finishes   integer NOT NULL,
    callbacks       integer NOT NULL,
    status          text NOT NULL,
    first_worker    text,
    error           text,
    user_error      text,
    result          json,
    CHECK (
        status IN ('queued', 'completed', 'failed', 'cancelled')
        AND least(cost, charged, refunded, charged - refunded) >= 0
    )
) WITH (fillfactor = 44, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX jobs_of_account ON ficha.jobs (account_id, id);
CREATE INDEX jobs_of_batch ON ficha.jobs (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX jobs_of_session ON ficha.jobs (session, id) WHERE session IS NOT NULL;
CREATE INDEX jobs_of_correlation ON ficha.jobs (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_dead ON ficha.jobs (id) WHERE dead_at IS NOT NULL;
-- By the time of the submit: the end of a job changes no column that is in an index, unless a provider took something.
CREATE INDEX jobs_with_provider_cost ON ficha.jobs (created_at) WHERE provider_cost IS NOT NULL;

-- One narrow row per claimable job. A claim deletes it.
CREATE TABLE ficha.ready (
    job_id         uuid PRIMARY KEY,
    rank           bigint NOT NULL,
    ages_at        timestamptz,
    wait_until_at  timestamptz,
    started_at     timestamptz,
    first_run_at   timestamptz,
    epoch          integer NOT NULL,
    attempts       integer NOT NULL,
    recoveries     integer NOT NULL,
    events         integer NOT NULL,
    late_finishes  integer NOT NULL,
    callbacks      integer NOT NULL,
    account_id     text COLLATE "C" NOT NULL,
    pool           text COLLATE "C" NOT NULL,
    first_worker   text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX ready_in_order ON ficha.ready (pool, rank, job_id);
CREATE INDEX ready_ageing ON ficha.ready (ages_at) WHERE ages_at IS NOT NULL;
CREATE INDEX ready_waiting ON ficha.ready (wait_until_at) WHERE wait_until_at IS NOT NULL AND started_at IS NULL;

-- Queued, and not claimable: until `due_at`, or, where that is null, until the account has room. Where `behind` names an
-- equal job, until that one is no longer held.
CREATE TABLE ficha.parked (
    job_id         uuid PRIMARY KEY,
    rank           bigint NOT NULL,
    due_at         timestamptz,
    behind         uuid,
    wait_until_at  timestamptz,
    started_at     timestamptz,
    first_run_at   timestamptz,
    epoch          integer NOT NULL,
    attempts       integer NOT NULL,
    recoveries     integer NOT NULL,
    events         integer NOT NULL,
    late_finishes  integer NOT NULL,
    callbacks      integer NOT NULL,
    account_id     text COLLATE "C" NOT NULL,
    pool           text COLLATE "C" NOT NULL,
    first_worker   text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX parked_in_order ON ficha.parked (account_id, rank, job_id) WHERE due_at IS NULL;
CREATE INDEX parked_due ON ficha.parked (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX parked_behind ON ficha.parked (behind) WHERE behind IS NOT NULL;
CREATE INDEX parked_waiting ON ficha.parked (wait_until_at) WHERE wait_until_at IS NOT NULL AND started_at IS NULL;

-- One row per job that holds a slot: with a worker, or (`ref`) with a provider. A heartbeat moves `heartbeat_at` and
-- `expires_at`. No B-tree holds either and every page has room for a second version of its rows, so that a heartbeat
-- rewrites the row on its page and touches no index; a BRIN index does not stand in the way of that (from PostgreSQL
-- 16 on).
CREATE TABLE ficha.leases (
    job_id        uuid PRIMARY KEY,
    leased_at     timestamptz NOT NULL,
    heartbeat_at  timestamptz,
    expires_at    timestamptz,
    deadline_at   timestamptz NOT NULL,
    poll_at       timestamptz,
    started_at    timestamptz,
    first_run_at  timestamptz,
    epoch         integer NOT NULL,
    attempts      integer NOT NULL,
    recoveries    integer NOT NULL,
    events        integer NOT NULL,
    late_finishes integer NOT NULL,
    callbacks     integer NOT NULL,
    account_id    text COLLATE "C" NOT NULL,
    pool          text COLLATE "C" NOT NULL,
    status        text NOT NULL,
    worker        text COLLATE "C",
    ref           text COLLATE "C",
    first_worker  text,
    CHECK (
        status IN ('starting', 'running')
        AND num_nulls(worker, ref) = 1 AND num_nulls(worker, heartbeat_at, expires_at) IN (0, 3)
        AND (ref IS NOT NULL OR poll_at IS NULL)
    )
) WITH (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX leases_due ON ficha.leases USING brin (least(expires_at, deadline_at)) WITH (pages_per_range = 16);
CREATE INDEX leases_of_pool ON ficha.leases (pool);
-- When providers are asked. A worker's lease has no such time, so that a heartbeat leaves the index alone.
CREATE INDEX leases_to_poll ON ficha.leases (poll_at) WHERE poll_at IS NOT NULL;

CREATE TABLE ficha.checkpoints (
    job_id    uuid PRIMARY KEY,
    saved_at  timestamptz NOT NULL,
    progress  bigint NOT NULL,
    name      text NOT NULL,
    data      json NOT NULL,
    partial   json
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE ficha.steps (
    job_id    uuid NOT NULL,
    name      text COLLATE "C" NOT NULL,
    number    bigint GENERATED ALWAYS AS IDENTITY,
    saved_at  timestamptz NOT NULL,
    result    json NOT NULL,
    PRIMARY KEY (job_id, name)
);

-- The ledger. A second charge or refund of a job is impossible even for a bug, and so is changing a line.
CREATE TABLE ficha.entries (
    account_id     text COLLATE "C" NOT NULL,
    number         bigint NOT NULL,
    kind           text NOT NULL,
    amount         bigint NOT NULL,
    balance_after  bigint NOT NULL,
    at             timestamptz NOT NULL,
    job_id         uuid,
    reason         text,
    PRIMARY KEY (account_id, number),
    CHECK (
        number >= 1 AND balance_after >= 0
        AND (
            kind IN ('grant', 'adjust') AND job_id IS NULL
            OR kind = 'charge' AND job_id IS NOT NULL AND amount <= 0
            OR kind = 'refund' AND job_id IS NOT NULL AND amount >= 0
        )
    )
);

CREATE UNIQUE INDEX entries_once_per_job ON ficha.entries (job_id, kind) WHERE job_id IS NOT NULL;

CREATE FUNCTION ficha.refuse_entry_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ledger entries are immutable: correct a balance with an entry of kind adjust'
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER entries_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ficha.entries
    FOR EACH STATEMENT EXECUTE FUNCTION ficha.refuse_entry_change();

-- The lines of a job's history that its own row does not tell. An ordinary job has none.
CREATE TABLE ficha.events (
    job_id      uuid NOT NULL,
    number      bigint NOT NULL,
    at          timestamptz NOT NULL,
    account_id  text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    data        json,
    PRIMARY KEY (job_id, number)
);

-- Which job a provider took over under a reference: for its call-back, which may come after the job's end.
CREATE INDEX events_by_ref ON ficha.events ((data ->> 'ref')) WHERE data ->> 'ref' IS NOT NULL;

CREATE TABLE ficha.keys (
    account_id   text COLLATE "C" NOT NULL,
    scope        text COLLATE "C" NOT NULL CHECK (scope IN ('submit', 'grant')),
    key          text COLLATE "C" NOT NULL,
    fingerprint  text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    job_id       uuid,
    batch_id     uuid,
    jobs         bigint NOT NULL,
    cost         bigint NOT NULL,
    entry        bigint,
    PRIMARY KEY (account_id, scope, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX keys_expiring ON ficha.keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE ficha.reservations (
    id          uuid PRIMARY KEY,
    account_id  text COLLATE "C" NOT NULL,
    state       text NOT NULL CHECK (state IN ('active', 'consumed', 'expired', 'released')),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    job_id      uuid
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX reservations_of_account ON ficha.reservations (account_id, id);
CREATE INDEX reservations_active ON ficha.reservations (account_id) WHERE state = 'active';
CREATE INDEX reservations_expiring ON ficha.reservations (expires_at) WHERE state = 'active';
CREATE INDEX reservations_ended ON ficha.reservations (expires_at) WHERE state <> 'active';

CREATE TABLE ficha.batches (
    id          uuid PRIMARY KEY,
    account_id  text COLLATE "C" NOT NULL,
    total       bigint NOT NULL,
    created_at  timestamptz NOT NULL
);

CREATE INDEX batches_of_account ON ficha.batches (account_id, id);

CREATE TABLE ficha.pools (
    name     text COLLATE "C" PRIMARY KEY,
    slots    bigint CHECK (slots >= 0),
    resized  bigint CHECK (resized >= 0),
    paused   boolean NOT NULL
);

-- Which job computes a content, while it is held, or has computed it: then its result, read from `jobs`, answers others.
CREATE TABLE ficha.contents (
    tool          text COLLATE "C" NOT NULL,
    content_hash  text COLLATE "C" NOT NULL,
    job_id        uuid NOT NULL,
    PRIMARY KEY (tool, content_hash)
);

CREATE INDEX contents_of_job ON ficha.contents (job_id);

CREATE TABLE ficha.leaders (
    name        text COLLATE "C" PRIMARY KEY,
    owner       text NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A row per commit: what it told, for those who follow, its figures, which are added up in `rollups`, and that it took
-- place, which resolves an ambiguous one. Old rows are cleared away. A row without a committer is a further part of a
-- commit that told very much, or part of a transaction of somebody else.
CREATE TABLE ficha.commits (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sequence   bigint,
    at         timestamptz NOT NULL,
    committer  uuid,
    size       integer NOT NULL,
    events     text NOT NULL,
    figures    text,
    UNIQUE (committer, sequence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- The figures of all commits of a minute or an hour, and how far commits are added up.
CREATE TABLE ficha.rollups (
    key        text COLLATE "C" PRIMARY KEY,
    begins_at  timestamptz NOT NULL,
    figures    json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE ficha.figure_cursors (
    name       text COLLATE "C" PRIMARY KEY,
    turn       bigint NOT NULL,
    number     bigint NOT NULL,
    folded_at  timestamptz NOT NULL,
    gap_at     timestamptz,
    left_out   json NOT NULL,
    waiting    json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who works here. A worker writes its own row when it starts, with its heartbeats, and when it stops.
CREATE TABLE ficha.workers (
    name          text COLLATE "C" PRIMARY KEY,
    host          text NOT NULL,
    pid           bigint NOT NULL,
    pools         json NOT NULL,
    concurrency   bigint NOT NULL,
    version       text NOT NULL,
    heartbeat_ms  bigint NOT NULL,
    started_at    timestamptz NOT NULL,
    seen_at       timestamptz NOT NULL,
    stopped_at    timestamptz,
    problem       text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What became of the runs of every worker, alive or gone; the sum of a worker's rows of a kind counts. Each batch adds
-- rows of its own: were there one to change, the batches of a worker would wait for each other, and while a long
-- transaction elsewhere keeps its old versions alive, walk over them. Now and then rows are folded together.
CREATE TABLE ficha.worker_counts (
    worker   text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    runs     bigint NOT NULL,
    busy_us  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- What proves who calls. Of a key's own text only its beginning and a digest are kept.
CREATE TABLE ficha.api_keys (
    id          uuid PRIMARY KEY,
    name        text COLLATE "C" NOT NULL,
    hint        text NOT NULL,
    digest      text COLLATE "C" NOT NULL UNIQUE,
    scope       text NOT NULL CHECK (scope IN ('user', 'service', 'admin', 'viewer')),
    account_id  text COLLATE "C",
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz,
    CHECK ((scope = 'user') = (account_id IS NOT NULL))
);

CREATE INDEX api_keys_of_name ON ficha.api_keys (name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_of_account ON ficha.api_keys (account_id);

-- Apart from the keys, because it changes as long as they live.
CREATE TABLE ficha.api_key_uses (
    key_id  uuid PRIMARY KEY,
    at      timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What is still to be run for jobs that ended. A row is written with the job's end, and goes when it has been run.
CREATE TABLE ficha.hooks (
    job_id    uuid NOT NULL,
    due_at    timestamptz NOT NULL,
    attempts  integer NOT NULL,
    name      text COLLATE "C" NOT NULL,
    error     text,
    PRIMARY KEY (job_id, name)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX hooks_due ON ficha.hooks (due_at);

-- Of each external provider, what all processes share.
CREATE TABLE ficha.provider_states (
    name      text COLLATE "C" PRIMARY KEY,
    next_at   timestamptz NOT NULL,
    failures  bigint NOT NULL,
    turns     json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The providers whose circuit breaker is not closed. Submits read this table, and not the one above.
CREATE TABLE ficha.provider_outages (
    provider  text COLLATE "C" PRIMARY KEY,
    since_at  timestamptz NOT NULL,
    until_at  timestamptz NOT NULL,
    trips     bigint NOT NULL,
    probe     text,
    error     text
);

-- Addresses that are told of events: those of an account in one row; the operator's own have the owner ''.
CREATE TABLE ficha.webhook_endpoints (
    owner      text COLLATE "C" PRIMARY KEY,
    endpoints  json NOT NULL
);

-- Events on their way to endpoints, and for a while those that have arrived.
CREATE TABLE ficha.deliveries (
    id           uuid PRIMARY KEY,
    endpoint_id  uuid NOT NULL,
    job_id       uuid,
    created_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    ended_at     timestamptz,
    attempts     bigint NOT NULL,
    earlier_attempts  bigint NOT NULL,
    answered     bigint,
    owner        text COLLATE "C" NOT NULL,
    account_id   text COLLATE "C" NOT NULL,
    event        text NOT NULL,
    state        text NOT NULL,
    error        text,
    body         json NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX deliveries_due ON ficha.deliveries (due_at) WHERE state = 'pending';
CREATE INDEX deliveries_of_job ON ficha.deliveries (job_id, endpoint_id) WHERE state = 'pending';
CREATE INDEX deliveries_of_owner ON ficha.deliveries (owner, id);
CREATE INDEX deliveries_ended ON ficha.deliveries (ended_at) WHERE ended_at IS NOT NULL;

-- Files of accounts. Their bytes lie elsewhere.
CREATE TABLE ficha.files (
    id              uuid PRIMARY KEY,
    job_id          uuid,
    reservation_id  uuid,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz,
    size            bigint NOT NULL CHECK (size >= 0),
    uses            bigint NOT NULL CHECK (uses >= 0),
    account_id      text COLLATE "C" NOT NULL,
    state           text NOT NULL,
    role            text NOT NULL,
    name            text NOT NULL,
    media_type      text NOT NULL,
    digest          text NOT NULL
);

CREATE INDEX files_of_account ON ficha.files (account_id, id);
CREATE INDEX files_of_job ON ficha.files (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX files_of_reservation ON ficha.files (reservation_id) WHERE reservation_id IS NOT NULL;
CREATE INDEX files_expiring ON ficha.files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE ficha.file_usage (
    account_id  text COLLATE "C" PRIMARY KEY,
    files       bigint NOT NULL CHECK (files >= 0),
    size        bigint NOT NULL CHECK (size >= 0)
) WITH (fillfactor = 50);

-- What operators do to all jobs that a search finds, and how far each came.
CREATE TABLE ficha.bulk_acts (
    id          uuid PRIMARY KEY,
    before_id   uuid NOT NULL,
    floor_id    uuid,
    started_at  timestamptz NOT NULL,
    due_at      timestamptz NOT NULL,
    ended_at    timestamptz,
    total       bigint NOT NULL,
    credits     bigint NOT NULL,
    holds       bigint NOT NULL,
    done        bigint NOT NULL,
    failed      bigint NOT NULL,
    act         text NOT NULL,
    search      text NOT NULL,
    reason      text NOT NULL,
    actor       text NOT NULL,
    state       text NOT NULL CHECK (state IN ('running', 'stopped', 'done')),
    failures    json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX bulk_acts_due ON ficha.bulk_acts (due_at) WHERE state = 'running';

-- Visits that say that they go on, or that they are over: those of an account in one row.
CREATE TABLE ficha.page_sessions (
    account_id  text COLLATE "C" PRIMARY KEY,
    next_at     timestamptz NOT NULL,
    sessions    json NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX page_sessions_ending ON ficha.page_sessions (next_at);

-- Who did what. A line is written in the transaction of what it tells of, and never changed.
CREATE TABLE ficha.audit (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    actor    text NOT NULL,
    act      text NOT NULL,
    target   text NOT NULL,
    details  json NOT NULL
);

CREATE INDEX audit_of_target ON ficha.audit (target, number);
CREATE INDEX audit_of_actor ON ficha.audit (actor, number);

CREATE FUNCTION ficha.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit lines are immutable' USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ficha.audit
    FOR EACH STATEMENT EXECUTE FUNCTION ficha.refuse_audit_change();

-- A job whole, for people who read the database directly. Nothing in Ficha reads it. It leaves out `jobs.error`, which is
-- for operators: who reads for a job's owner needs no right to that column.
CREATE VIEW ficha.job_states WITH (security_invoker = true) AS
SELECT
    j.id, j.account_id, j.tool, j.pool,
    coalesce(l.status, j.status) AS status,
    CASE
        WHEN l.ref IS NOT NULL THEN 'awaiting'
        WHEN l.job_id IS NOT NULL THEN 'leased'
        WHEN r.job_id IS NOT NULL THEN 'ready'
        WHEN p.job_id IS NOT NULL THEN 'parked'
    END AS place,
    coalesce(r.rank, p.rank) AS rank, r.ages_at, p.due_at, p.behind, j.wait_until_at,
    l.worker, l.ref, l.leased_at, l.heartbeat_at, l.expires_at, l.deadline_at, l.poll_at,
    coalesce(l.epoch, r.epoch, p.epoch, j.epoch) AS epoch,
    coalesce(l.attempts, r.attempts, p.attempts, j.attempts) AS attempts,
    coalesce(l.recoveries, r.recoveries, p.recoveries, j.recoveries) AS recoveries,
    j.priority, j.cost, j.units, j.created_at,
    coalesce(l.started_at, r.started_at, p.started_at, j.started_at) AS started_at,
    coalesce(l.events, r.events, p.events, j.events) AS events,
    coalesce(l.late_finishes, r.late_finishes, p.late_finishes, j.late_finishes) AS late_finishes,
    coalesce(l.callbacks, r.callbacks, p.callbacks, j.callbacks) AS callbacks,
    coalesce(l.first_worker, r.first_worker, p.first_worker, j.first_worker) AS first_worker,
    coalesce(l.first_run_at, r.first_run_at, p.first_run_at, j.first_run_at) AS first_run_at,
    j.finished_at, j.dead_at, j.removed_at, j.timeout_ms, j.max_attempts, j.backoff_ms, j.backoff_max_ms,
    j.session, j.batch_id, j.correlation_id, j.content_hash, j.requeue_of, j.plan, j.number,
    c.name AS checkpoint, c.progress, c.data AS checkpoint_data, c.saved_at AS checkpoint_saved_at,
    c.partial,
    j.charged, j.refunded, j.delivered, j.provider_cost, j.user_error, j.payload, j.result
FROM ficha.jobs j
LEFT JOIN ficha.ready r ON r.job_id = j.id
LEFT JOIN ficha.parked p ON p.job_id = j.id
LEFT JOIN ficha.leases l ON l.job_id = j.id
LEFT JOIN ficha.checkpoints c ON c.job_id = j.id;

-- Who may look. Row-level security is on for every table, from the start: the owner of the tables, which is what Ficha
-- connects as, is not held back by it, and nobody else has a right to anything. A role that is granted SELECT on a table
-- sees the rows of the account it speaks for, and no row where it speaks for none. It can write nothing, also where it
-- has the right: there are no policies for writing.

-- The account that the reader speaks for: a setting of the transaction, made by whoever opens it on the user's behalf.
-- Where a transaction has set it, it reads as '' afterwards instead of missing. May be replaced by another such function.
CREATE FUNCTION ficha.current_account() RETURNS text LANGUAGE sql STABLE SET search_path = '' AS $$
    SELECT nullif(current_setting('ficha.account', true), '')
$$;

-- The sub-select makes PostgreSQL ask once per query, not once per row.
CREATE POLICY own_rows ON ficha.accounts FOR SELECT USING (id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.jobs FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.ready FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.parked FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.leases FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.entries FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.events FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.keys FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.reservations FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.batches FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.files FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.file_usage FOR SELECT USING (account_id = (SELECT ficha.current_account()));
CREATE POLICY own_rows ON ficha.page_sessions FOR SELECT USING (account_id = (SELECT ficha.current_account()));

-- These belong to whom their job belongs to. The reader needs the right to read jobs.id and jobs.account_id.
CREATE POLICY own_rows ON ficha.checkpoints FOR SELECT USING (EXISTS (
    SELECT FROM ficha.jobs j WHERE j.id = checkpoints.job_id AND j.account_id = (SELECT ficha.current_account())
));
CREATE POLICY own_rows ON ficha.steps FOR SELECT USING (EXISTS (
    SELECT FROM ficha.jobs j WHERE j.id = steps.job_id AND j.account_id = (SELECT ficha.current_account())
));

-- Rights that a database gives to everybody by itself, such as those that Supabase's default privileges give to its roles
-- `anon` and `authenticated`, are taken back.
DO $$
DECLARE
    one regclass;
    role text;
BEGIN
    FOR one IN SELECT oid FROM pg_class WHERE relnamespace = 'ficha'::regnamespace AND relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one);
    END LOOP;
    FOR role IN
        SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA ficha FROM %s', role);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA ficha FROM %s', role);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA ficha FROM %s', role);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ficha FROM %s', role);
    END LOOP;
END
$$;
