"""All operations in one class, and the same bound to another engine or another actor than the application's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .. import validation as arg
from ..cron_entries import CronEntry
from ..engine.engine import Engine
from ..engine.queries import Queries
from ..outbound import Outbound
from ..tools import Tool
from ..validation import Limits
from .accounts import AccountOperations
from .admin import AdminOperations
from .api_keys import ApiKeyOperations
from .batches import BatchOperations
from .brakes import BrakeOperations
from .bulk_acts import BulkOperations
from .file_access import FileAccess
from .following import FollowOperations
from .leases import LeaseOperations
from .provider_jobs import ProviderOperations
from .quotes import QuoteOperations
from .retention import RetentionOperations
from .schedules import ScheduleOperations
from .searches import SearchOperations
from .sessions import SessionOperations

MACHINERY: Final = frozenset(
    (
        *("actor", "key_id", "default_plan", "engine", "queries", "separate_operations", "use_database"),
        *("submit_request", "submit_batch_request", "quote_request", "save_step_json", "steps_json"),
        *("stand", "work_heard", "telling_of_work", "cancels_heard", "wait_for_cancels", "lost", "register_worker"),
        *("completed", "failed", "retry_later", "accepted", "cancelled", "interrupted", "end_many", "finish_job"),
        *("use_api_key", "due_hooks", "hold_hook", "end_hook", "hooks_heard", "wait_for_hooks"),
        *("clear_up", "next_due_s", "outbound", "provider_http", "provider_turn", "callback_url", "check_callback"),
        *("note_start", "open_start", "kept_word", "accepted_ref", "queued_again_at", "payload_of"),
        *("due_polls", "hold_poll", "end_poll", "finish_awaiting", "polls_heard", "wait_for_polls"),
        *("file_access", "link_with", "stored_file", "receive", "save_result", "sweep_files"),
        *("files_of", "open_file", "url_of", "save_file"),
        *("make_deliveries", "due_deliveries", "hold_delivery", "end_delivery", "forget_old_deliveries"),
        *("deliveries_heard", "wait_for_deliveries"),
        *("follow_in_session", "due_bulk_acts", "hold_bulk_act", "next_bulk_jobs", "advance_bulk_act"),
        *("bulk_acts_heard", "wait_for_bulk_acts", "cron_entries", "prune_step"),
    )
)
"""Operations for the worker, the server and the command line, of no use to most applications: `dir` omits them."""


class AllOperations(
    AccountOperations,
    ApiKeyOperations,
    BatchOperations,
    LeaseOperations,
    AdminOperations,
    QuoteOperations,
    FollowOperations,
    RetentionOperations,
    ProviderOperations,
    SearchOperations,
    SessionOperations,
    BulkOperations,
    BrakeOperations,
    ScheduleOperations,
):
    """Every operation there is."""

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - MACHINERY)

    def acting(self, actor: str | None, *, key_id: str | None = None) -> BoundOperations:
        """The same operations on the same engine, in an actor's name: every change writes a line of the audit log.

        actor: None if changes are not audited. key_id: the API key that submitted jobs name.
        """
        return BoundOperations(
            self.engine,
            tools=self.tools,
            limits=self.limits,
            default_plan=self.default_plan,
            queries=self.queries,
            outbound=self.outbound,
            actor=arg.optional_name(actor, "an actor"),
            key_id=key_id,
            file_access=self.file_access,
            cron_entries=self.cron_entries,
        )


class BoundOperations(AllOperations):
    """Operations for a thread or a command that needs an engine or an actor of its own."""

    def __init__(
        self,
        engine: Engine,
        *,
        tools: Mapping[str, Tool],
        limits: Limits,
        default_plan: str,
        file_access: FileAccess,
        queries: Queries | None = None,
        outbound: Outbound | None = None,
        actor: str | None = None,
        key_id: str | None = None,
        cron_entries: Mapping[str, CronEntry] | None = None,
    ) -> None:
        self.tools = tools
        self.limits = limits
        self.default_plan = default_plan
        self.actor = actor
        self.key_id = key_id
        self.file_access = file_access
        self.cron_entries = cron_entries or {}
        self._engine = engine
        self._outbound = outbound or Outbound()
        self._queries = queries or Queries(engine, engine.positions, limits.page_bytes)

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def queries(self) -> Queries:
        return self._queries

    @property
    def outbound(self) -> Outbound:
        return self._outbound
