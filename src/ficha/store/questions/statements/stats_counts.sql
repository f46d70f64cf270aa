SELECT (SELECT count(*) FROM ficha.ready) + (SELECT count(*) FROM ficha.parked),
    (SELECT count(*) FROM ficha.jobs WHERE dead_at IS NOT NULL)
