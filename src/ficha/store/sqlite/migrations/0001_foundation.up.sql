-- A job has one wide row, written at its birth and at its end. In between it has one narrow row, in ready, parked or
-- leases, and only that one is written. Instants are microseconds since 1970, JSON is text. Checks compare with each
-- value by itself, because for a list of more than two values SQLite builds a temporary table for every row.

CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    plan TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    balance INTEGER NOT NULL CHECK (balance >= 0),
    active INTEGER NOT NULL CHECK (active >= 0),
    admitted INTEGER NOT NULL CHECK (admitted >= 0),
    parked INTEGER NOT NULL CHECK (parked >= 0),
    reserved INTEGER NOT NULL CHECK (reserved >= 0),
    submitted INTEGER NOT NULL CHECK (submitted >= 0),
    latest_job TEXT,
    hour_at INTEGER NOT NULL,
    hour_submits INTEGER NOT NULL CHECK (hour_submits >= 0),
    day_at INTEGER NOT NULL,
    day_spent INTEGER NOT NULL CHECK (day_spent >= 0),
    month_at INTEGER NOT NULL,
    month_spent INTEGER NOT NULL CHECK (month_spent >= 0),
    entries INTEGER NOT NULL CHECK (entries >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    id TEXT PRIMARY KEY NOT NULL,
    account_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    pool TEXT NOT NULL,
    -- 'queued' as long as the job is active; its narrow row has the real status.
    status TEXT NOT NULL
        CHECK (status = 'queued' OR status = 'completed' OR status = 'failed' OR status = 'cancelled'),
    priority INTEGER NOT NULL,
    cost INTEGER NOT NULL CHECK (cost >= 0),
    units INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    backoff_ms INTEGER NOT NULL,
    backoff_max_ms INTEGER NOT NULL,
    wait_until_at INTEGER,
    session TEXT,
    batch_id TEXT,
    correlation_id TEXT,
    content_hash TEXT,
    requeue_of TEXT,
    plan TEXT NOT NULL,
    number INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    started_at INTEGER,
    events INTEGER NOT NULL,
    late_finishes INTEGER NOT NULL,
    callbacks INTEGER NOT NULL,
    first_worker TEXT,
    first_run_at INTEGER,
    finished_at INTEGER,
    error TEXT,
    user_error TEXT,
    charged INTEGER NOT NULL CHECK (charged >= 0),
    refunded INTEGER NOT NULL CHECK (refunded >= 0 AND refunded <= charged),
    delivered INTEGER,
    dead_at INTEGER,
    removed_at INTEGER,
    provider_cost INTEGER,
    payload TEXT NOT NULL,
    result TEXT
) STRICT;

CREATE INDEX jobs_by_account ON jobs (account_id, id);
CREATE INDEX jobs_by_batch ON jobs (batch_id, id) WHERE batch_id IS NOT NULL;
-- For searches: most jobs have neither.
CREATE INDEX jobs_by_session ON jobs (session, id) WHERE session IS NOT NULL;
CREATE INDEX jobs_by_correlation ON jobs (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (id) WHERE dead_at IS NOT NULL;
CREATE INDEX jobs_with_provider_cost ON jobs (created_at) WHERE provider_cost IS NOT NULL;

CREATE TABLE ready (
    job_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    pool TEXT NOT NULL,
    rank INTEGER NOT NULL,
    ages_at INTEGER,
    wait_until_at INTEGER,
    epoch INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    started_at INTEGER,
    events INTEGER NOT NULL,
    late_finishes INTEGER NOT NULL,
    callbacks INTEGER NOT NULL,
    first_worker TEXT,
    first_run_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX ready_in_claim_order ON ready (pool, rank, job_id);
CREATE INDEX ready_ageing ON ready (ages_at) WHERE ages_at IS NOT NULL;
-- wait_until_at does not bind a job that was started once, so the index leaves it out.
CREATE INDEX ready_waiting ON ready (wait_until_at) WHERE wait_until_at IS NOT NULL AND started_at IS NULL;

CREATE TABLE parked (
    job_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    pool TEXT NOT NULL,
    rank INTEGER NOT NULL,
    due_at INTEGER,
    behind TEXT,
    wait_until_at INTEGER,
    epoch INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    started_at INTEGER,
    events INTEGER NOT NULL,
    late_finishes INTEGER NOT NULL,
    callbacks INTEGER NOT NULL,
    first_worker TEXT,
    first_run_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX parked_in_claim_order ON parked (account_id, rank, job_id) WHERE due_at IS NULL;
CREATE INDEX parked_due ON parked (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX parked_behind ON parked (behind) WHERE behind IS NOT NULL;
CREATE INDEX parked_waiting ON parked (wait_until_at) WHERE wait_until_at IS NOT NULL AND started_at IS NULL;

-- Jobs held by a worker or by an external provider; for a provider ref is set, and leased_at is when it got the job.
CREATE TABLE leases (
    job_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    pool TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('starting', 'running')),
    worker TEXT,
    ref TEXT,
    leased_at INTEGER NOT NULL,
    heartbeat_at INTEGER,
    expires_at INTEGER,
    deadline_at INTEGER NOT NULL,
    poll_at INTEGER,
    epoch INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    started_at INTEGER,
    events INTEGER NOT NULL,
    late_finishes INTEGER NOT NULL,
    callbacks INTEGER NOT NULL,
    first_worker TEXT,
    first_run_at INTEGER,
    CHECK ((worker IS NULL) <> (ref IS NULL)),
    CHECK (worker IS NULL OR (heartbeat_at IS NOT NULL AND expires_at IS NOT NULL)),
    CHECK (ref IS NOT NULL OR poll_at IS NULL)
) STRICT, WITHOUT ROWID;

-- Times and workers have no index: there are only as many rows as running jobs, and scanning them now and then costs
-- less than updating an index with every claim and every start.
CREATE INDEX leases_by_pool ON leases (pool);
-- When providers are asked; a worker's lease has no such time.
CREATE INDEX leases_to_poll ON leases (poll_at) WHERE poll_at IS NOT NULL;

CREATE TABLE checkpoints (
    job_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    progress INTEGER NOT NULL,
    data TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    partial TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    result TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, name)
) STRICT;

CREATE TABLE entries (
    account_id TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    kind TEXT NOT NULL CHECK (kind = 'charge' OR kind = 'refund' OR kind = 'grant' OR kind = 'adjust'),
    amount INTEGER NOT NULL,
    balance_after INTEGER NOT NULL CHECK (balance_after >= 0),
    at INTEGER NOT NULL,
    job_id TEXT,
    reason TEXT,
    PRIMARY KEY (account_id, number),
    CHECK (job_id IS NOT NULL OR kind IN ('grant', 'adjust')),
    CHECK (kind <> 'charge' OR amount <= 0),
    CHECK (kind NOT IN ('grant', 'refund') OR amount >= 0)
) STRICT;

-- One charge and one refund per job, even if the code has a bug.
CREATE UNIQUE INDEX entries_once_per_job ON entries (job_id, kind) WHERE job_id IS NOT NULL;

CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries BEGIN
    SELECT raise(ABORT, 'a ledger line cannot be changed; write a new one that corrects it');
END;

CREATE TRIGGER entries_are_not_deleted BEFORE DELETE ON entries BEGIN
    SELECT raise(ABORT, 'a ledger line cannot be deleted; write a new one that corrects it');
END;

CREATE TABLE keys (
    account_id TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('submit', 'grant')),
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    job_id TEXT,
    batch_id TEXT,
    jobs INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    entry INTEGER,
    -- In this order the primary key also serves lists of keys.
    PRIMARY KEY (account_id, key, scope)
) STRICT;

CREATE INDEX keys_by_expiry ON keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE reservations (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state = 'active' OR state = 'consumed' OR state = 'expired' OR state = 'released'),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    job_id TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_by_account ON reservations (account_id, id);
CREATE INDEX reservations_active ON reservations (account_id) WHERE state = 'active';
CREATE INDEX reservations_by_expiry ON reservations (expires_at) WHERE state = 'active';
CREATE INDEX reservations_ended ON reservations (expires_at) WHERE state <> 'active';

CREATE TABLE batches (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    total INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX batches_by_account ON batches (account_id);

CREATE TABLE pools (
    name TEXT PRIMARY KEY,
    slots INTEGER,
    resized INTEGER,
    paused INTEGER NOT NULL CHECK (paused IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Which job computes a content, while it is held, or has computed it. The result itself is read from the job.
CREATE TABLE contents (
    tool TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (tool, content_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE leaders (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The events of a job that do not follow from its own row. An ordinary job has none.
CREATE TABLE events (
    job_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    account_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

-- Which job a provider took over under a reference: for its call-back, which may come after the job's end.
CREATE INDEX events_by_ref ON events ((data ->> 'ref')) WHERE data ->> 'ref' IS NOT NULL;

-- One row per commit: its events, for followers, its figures, which are added up in `rollups`, and a marker that tells
-- whether a commit that failed half-way took place. Old rows are deleted, but never the newest, so that no number is used
-- twice. The marker is read only after the disk failed, by a scan back from the newest row, so it has no index.
CREATE TABLE commits (
    number INTEGER PRIMARY KEY,
    committer TEXT,
    sequence INTEGER,
    at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    events TEXT NOT NULL,
    figures TEXT
) STRICT;

-- The figures of all commits of a minute or an hour, and how far commits are added up.
CREATE TABLE rollups (
    key TEXT PRIMARY KEY NOT NULL,
    begins_at INTEGER NOT NULL,
    figures TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE figure_cursors (
    name TEXT PRIMARY KEY NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    folded_at INTEGER NOT NULL,
    left_out TEXT NOT NULL,
    waiting TEXT NOT NULL,
    gap_at INTEGER
) STRICT, WITHOUT ROWID;

-- The workers. A worker writes its own row when it starts, with its heartbeats, and when it stops.
CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pools TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    version TEXT NOT NULL,
    heartbeat_ms INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    stopped_at INTEGER,
    problem TEXT
) STRICT, WITHOUT ROWID;

-- How many runs of each worker, alive or gone, began and ended, by kind.
CREATE TABLE worker_counts (
    worker TEXT NOT NULL,
    kind TEXT NOT NULL,
    runs INTEGER NOT NULL,
    busy_us INTEGER NOT NULL,
    PRIMARY KEY (worker, kind)
) STRICT, WITHOUT ROWID;

-- API keys. Of a key's text only the beginning and a digest are stored.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    scope TEXT NOT NULL CHECK (scope = 'user' OR scope = 'service' OR scope = 'admin' OR scope = 'viewer'),
    account_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    CHECK ((scope = 'user') = (account_id IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_by_name ON api_keys (name) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_by_account ON api_keys (account_id);

-- When each key was last used. Separate from the keys, because it changes often.
CREATE TABLE api_key_uses (
    key_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is still to be run for jobs that ended. A row is written with the job's end, and goes when it has been run.
CREATE TABLE hooks (
    name TEXT NOT NULL,
    job_id TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT,
    PRIMARY KEY (job_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX hooks_due ON hooks (due_at);

-- Of each external provider, what all processes share.
CREATE TABLE provider_states (
    name TEXT PRIMARY KEY NOT NULL,
    next_at INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    turns TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The providers whose circuit breaker is not closed. Submits read this table, and not the one above.
CREATE TABLE provider_outages (
    provider TEXT PRIMARY KEY NOT NULL,
    since_at INTEGER NOT NULL,
    until_at INTEGER NOT NULL,
    trips INTEGER NOT NULL,
    probe TEXT,
    error TEXT
) STRICT, WITHOUT ROWID;

-- Addresses that are told of events: those of an account in one row; the operator's own have the owner ''.
CREATE TABLE webhook_endpoints (
    owner TEXT PRIMARY KEY NOT NULL,
    endpoints TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Events on their way to endpoints, and for a while those that have arrived.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY NOT NULL,
    endpoint_id TEXT NOT NULL,
    job_id TEXT,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    ended_at INTEGER,
    attempts INTEGER NOT NULL,
    earlier_attempts INTEGER NOT NULL,
    answered INTEGER,
    owner TEXT NOT NULL,
    account_id TEXT NOT NULL,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'pending';
CREATE INDEX deliveries_of_job ON deliveries (job_id, endpoint_id) WHERE state = 'pending';
CREATE INDEX deliveries_of_owner ON deliveries (owner, id);
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE ended_at IS NOT NULL;

-- Files of accounts. Their bytes lie elsewhere.
CREATE TABLE files (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT,
    reservation_id TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    size INTEGER NOT NULL CHECK (size >= 0),
    uses INTEGER NOT NULL CHECK (uses >= 0),
    account_id TEXT NOT NULL,
    state TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX files_of_account ON files (account_id, id);
CREATE INDEX files_of_job ON files (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX files_of_reservation ON files (reservation_id) WHERE reservation_id IS NOT NULL;
CREATE INDEX files_expiring ON files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE file_usage (
    account_id TEXT PRIMARY KEY NOT NULL,
    files INTEGER NOT NULL CHECK (files >= 0),
    size INTEGER NOT NULL CHECK (size >= 0)
) STRICT, WITHOUT ROWID;

-- What operators do to all jobs that a search finds, and how far each came.
CREATE TABLE bulk_acts (
    id TEXT PRIMARY KEY NOT NULL,
    act TEXT NOT NULL,
    search TEXT NOT NULL,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    total INTEGER NOT NULL,
    credits INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    before_id TEXT NOT NULL,
    floor_id TEXT,
    state TEXT NOT NULL CHECK (state = 'running' OR state = 'stopped' OR state = 'done'),
    holds INTEGER NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    ended_at INTEGER,
    failures TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX bulk_acts_due ON bulk_acts (due_at) WHERE state = 'running';

-- Visits that say that they go on, or that they are over: those of an account in one row.
CREATE TABLE page_sessions (
    account_id TEXT PRIMARY KEY NOT NULL,
    next_at INTEGER NOT NULL,
    sessions TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX page_sessions_ending ON page_sessions (next_at);

-- Who did what. A line is written in the transaction of the act itself, and never changed.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    target TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;

CREATE INDEX audit_by_target ON audit (target, number);
CREATE INDEX audit_by_actor ON audit (actor, number);

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'an audit line cannot be changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN
    SELECT raise(ABORT, 'an audit line cannot be deleted');
END;

-- Each job whole, for people who read the database directly.
CREATE VIEW job_states AS
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
FROM jobs AS j
LEFT JOIN ready AS r ON r.job_id = j.id
LEFT JOIN parked AS p ON p.job_id = j.id
LEFT JOIN leases AS l ON l.job_id = j.id
LEFT JOIN checkpoints AS c ON c.job_id = j.id;
