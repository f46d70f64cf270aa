"""Broken on purpose: each switch takes one safeguard away, in the test's layer, and nothing else.

A checker that never fails proves nothing. `test_broken_on_purpose.py` demands that the simulator notices every one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

import ficha.core.audit
import ficha.core.cancel
import ficha.core.claim
import ficha.core.finish
import ficha.core.lease
import ficha.core.ledger
import ficha.core.recover
import ficha.core.submit
import ficha.core.worker_counts
import ficha.core.workspace
import ficha.engine.committer
import ficha.operations.submits
from ficha.core import commands as c
from ficha.core.figures import CURSOR
from ficha.core.needs import needs
from ficha.core.policy import JOB_ENDED_HOOK
from ficha.core.records import WAITING, Awaiting, FigureCursor, Leased, ProviderState
from ficha.core.rules import RULES
from ficha.engine.committer import Committer
from ficha.files.storage import StorageError
from ficha.operations.files import FileOperations, storage_key
from ficha.store.base import Committed

from .database import Database
from .world import HAS_LAYER

Switch = Callable[[ExitStack], None]


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Without this safeguard."""
    with ExitStack() as stack:
        BREAKS[name](stack)
        yield


def _fence(stack: ExitStack) -> None:
    """Whoever once held a job is heard, under whatever epoch."""
    held_job, rule = ficha.core.lease.held_job, RULES[c.Finish]

    def anyone(ws: Any, job_id: str, epoch: int) -> Any:
        job = ws.job(job_id)
        return job if job is not None and isinstance(job.place, Leased) else held_job(ws, job_id, epoch)

    def finish_by_anyone(ws: Any, command: c.Finish) -> Any:
        return rule.decide(ws, replace(command, epoch=None))

    stack.enter_context(patch.object(ficha.core.lease, "held_job", anyone))
    stack.enter_context(patch.dict(RULES, {c.Finish: replace(rule, decide=finish_by_anyone)}))


def _recheck(stack: ExitStack) -> None:
    """Recovery believes the sweeper's list, and does not look at the lease again under the lock."""
    recover_lease = ficha.core.recover._recover_lease

    def believe(ws: Any, job: Any, lease: Any) -> Any:
        return recover_lease(ws, job, replace(lease, expires_at=0))

    stack.enter_context(patch.object(ficha.core.recover, "_recover_lease", believe))


def _refund_once(stack: ExitStack) -> None:
    """Every late word about a job that failed asks for its refund, and nobody sees that it was paid."""
    unchanged, refund = ficha.core.finish.unchanged, ficha.core.ledger.refund

    def refund_again(ws: Any, job: Any) -> Any:
        if job.status in ("failed", "cancelled"):
            refund(ws, replace(job, refunded=0), job.charged, "once more")
        return unchanged(ws, job)

    stack.enter_context(patch.object(ficha.core.finish, "unchanged", refund_again))
    stack.enter_context(patch.object(ficha.core.cancel, "unchanged", refund_again))
    stack.enter_context(patch.object(Database, "_list_entries", lambda self, entries: None))


def _unique_key(stack: ExitStack) -> None:
    """A submit does not ask whether its key was used before."""
    stack.enter_context(patch.object(ficha.core.submit, "_repeated", lambda ws, command, account: None))


def _slot_check(stack: ExitStack) -> None:
    """A claim does not count the pool's slots."""

    def has_slot(ws: Any, name: str) -> bool:
        return not ws.pool(name).paused

    stack.enter_context(patch.object(ficha.core.claim, "_has_slot", has_slot))


def _pool_lock(stack: ExitStack) -> None:
    """Two claims may count the same pool's slots at once."""

    def is_locked_by(self: Database, needs: Any, name: str) -> bool:
        return name not in needs.ready

    stack.enter_context(patch.object(Database, "_is_locked_by", is_locked_by))


def _lock_order(stack: ExitStack) -> None:
    """Locks are taken in any order."""
    lock_order, random = Database.lock_order, Random(0)

    def shuffled(self: Database, needs: Any) -> Iterable[Any]:
        keys = list(lock_order(self, needs))
        random.shuffle(keys)
        return keys

    stack.enter_context(patch.object(Database, "lock_order", shuffled))


def _account_lock(stack: ExitStack) -> None:
    """Two commit groups may change the same account at once."""
    lock_order = Database.lock_order

    def no_accounts(self: Database, needs: Any) -> Iterable[Any]:
        return (key for key in lock_order(self, needs) if key[0] != "account")

    stack.enter_context(patch.object(Database, "lock_order", no_accounts))


def _flush_before_answer(stack: ExitStack) -> None:
    """A committer answers when the group is decided, and lets the commit go on by itself."""

    async def answer_early(self: Committer, tickets: list[Any]) -> Any:
        group = [command for ticket in tickets for command in ticket.commands]
        decided: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def decide_and_tell(snapshot: Any) -> Any:
            decision = ficha.engine.committer.decide(snapshot, group, self.policy)
            if not decided.done():
                decided.set_result(Committed(*decision))
            return decision

        async def commit() -> None:
            try:
                await self._store.transact(self.id, self._number, needs(group), decide_and_tell)
            except Exception as error:
                if not decided.done():
                    decided.set_exception(error)

        self._number += 1
        under_way.append(asyncio.create_task(commit()))
        return await decided

    under_way: list[asyncio.Task[None]] = []
    stack.enter_context(patch.object(Committer, "_durably", answer_early))


def _ask_marker(stack: ExitStack) -> None:
    """A commit of unknown fate is taken for one that did not happen."""

    async def was_committed(self: Committer, give_up_at: float) -> bool:
        return False

    stack.enter_context(patch.object(Committer, "_was_committed", was_committed))


def _count_of_runs(stack: ExitStack) -> None:
    """A run that was lost is counted as one that its worker handed back."""
    ending = ficha.core.worker_counts.ending

    def mistaken(before: Any, after: Any) -> Any:
        return "returned" if (kind := ending(before, after)) == "recovered" else kind

    stack.enter_context(patch.object(ficha.core.worker_counts, "ending", mistaken))


def _equal_content(stack: ExitStack) -> None:
    """A claim does not ask whether an equal job is being run."""
    stack.enter_context(patch.object(ficha.core.workspace.Workspace, "content", lambda self, spec: None))


def _content_of_an_account(stack: ExitStack) -> None:
    """Equal work is equal whoever asks for it."""
    content_hash = ficha.operations.submits.content_hash

    def anybodys(tool: str, text: str, account_id: str, dedupe: Any) -> str:
        return content_hash(tool, text, account_id, "global")

    stack.enter_context(patch.object(ficha.operations.submits, "content_hash", anybodys))


def _api_key_lock(stack: ExitStack) -> None:
    """Keys of a name are counted without keeping others from making more of them meanwhile."""
    lock_order = Database.lock_order

    def unlocked(self: Database, needs: Any) -> Iterable[tuple[str, ...]]:
        return (key for key in lock_order(self, needs) if key != ("api keys",))

    stack.enter_context(patch.object(Database, "lock_order", unlocked))


def _audit_line(stack: ExitStack) -> None:
    """What is done in a name leaves no line."""
    stack.enter_context(patch.object(ficha.core.audit, "record", lambda *_: None))


def _version_check(stack: ExitStack) -> None:
    """What was decided on cached rows is written whoever has changed them since."""
    stack.enter_context(patch("tests.simulation.optimistic.SimulatedRowAccess.is_version", lambda *_: True))


def _server_of_a_version(stack: ExitStack) -> None:
    """A version is the number of a transaction, on whatever server it ran."""

    def is_number(self: Any, kind: str, key: str, version: str) -> bool:
        return bool(self._database.versions.get((kind, key), "").partition("@")[0] == version.partition("@")[0])

    stack.enter_context(patch("tests.simulation.optimistic.SimulatedRowAccess.is_version", is_number))


def _nothing_ready_check(stack: ExitStack) -> None:
    """A claim beside a submit does not ask whether other jobs are ready."""
    stack.enter_context(patch("tests.simulation.optimistic.SimulatedRowAccess.is_nothing_ready", lambda *_: True))


def _record_of_a_hook(stack: ExitStack) -> None:
    """A hook counts as run when its run begins."""
    rule = RULES[c.HoldHook]

    def hold_once(ws: Any, command: c.HoldHook) -> Any:
        outcome = rule.decide(ws, command)
        if outcome.hook is not None:
            ws.end_hook(outcome.hook)
        return outcome

    stack.enter_context(patch.dict(RULES, {c.HoldHook: replace(rule, decide=hold_once)}))


def _number_of_a_run(stack: ExitStack) -> None:
    """What was said of one run ends whichever run the job is in."""
    rule = RULES[c.Finish]

    def finish_any_run(ws: Any, command: c.Finish) -> Any:
        return rule.decide(ws, replace(command, attempt=None))

    stack.enter_context(patch.dict(RULES, {c.Finish: replace(rule, decide=finish_any_run)}))


def _hold_of_a_poll(stack: ExitStack) -> None:
    """Whoever saw that a provider is to be asked may ask it, whether or not another one does."""
    rule = RULES[c.HoldPoll]

    def hold_always(ws: Any, command: c.HoldPoll) -> Any:
        job = ws.job(command.job_id)
        place = None if job is None else job.place
        held_at = place.poll_at if isinstance(place, Awaiting) else command.held_at
        return rule.decide(ws, replace(command, held_at=held_at))

    stack.enter_context(patch.dict(RULES, {c.HoldPoll: replace(rule, decide=hold_always)}))


def _lock_of_turns(stack: ExitStack) -> None:
    """Two processes may count the same provider's turns at once."""
    lock_order, own = Database.lock_order, ProviderState("").name_in_state[0]

    def no_turns(self: Database, needs: Any) -> Iterable[tuple[str, ...]]:
        return (key for key in lock_order(self, needs) if key[0] != own)

    stack.enter_context(patch.object(Database, "lock_order", no_turns))


def _row_of_the_outbox(stack: ExitStack) -> None:
    """That somebody is to be told of a job's end is not written with the end, but by its process, a moment later."""
    commit = Database.commit

    def commit_before(self: Database, transaction: Any) -> None:
        hooks, changes = self.state.hooks, transaction.changes
        owed = {
            (hook.name, hook.job_id): hook
            for hook in changes.hooks
            if hook.name == JOB_ENDED_HOOK and (hook.name, hook.job_id) not in hooks
        }
        if owed and not transaction.has_ended:
            transaction.changes = replace(
                changes, hooks=[hook for hook in changes.hooks if (hook.name, hook.job_id) not in owed]
            )
            self.loop.call_later(0.5, hooks.update, owed, context=transaction.process.context)
        commit(self, transaction)

    stack.enter_context(patch.object(Database, "commit", commit_before))


def _row_until_the_bytes_are_gone(stack: ExitStack) -> None:
    """The row of a removed file goes before its bytes."""

    async def forget_first(self: FileOperations, file: Any) -> bool:
        await self.engine.call(c.ForgetFile(file.id))
        with suppress(StorageError):
            await self.file_access.storage.delete(storage_key(file))
        return True

    stack.enter_context(patch.object(FileOperations, "_delete_bytes", forget_first))


def _turn_of_the_cursor(stack: ExitStack) -> None:
    """Figures are added up whoever has added the same ones since they were read."""
    rule = RULES[c.FoldFigures]

    def add_anyhow(ws: Any, command: c.FoldFigures) -> Any:
        cursor = ws.find(FigureCursor, CURSOR) or FigureCursor(CURSOR)
        number = max(command.number, cursor.number)
        return rule.decide(ws, replace(command, turn=cursor.turn, number=number, came=()))

    stack.enter_context(patch.dict(RULES, {c.FoldFigures: replace(rule, decide=add_anyhow)}))


def _place_of_a_left_job(stack: ExitStack) -> None:
    """A session that ends takes along what a worker has taken since its jobs were listed."""
    stack.enter_context(patch.object(ficha.core.cancel, "WAITING", (*WAITING, Leased)))


def _word_of_a_submit(stack: ExitStack) -> None:
    """A submit does not show that its page is open."""
    stack.enter_context(patch.object(ficha.core.submit, "is_heard", lambda ws, account_id, session: False))


BREAKS: Final[dict[str, Switch]] = {
    "lease fencing": _fence,
    "recheck in recovery": _recheck,
    "unique refund": _refund_once,
    "key uniqueness": _unique_key,
    "slot check": _slot_check,
    "pool lock": _pool_lock,
    "lock order": _lock_order,
    "account lock": _account_lock,
    "flush before answer": _flush_before_answer,
    "marker of a commit": _ask_marker,
    "count of runs": _count_of_runs,
    "turn of the cursor": _turn_of_the_cursor,
    "one of equal jobs": _equal_content,
    "content of an account": _content_of_an_account,
    "lock of API keys": _api_key_lock,
    "audit line": _audit_line,
    "record of a hook": _record_of_a_hook,
    "number of a run": _number_of_a_run,
    "hold of a poll": _hold_of_a_poll,
    "lock of turns": _lock_of_turns,
    "row of the outbox": _row_of_the_outbox,
    "row until the bytes are gone": _row_until_the_bytes_are_gone,
    "word of a submit": _word_of_a_submit,
    "place of a left job": _place_of_a_left_job,
}
OF_THE_LAYER: Final[dict[str, Switch]] = {
    "version check": _version_check,
    "server of a version": _server_of_a_version,
    "nothing is ready": _nothing_ready_check,
}
"""What only the optimistic layer asks for: other seeds cannot notice it."""
if HAS_LAYER:
    BREAKS.update(OF_THE_LAYER)
