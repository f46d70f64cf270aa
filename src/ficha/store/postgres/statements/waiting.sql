-- One page of waiting jobs as four columns, built by the database; the aggregates take the rows in their order. Counts
-- are texts, as the driver would have to ask for the type of an array of numbers.
-- $1, $2, $3: the owner, rank and id after which the page begins; $4: how many jobs.
SELECT array_agg(owner), array_agg(jobs::text), string_agg(ranks, ''::bytea), string_agg(ids, ''::bytea) FROM (
    SELECT
        owner, count(*) AS jobs,
        string_agg(int8send(rank), ''::bytea) AS ranks, string_agg(uuid_send(job_id), ''::bytea) AS ids
    FROM (
        SELECT {owner} AS owner, rank, job_id FROM {rows} AND ({owner}, rank, job_id) > ($1, $2, $3)
        ORDER BY {owner}, rank, job_id LIMIT $4
    ) AS page GROUP BY owner ORDER BY owner
) AS lines
