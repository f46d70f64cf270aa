-- One page of waiting jobs as four columns. SQLite builds them, because Python would block the process meanwhile.
SELECT json_group_array(owner), json_group_array(jobs), group_concat(ranks, ''), group_concat(ids, '') FROM (
    SELECT
        owner, count(*) AS jobs,
        group_concat(printf('%016x', rank), '') AS ranks, group_concat(replace(job_id, '-', ''), '') AS ids
    FROM (
        SELECT {owner} AS owner, rank, job_id FROM {rows} AND ({owner}, rank, job_id) > (?, ?, ?)
        ORDER BY {owner}, rank, job_id LIMIT ?
    ) GROUP BY owner ORDER BY owner
)
