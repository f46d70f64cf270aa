"""The tables of keyed records, each declared once for both databases."""

from __future__ import annotations

from typing import Final

from ...core import records as r
from ..sql.tables import Table, table

KEYED: Final[dict[str, Table]] = {
    "Leader": table("leaders", r.Leader, "name"),
    "ProviderState": table("provider_states", r.ProviderState, "name", values_as_json="turns"),
    "ProviderOutage": table("provider_outages", r.ProviderOutage, "provider"),
    "WebhookEndpoints": table("webhook_endpoints", r.WebhookEndpoints, "owner", values_as_json="endpoints"),
    "Delivery": table("deliveries", r.Delivery, "id", uuids="id job_id endpoint_id", texts_of_json="body"),
    "File": table("files", r.File, "id", uuids="id job_id reservation_id"),
    "FileUsage": table("file_usage", r.FileUsage, "account_id"),
    "BulkAct": table("bulk_acts", r.BulkAct, "id", uuids="id before_id floor_id key_id", values_as_json="failures"),
    "Brake": table("brakes", r.Brake, "name"),
    "PageSessions": table("page_sessions", r.PageSessions, "account_id", values_as_json="sessions"),
    "FigureCursor": table("figure_cursors", r.FigureCursor, "name", values_as_json="left_out waiting"),
    "RetentionCursor": table("retention_cursors", r.RetentionCursor, "name", values_as_json="walks"),
    "KeptJob": table("kept_jobs", r.KeptJob, "job_id", uuids="job_id"),
    "Rollup": table("rollups", r.Rollup, "key", values_as_json="figures"),
    "Schedule": table("schedules", r.Schedule, "name", uuids="last_job_id"),
    "DeclaredHook": table("declared_hooks", r.DeclaredHook, "name", values_as_json="ends tools"),
    "Configuration": table("configurations", r.Configuration, "name", values_as_json="subjects"),
}
"""The tables of keyed records, by their kind; the order in which PostgreSQL locks them."""
OWNERS: Final[dict[str, str | None]] = {kind: getattr(r, kind).belongs_to for kind in KEYED}
"""The column that holds a keyed record's account; None where all share it."""
IN_FIRST_PART: Final = frozenset(kind for kind in KEYED if not getattr(r, kind).is_in_every_part)
