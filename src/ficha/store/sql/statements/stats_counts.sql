SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM parked),
    (SELECT count(*) FROM jobs WHERE dead_at IS NOT NULL)
