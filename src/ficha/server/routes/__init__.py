"""The routes, by noun: each turns a request into an operation and what came of it into an answer. Nothing is decided
here."""

from . import (
    account,
    admin,
    batches,
    bulk_acts,
    callbacks,
    files,
    jobs,
    library,
    probes,
    queue,
    reservations,
    searches,
    sessions,
    sign_in,
    system,
    tools,
    webhooks,
    workers,
)

ROUTERS = (
    jobs.routes,
    reservations.routes,
    sessions.routes,
    batches.routes,
    library.routes,
    files.routes,
    account.routes,
    tools.routes,
    webhooks.routes,
    queue.routes,
    workers.routes,
    system.routes,
    admin.routes,
    searches.routes,
    bulk_acts.routes,
    callbacks.routes,
    sign_in.routes,
    probes.routes,
)
