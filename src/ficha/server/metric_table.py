"""Every metric of `/metrics`: its name, help text, labels and scope. Tests compare the documentation, the alert rules
and the dashboard with this table."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

MetricKind = Literal["counter", "gauge", "histogram"]
MetricScope = Literal["database", "process"]
"""Metrics of the database are the same in every process; those of a process are to be summed over all processes."""


class Metric(Struct, frozen=True):
    """A metric. The values of its labels are declared names or fixed words, and bounded in number."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    scope: MetricScope = "database"


METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("ficha_jobs_submitted_total", "counter", "Jobs submitted.", ("plan", "tool")),
        Metric("ficha_jobs_started_total", "counter", "Jobs started for the first time.", ("plan", "tool")),
        Metric(
            "ficha_jobs_finished_total",
            "counter",
            "Jobs that ended: completed, failed or cancelled.",
            ("plan", "tool", "end"),
        ),
        Metric("ficha_job_wait_seconds", "histogram", "From the submit of a job to its first start.", ("plan",)),
        Metric(
            "ficha_job_run_seconds",
            "histogram",
            "From the first start of a job to its completion, retries and all.",
            ("tool",),
        ),
        Metric("ficha_batch_jobs", "histogram", "How many jobs a new batch has."),
        Metric("ficha_credits_charged_total", "counter", "Credits charged for jobs."),
        Metric("ficha_credits_refunded_total", "counter", "Credits given back for jobs."),
        Metric("ficha_credits_granted_total", "counter", "Credits granted, and added by corrections."),
        Metric("ficha_credits_taken_total", "counter", "Credits taken away by corrections."),
        Metric(
            "ficha_provider_calls_total",
            "counter",
            "Requests to an external provider: answered, failed (the provider's fault) or abandoned (by the caller).",
            ("provider", "outcome"),
        ),
        Metric("ficha_provider_call_seconds", "histogram", "How long requests to a provider took.", ("provider",)),
        Metric("ficha_provider_cost_total", "counter", "What providers took, in the operator's currency."),
        Metric(
            "ficha_jobs_waiting", "gauge", "Jobs that wait: ready for a slot, or parked.", ("plan", "tool", "state")
        ),
        Metric("ficha_jobs_stuck", "gauge", "Held jobs that are overdue, or without a heartbeat for too long."),
        Metric("ficha_dead_letters", "gauge", "Failed jobs not yet requeued or discarded, up to 10,000."),
        Metric("ficha_leases_overdue", "gauge", "Held jobs whose lease or deadline is over, and not yet recovered."),
        Metric(
            "ficha_sweeper_lag_seconds",
            "gauge",
            "For how long the sweeper has left undone what is due; 0 if nothing is.",
        ),
        Metric(
            "ficha_figures_lag_seconds", "gauge", "For how long a commit has waited to be added up; 0 if none waits."
        ),
        Metric("ficha_pool_slots", "gauge", "Slots of a pool that has a limit.", ("pool",)),
        Metric("ficha_pool_busy", "gauge", "Jobs that hold a slot.", ("pool",)),
        Metric("ficha_pool_ready", "gauge", "Jobs that are ready for a slot.", ("pool",)),
        Metric(
            "ficha_pool_oldest_wait_seconds",
            "gauge",
            "For how long the longest-waiting ready job has waited, of those that never ran; 0 if none waits.",
            ("pool",),
        ),
        Metric(
            "ficha_pool_heartbeat_timestamp_seconds",
            "gauge",
            "When the last heartbeat came of any job that is held, by a worker of any kind; absent if none is held.",
            ("pool",),
        ),
        Metric("ficha_pool_paused", "gauge", "1 if the pool is paused.", ("pool",)),
        Metric("ficha_pool_workers", "gauge", "Workers that are alive and serve the pool.", ("pool",)),
        Metric(
            "ficha_pool_seen_timestamp_seconds",
            "gauge",
            "When a worker that serves the pool was last heard of; absent once all have stopped.",
            ("pool",),
        ),
        Metric("ficha_workers", "gauge", "Workers that have not stopped: alive, or silent.", ("state",)),
        Metric("ficha_worker_seen_timestamp_seconds", "gauge", "When a worker was last heard of.", ("worker",)),
        Metric("ficha_provider_down", "gauge", "1 while nothing is sent to the provider.", ("provider",)),
        Metric("ficha_provider_probing", "gauge", "1 while one request finds out if it works again.", ("provider",)),
        Metric("ficha_provider_failures", "gauge", "Requests in a row that failed.", ("provider",)),
        Metric("ficha_provider_turns", "gauge", "Requests that are out, where their number is limited.", ("provider",)),
        Metric("ficha_provider_wait_seconds", "gauge", "How long a new request waits for its turn.", ("provider",)),
        Metric("ficha_webhooks_pending", "gauge", "Webhook messages that are still to be delivered, up to 10,000."),
        Metric("ficha_webhooks_lag_seconds", "gauge", "For how long the first of them has been due; 0 if none is."),
        Metric("ficha_hooks_pending", "gauge", "Hooks that are still to be run, up to 10,000."),
        Metric("ficha_hooks_lag_seconds", "gauge", "For how long the first of them has been due; 0 if none is."),
        Metric("ficha_verify_timestamp_seconds", "gauge", "When `ficha verify` last ended; absent if it never ran."),
        Metric("ficha_verify_violations", "gauge", "What it found to be wrong; absent if it never ran."),
        Metric("ficha_build_info", "gauge", "1; the release is in the label.", ("version",), "process"),
        Metric(
            "ficha_http_requests_total",
            "counter",
            "Requests that were answered.",
            ("method", "route", "status"),
            "process",
        ),
        Metric(
            "ficha_http_request_seconds",
            "histogram",
            "From a request to the beginning of its answer; not of a request that waits because it asked to.",
            (),
            "process",
        ),
        Metric(
            "ficha_memory_bytes", "gauge", "Memory of a server with all its processes, or of a worker.", (), "process"
        ),
        Metric("ficha_streams", "gauge", "Live streams that are open.", (), "process"),
    )
}
