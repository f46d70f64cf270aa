"""Scenarios as text: one command per line, what came of it beside it.

    plan free max_active=1
    open ana free credits=10      -> balance=10
    submit ana j1 cost=5 key=k1   -> queued balance=5
    submit ana j2 cost=5          -> ACTIVE_JOB_EXISTS job=j1
    +10s
    claim gpu w1                  -> j1 epoch=1
    finish j1 e1 completed        -> completed refunded=0
    ledger ana                    -> grant 10, charge -5

Every line with an arrow is checked: the words before the first `name=value` to the letter, and the facts that are
named. `says`, `warns` and `spending` are texts, of which the part given has to occur. A line without an arrow must not
be refused. After every line all invariants have to hold, and a refusal has to have changed nothing. A run begins on
Tuesday 2026-03-10 at 00:00 UTC with one pool, `gpu`, without a limit.

settings    clock 10:00 | clock 2026-01-31T23:59 | +10s | -1h | plan NAME … | no-plan NAME | policy … | tool NAME … |
            checkpoints A B C (a line) | checkpoints A>B,C B> C> (what may follow each) | turns NAME=VALUE … |
            webhooks
commands    open, grant, adjust, change-plan, recount, submit, submit-each, claim, start, beat, checkpoint, step,
            finish, webhook, cancel, reserve, consume, release, expire, recover, forget, requeue, discard, remove, pool,
            pause, resume, resize, elect, api-key, revoke, use, turn, end-turn, open-breaker, close-breaker, verify,
            upload, save, copy, stored, remove-file, expire-file, forget-file, callback, poll, poll-end, add-webhook,
            remove-webhook, enable-webhook, rotate-webhook, test-webhook, resend, stay, leave, hear, end-session,
            refund, begin-bulk, hold-bulk, advance, stop-bulk, declare-schedule, pause-schedule, resume-schedule, fire,
            run-schedule, forget-hook; `as ACTOR` before any of them; lines indented below
            `together` are one commit group
questions   account, file, files ACCOUNT, ledger, job, events, event JOB KIND, queue POOL, reservation, batch, why JOB,
            provider NAME, sessions ACCOUNT, bulk ID, schedule NAME, audit, audited NUMBER
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.checkpoints import Checkpoints
from ficha.core.policy import HookTerms, Plan, Retention, TurnTerms, Webhooks
from ficha.core.pools import why_waiting
from ficha.core.records import (
    Awaiting,
    BulkAct,
    File,
    FileUsage,
    Job,
    Leased,
    PageSessions,
    ProviderOutage,
    ProviderState,
    Ready,
    Schedule,
)
from ficha.core.schedules import FREE
from ficha.declarations import declared_checkpoints
from tests.core.lines import OPTIONS, Line, duration, ending_of, epoch_of, is_duration, listed, slots_of
from tests.core.telling import Told, told
from tests.core.world import World
from tests.support.new_jobs import new_job

_TEXTS = ("says", "warns", "spending")


def play(text: str) -> World:
    """Plays a scenario to its end and hands back the world as it is then."""
    run = _ScenarioRun()
    block: list[str] = []
    indent = 0
    for number, line in enumerate([*text.splitlines(), "end"], start=1):
        line = re.sub(r"(^|\s+)#.*$", "", line).rstrip()
        depth = len(line) - len(line.lstrip())
        if block and depth <= indent:
            run.play(block, number)
            block = []
        elif block:
            block.append(line)
            continue
        if line.strip() == "together":
            block, indent = [line], depth
        elif line and line != "end":
            run.play([line], number)
    return run.world


class _ScenarioRun:
    def __init__(self) -> None:
        self.world = World()
        self.world.declare_pools(gpu=None)
        self.tools: dict[str, dict[str, str]] = {}
        self.runs: dict[str, c.FileRun] = {}
        """Of the files that are results, which run makes them."""
        self.declared: Checkpoints | None = None
        self.turn_terms = TurnTerms()

    def play(self, block: list[str], number: int) -> None:
        lines = [Line(text) for text in block if text.strip() != "together"]
        try:
            self._play(lines)
        except AssertionError as error:
            error.add_note(f"in line {number}: {' / '.join(line.text for line in lines)}")
            raise
        faults = self.world.faults()
        assert not faults, f"after line {number}, {lines[-1].text!r}: {faults}"

    def _play(self, lines: list[Line]) -> None:
        if len(lines) == 1 and (setting := getattr(self, f"_set_{_name(lines[0].verb)}", None)) is not None:
            return setting(lines[0])
        if len(lines) == 1 and is_duration(lines[0].verb.removeprefix("+")):
            self.world.now += duration(lines[0].verb.removeprefix("+"))
            return None
        if len(lines) == 1 and (question := getattr(self, f"_ask_{_name(lines[0].verb)}", None)) is not None:
            assert lines[0].arrow, "a question needs an answer"
            return self._check(lines[0], question(*lines[0].words))
        group = [(line, self._commands(line)) for line in lines]
        outcomes = iter(self.world.run(*(command for _, commands in group for command in commands)))
        for line, commands in group:
            answers = [told(next(outcomes)) for _ in commands]
            for head, facts in answers:
                if line.arrow:
                    self._check(line, (head, facts))
                else:
                    assert not head.isupper(), f"was refused: {head} {facts['says']}"
            if len(group) == 1 and all(head.isupper() for head, _ in answers):
                self._check_nothing_changed()
        return None

    def _check_nothing_changed(self) -> None:
        """A refusal leaves everything as it was; only a word that came too late is kept, and counted."""
        changes = self.world.changes
        late = all(event.kind == "late" for event in changes.events)
        same = all(_uncounted(change.before) == _uncounted(change.after) for change in changes.jobs)
        rest = replace(changes, events=[], history=[], jobs=[])
        assert late and same and not rest, f"refused, and yet it changed {changes}"  # noqa: PT018

    def _check(self, line: Line, answer: Told) -> None:
        head, facts = answer
        shown = {name: self._shown(facts.get(name, "?"), text, name) for name, text in line.facts.items()}
        got = {name: value for name, value in facts.items() if value is not None}
        as_expected = line.head in ("", head) and shown == line.facts
        assert as_expected, f"expected {line.head or '…'} {line.facts}, got {head} {got}"

    def _shown(self, actual: Any, expected: str, name: str) -> str:
        """The actual value in the way the expected one is written, so that the two compare as text."""
        if actual is None or actual == ():
            return "none"
        if isinstance(actual, bool):
            return "yes" if actual else "no"
        if name in _TEXTS:
            return expected if expected in str(actual) else str(actual)
        if isinstance(actual, int) and (":" in expected or expected[:1] == "+"):
            return expected if self._instant(expected) == actual else _clock(actual)
        return str(actual)

    def _instant(self, text: str) -> int:
        """`+60s` from now, `10:05` today, or a date with a time."""
        if text.startswith("+"):
            return self.world.now + duration(text[1:])
        if "T" in text:
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
        else:
            today = datetime.fromtimestamp(self.world.now // 1_000_000, UTC).date()
            moment = datetime.fromisoformat(f"{today}T{text}").replace(tzinfo=UTC)
        return int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond

    # Settings

    def _set_clock(self, line: Line) -> None:
        self.world.now = self._instant(line.words[0])

    def _set_plan(self, line: Line) -> None:
        numbers = {name: float(text) if "." in text else int(text) for name, text in line.options.items()}
        self.world.declare(Plan(line.words[0], **numbers))  # type: ignore[arg-type]

    def _set_no_plan(self, line: Line) -> None:
        kept = {name: plan for name, plan in self.world.policy.plans.items() if name != line.words[0]}
        self.world.policy = replace(self.world.policy, plans=kept)

    def _set_policy(self, line: Line) -> None:
        for name, text in line.options.items():
            value: Any = frozenset(text.split(",")) if name.endswith("_tools") else None
            value = value or (
                duration(text) // 1_000 if name.endswith("_ms") else float(text) if "." in text else int(text)
            )
            self.world.policy = replace(self.world.policy, **{name: value})

    def _set_tool(self, line: Line) -> None:
        self.tools[line.words[0]] = line.options

    def _set_webhooks(self, line: Line) -> None:
        self.world.policy = replace(self.world.policy, webhooks=Webhooks())

    def _set_retention(self, line: Line) -> None:
        """In days."""
        days: dict[str, Any] = {name: float(text) for name, text in line.options.items()}
        self.world.policy = replace(self.world.policy, retention=Retention(**days))

    def _set_hook(self, line: Line) -> None:
        """A hook that is run for every job that completed."""
        terms = HookTerms(line.words[0], frozenset({"completed"}))
        self.world.policy = replace(self.world.policy, hooks=(terms,))

    def _set_turns(self, line: Line) -> None:
        """The terms of all turns from here on."""
        for name, text in line.options.items():
            us = duration(text) if name.endswith(("_ms", "_us")) else 0
            value = us // 1_000 if name.endswith("_ms") else us if name.endswith("_us") else int(text)
            self.turn_terms = replace(self.turn_terms, **{name: value})

    def _set_checkpoints(self, line: Line) -> None:
        parts = [word.partition(">") for word in line.words]
        branches = {name: after.split(",") if after else [] for name, _, after in parts}
        self.declared = declared_checkpoints(branches if any(mark for _, mark, _ in parts) else line.words)

    # Commands

    def _commands(self, line: Line) -> list[c.Command]:
        build = getattr(self, f"_do_{_name(line.verb)}", None)
        assert build is not None, f"there is no command {line.verb!r}"
        assert line.options.keys() <= OPTIONS, f"there is no option {line.options.keys() - OPTIONS}"
        made = build(line)
        return made if isinstance(made, list) else [made]

    def _do_as(self, line: Line) -> list[c.Command]:
        """A command in somebody's name."""
        _, actor, rest = line.text.split(maxsplit=2)
        return [c.ActingAs(actor, command) for command in self._commands(Line(rest))]  # type: ignore[arg-type]

    def _do_open(self, line: Line) -> c.Command:
        return c.OpenAccount(line.words[0], line.words[1], int(line.options.get("credits", 0)))

    def _do_grant(self, line: Line) -> list[c.Command]:
        account, amount = line.words
        return [self._credit(line, account, int(amount), "grant")] * int(line.options.get("times", 1))

    def _do_adjust(self, line: Line) -> c.Command:
        return self._credit(line, line.words[0], int(line.words[1]), "adjust")

    def _credit(self, line: Line, account: str, amount: int, kind: Any) -> c.Command:
        return c.Credit(account, amount, kind, line.options.get("reason"), line.options.get("key"))

    def _do_change_plan(self, line: Line) -> c.Command:
        return c.ChangePlan(*line.words)

    def _do_recount(self, line: Line) -> c.Command:
        return c.RecountAccount(*line.words)

    def _do_submit(self, line: Line) -> c.Command:
        account, names = line.words
        options = line.options
        return c.Submit(
            account,
            tuple(self._new_job(name, at, line) for at, name in enumerate(listed(names))),
            fingerprint=options.get("tool", "upscale") + options.get("body", ""),
            key=options.get("key"),
            key_ttl_ms=line.span("ttl"),
            reservation_id=options.get("reservation"),
            batch_id=options.get("batch") or options.get("joins"),
            run_at=self._instant(options["at"]) if "at" in options else None,
            delay_ms=line.span("delay") or 0,
            joins="joins" in options,
            as_far_as_credits="far" in options,
        )

    def _do_submit_each(self, line: Line) -> list[c.Command]:
        _, names = line.words
        each = [Line(line.text.replace(names, name, 1)) for name in listed(names)]
        return [self._do_submit(one) for one in each]

    def _new_job(self, name: str, at: int, line: Line) -> c.NewJob:
        tool = line.options.get("tool", "upscale")
        line = Line(line.text)
        line.options = {"cost": "1", **self.tools.get(tool, {}), **line.options}
        numbers = {
            field: int(line.options[option])
            for option, field in (("units", "units"), ("priority", "priority"), ("attempts", "max_attempts"))
            if option in line.options
        }
        spans = {
            f"{field}_ms": line.span(option)
            for option, field in (
                ("timeout", "timeout"),
                ("max_wait", "max_wait"),
                ("backoff", "backoff"),
                ("backoff_max", "backoff_max"),
            )
            if option in line.options
        }
        contents = line.options["content"].split(",") if "content" in line.options else [None]
        return new_job(
            name,
            tool,
            line.options.get("pool", "gpu"),
            f'"payload of {name}"',
            int(line.options["cost"]),
            content_hash=contents[min(at, len(contents) - 1)],
            session=line.options.get("session"),
            provider=line.options.get("provider"),
            files=tuple(line.options["files"].split(",")) if "files" in line.options else (),
            correlation_id=line.options.get("correlation"),
            **numbers,
            **spans,  # type: ignore[arg-type]
        )

    def _do_claim(self, line: Line) -> c.Command:
        pools, worker = line.words
        starts = line.options.get("starts") == "yes"
        apart = line.options.get("apart") == "yes"
        return c.Claim(worker, tuple(pools.split(",")), int(line.options.get("limit", 1)), starts, apart)

    def _do_take(self, line: Line) -> c.Command:
        """A claim of one job by its id."""
        job, pool, worker = line.words
        return c.ClaimJob(worker, pool, job, line.options.get("starts") == "yes")

    def _do_report(self, line: Line) -> c.Command:
        progress = line.options.get("progress")
        return c.Report(
            line.words[0], epoch_of(line), None if progress is None else int(progress), line.options.get("partial")
        )

    def _do_note(self, line: Line) -> c.Command:
        return c.Note(line.words[0], epoch_of(line), line.options["text"])

    def _do_start(self, line: Line) -> c.Command:
        return c.Heartbeat(line.words[0], epoch_of(line), starts=True)

    def _do_beat(self, line: Line) -> c.Command:
        return c.Heartbeat(line.words[0], epoch_of(line))

    def _do_checkpoint(self, line: Line) -> c.Command:
        job, _, name, progress = line.words
        data = line.options.get("data", "{}")
        return c.SaveCheckpoint(job, epoch_of(line), name, int(progress.rstrip("%")), data, self.declared)

    def _do_step(self, line: Line) -> c.Command:
        job, _, name, result = line.words
        return c.SaveStep(job, epoch_of(line), name, result)

    def _do_finish(self, line: Line) -> c.Command:
        return c.Finish(
            line.words[0], ending_of(line, line.words[2]), epoch_of(line), float(line.options.get("jitter", "0"))
        )

    def _do_webhook(self, line: Line) -> c.Command:
        """A call-back, which proves itself by other means than an epoch."""
        attempt = line.options.get("attempt")
        ending = ending_of(line, line.words[1])
        return c.Finish(line.words[0], ending, attempt=None if attempt is None else int(attempt))

    def _do_request(self, line: Line) -> c.Command:
        """The worker is about to ask a provider for the job's work."""
        return c.NoteStart(line.words[0], epoch_of(line), "acme", line.options.get("target", "painter"))

    def _do_callback(self, line: Line) -> c.Command:
        """A provider's call-back, of the job's first run unless it says of which."""
        options = line.options
        verdict: Any = options.get("verdict", "verified")
        body, told = options.get("body", ""), options.get("told")
        attempt = int(options.get("attempt", 0))
        ends = options.get("ends") == "yes"
        return c.NoteCallback(line.words[0], attempt, verdict, options.get("ref"), body=body, told=told, ends=ends)

    def _do_poll(self, line: Line) -> c.Command:
        held = line.options.get("held")
        return c.HoldPoll(line.words[0], line.span("hold") or 30_000, None if held is None else self._instant(held))

    def _do_poll_end(self, line: Line) -> c.Command:
        progress = line.options.get("progress")
        return c.EndPoll(
            line.words[0],
            self._instant(line.options["held"]),
            line.span("poll") or 30_000,
            line.span("after") or 0,
            None if progress is None else int(progress),
        )

    def _do_cancel(self, line: Line) -> c.Command:
        return c.CancelJob(line.words[0], line.options.get("by"), line.options.get("reason"))

    def _do_reserve(self, line: Line) -> c.Command:
        return c.Reserve(line.words[1], line.words[0], line.span("ttl"))

    def _do_consume(self, line: Line) -> c.Command:
        return c.EndReservation(line.words[0], "consumed", line.options.get("by"))

    def _do_release(self, line: Line) -> c.Command:
        return c.EndReservation(line.words[0], "released", line.options.get("by"))

    def _do_expire(self, line: Line) -> c.Command:
        return c.ExpireReservation(line.words[0])

    def _do_recover(self, line: Line) -> c.Command:
        return c.Recover(line.words[0])

    def _do_forget(self, line: Line) -> c.Command:
        account, scope, key = line.words
        return c.ForgetKey(account, scope, key)  # type: ignore[arg-type]

    def _do_requeue(self, line: Line) -> c.Command:
        return c.Requeue(line.words[0], line.options["as"])

    def _do_resubmit(self, line: Line) -> c.Command:
        """A requeue by the account's user, of a tool for all plans or for those that are named."""
        account, job = line.words
        plans = tuple(line.options["plans"].split(",")) if "plans" in line.options else None
        tools = {
            line.options.get("tool", "video"): c.ToolTerms(
                int(line.options.get("priority", "0")), plans, line.options.get("provider")
            )
        }
        return c.Resubmit(account, job, line.options["as"], tools)

    def _do_discard(self, line: Line) -> c.Command:
        return c.Discard(line.words[0])

    def _do_remove(self, line: Line) -> c.Command:
        files = line.options.get("files")
        return c.RemoveWork(line.words[0], line.words[1], tuple(files.split(",")) if files else ())

    def _do_prune(self, line: Line) -> c.Command:
        account, job_id = line.words
        files, inputs = (tuple(filter(None, line.options.get(name, "").split(","))) for name in ("files", "inputs"))
        content = ("video", line.options["content"]) if "content" in line.options else None
        batches = (line.options["batch"],) if "batch" in line.options else ()
        submitted = int(line.options.get("submitted", 0))
        return c.PruneJobs(account, (c.OldJob(job_id, files, inputs, content),), batches, submitted)

    def _do_close(self, line: Line) -> c.Command:
        return c.CloseAccount(line.words[0], tuple(filter(None, line.options.get("api_keys", "").split(","))))

    def _do_erase(self, line: Line) -> c.Command:
        named = {name: line.options.get(name, "").split(",") for name in ("keys", "reservations", "entries")}
        return c.EraseRows(
            line.words[0],
            tuple(("submit", key) for key in named["keys"] if key),
            tuple(filter(None, named["reservations"])),
            entries=tuple(int(number) for number in named["entries"] if number),
        )

    def _do_pool(self, line: Line) -> c.Command:
        return c.DeclarePool(line.words[0], slots_of(line.options["slots"]))

    def _do_pause(self, line: Line) -> c.Command:
        return c.PausePool(line.words[0])

    def _do_resume(self, line: Line) -> c.Command:
        return c.PausePool(line.words[0], paused=False)

    def _do_pause_tool(self, line: Line) -> c.Command:
        return c.PauseTool(line.words[0], tuple(line.words[1:]))

    def _do_resume_tool(self, line: Line) -> c.Command:
        return c.PauseTool(line.words[0], tuple(line.words[1:]), paused=False)

    def _do_close_tool(self, line: Line) -> c.Command:
        return c.CloseSubmits("tool", line.words[0], line.options["reason"])

    def _do_open_tool(self, line: Line) -> c.Command:
        return c.CloseSubmits("tool", line.words[0], None)

    def _do_close_pool(self, line: Line) -> c.Command:
        return c.CloseSubmits("pool", line.words[0], line.options["reason"])

    def _do_open_pool(self, line: Line) -> c.Command:
        return c.CloseSubmits("pool", line.words[0], None)

    def _do_hold_back(self, line: Line) -> c.Command:
        return c.HoldBack(line.words[0], line.words[1])

    def _do_resize(self, line: Line) -> c.Command:
        return c.ResizePool(line.words[0], slots_of(line.words[1]))

    def _do_elect(self, line: Line) -> c.Command:
        return c.Elect(line.words[0], line.words[1], line.span("ttl") or 0)

    def _do_api_key(self, line: Line) -> c.Command:
        key_id, name = line.words
        scope: Any = line.options.get("scope", "admin")
        texts = f"hint of {key_id}", f"digest of {key_id}"
        return c.CreateApiKey(key_id, name, *texts, scope, line.options.get("account"), line.span("ttl"))

    def _do_revoke(self, line: Line) -> c.Command:
        return c.RevokeApiKey(line.words[0])

    def _do_use(self, line: Line) -> c.Command:
        return c.UseApiKey(line.words[0])

    def _do_turn(self, line: Line) -> c.Command:
        provider, turn_id = line.words
        return c.TakeTurn(provider, turn_id, self._terms(line))

    def _do_end_turn(self, line: Line) -> c.Command:
        provider, turn_id, how = line.words
        is_fault = {"worked": False, "failed": True, "unknown": None}[how]
        return c.EndTurn(provider, turn_id, self._terms(line), is_fault, line.options.get("error"))

    def _terms(self, line: Line) -> TurnTerms:
        return replace(
            self.turn_terms,
            **{name: int(line.options[name]) for name in ("at_once", "burst") if name in line.options},
            **({"interval_us": duration(line.options["every"])} if "every" in line.options else {}),
        )

    def _do_verify(self, line: Line) -> c.Command:
        return c.NoteVerification(int(line.words[0]))

    def _do_open_breaker(self, line: Line) -> c.Command:
        declared = line.options.get("declared") == "yes"
        return c.OpenBreaker(line.words[0], line.span("ttl") or 0, declared, line.options.get("reason"))

    def _do_close_breaker(self, line: Line) -> c.Command:
        return c.CloseBreaker(line.words[0], line.options.get("declared") == "yes")

    def _do_add_webhook(self, line: Line) -> c.Command:
        owner, endpoint_id = line.words
        return c.AddEndpoint(owner, endpoint_id, "https://hooks.example/path?token=s3cret", "secret 1")

    def _do_remove_webhook(self, line: Line) -> c.Command:
        return c.ChangeEndpoint(*line.words, to="removed")

    def _do_enable_webhook(self, line: Line) -> c.Command:
        return c.ChangeEndpoint(*line.words, to="enabled")

    def _do_rotate_webhook(self, line: Line) -> c.Command:
        return c.RotateSecret(*line.words, "secret 2", 60_000)

    def _do_test_webhook(self, line: Line) -> c.Command:
        return c.PingEndpoint(*line.words, "{}")

    def _do_resend(self, line: Line) -> c.Command:
        owner, delivery_id = line.words
        return c.ResendDelivery(delivery_id, owner)

    def _do_refund(self, line: Line) -> c.Command:
        return c.RefundJob(line.words[0], line.options.get("reason", "a gift"), *_part(line))

    def _do_begin_bulk(self, line: Line) -> c.Command:
        act_id, act = line.words
        total, cost = (int(line.options.get(name, 0)) for name in ("total", "cost"))
        reason = line.options.get("reason", "as a test")
        begun = c.BeginBulkAct(act_id, act, "dead:yes", reason, "boss", total, cost, "~")  # type: ignore[arg-type]
        amount, share = _part(line)
        return replace(begun, amount=amount, share=share)

    def _do_hold_bulk(self, line: Line) -> c.Command:
        return c.HoldBulkAct(line.words[0], line.span("hold") or 30_000)

    def _do_advance(self, line: Line) -> c.Command:
        """A step of a bulk act: `advance ACT HOLD FROM JOBS… before=ID`; requeues make jobs with a `+` at the end."""
        act_id, hold, from_id, *jobs = line.words
        requeues = self.world.state.of(BulkAct)[act_id].act == "requeue"
        named = tuple((job, f"{job}+" if requeues else None) for job in jobs)
        broken = line.options.get("broken")
        return c.AdvanceBulkAct(
            act_id,
            int(hold),
            30_000,
            from_id,
            named,
            line.options.get("before"),
            None if broken is None else (broken, "its rows were changed by hand"),
        )

    def _do_stop_bulk(self, line: Line) -> c.Command:
        return c.StopBulkAct(line.words[0])

    def _do_declare_schedule(self, line: Line) -> c.Command:
        """`declare-schedule NAME`; `every=60s` stands for its times."""
        return c.DeclareSchedule(
            line.words[0], line.options.get("every", "hourly"), "UTC", "upscale", line.options.get("account")
        )

    def _do_pause_schedule(self, line: Line) -> c.Command:
        return c.PauseSchedule(line.words[0])

    def _do_resume_schedule(self, line: Line) -> c.Command:
        return c.PauseSchedule(line.words[0], paused=False)

    def _do_fire(self, line: Line) -> c.Command:
        """`fire NAME JOB`: the slot `after=…` behind what is settled; without a job it is passed over."""
        name, *jobs = line.words
        known = self.world.state.of(Schedule).get(name)
        from_at = (0 if known is None else known.slot_at) - duration(line.options.get("before", "0s"))
        account = line.options.get("account", FREE)
        made = tuple(new_job(job, "upscale", "gpu", "{}", int(line.options.get("cost", 0))) for job in jobs)
        return c.FireSchedule(
            *(name, line.options.get("every", "hourly"), "UTC", from_at),
            slot_at=from_at + duration(line.options.get("after", "1h")),
            account_id=account,
            submit=c.Submit(account, made, key=line.options.get("key")) if made else None,
            passed=int(line.options.get("least", 0)),
            code="INVALID_PAYLOAD" if "error" in line.options else None,
            message=line.options.get("error"),
        )

    def _do_forget_hook(self, line: Line) -> c.Command:
        return c.ForgetHook(line.words[0])

    def _do_run_schedule(self, line: Line) -> c.Command:
        name, job = line.words
        account = line.options.get("account", FREE)
        made = new_job(job, "upscale", "gpu", "{}", int(line.options.get("cost", 0)))
        return c.RunSchedule(name, account, c.Submit(account, (made,), key=line.options.get("key")))

    def _do_stay(self, line: Line) -> c.Command:
        return c.ChangeSession(*line.words, to="open")

    def _do_leave(self, line: Line) -> c.Command:
        return c.ChangeSession(*line.words, to="left")

    def _do_hear(self, line: Line) -> c.Command:
        return c.HearSession(*line.words)

    def _do_end_session(self, line: Line) -> c.Command:
        """With the jobs that are named behind it."""
        account, session, *jobs = line.words
        return c.EndSession(account, session, tuple(jobs), more=line.options.get("more") == "yes")

    # Questions

    def _ask_bulk(self, act_id: str) -> Told:
        act = self.world.state.of(BulkAct)[act_id]
        facts = {name: getattr(act, name) for name in act.__struct_fields__}
        failures = ", ".join(f"{one.job_id} {one.code}" for one in act.failures) or None
        texts = "; ".join(one.text for one in act.failures)
        return act.state, {**facts, "failures": failures, "says": texts, "before": act.before_id}

    def _ask_schedule(self, name: str) -> Told:
        schedule = self.world.state.of(Schedule)[name]
        facts = {name: getattr(schedule, name) for name in schedule.__struct_fields__}
        return "paused" if schedule.paused else "active", {**facts, "says": schedule.last_message}

    def _ask_sessions(self, account_id: str) -> Told:
        """The sessions of an account, and when the first of them ends."""
        known = self.world.state.of(PageSessions).get(account_id)
        if known is None:
            return "none", {}
        return " ".join(session.name for session in known.sessions), {"next": known.next_at}

    def _ask_provider(self, name: str) -> Told:
        """What is stored of a provider: its breaker, its failures in a row, and the turns that are held."""
        state = self.world.state.of(ProviderState).get(name)
        outage = self.world.state.of(ProviderOutage).get(name)
        facts: dict[str, Any] = {} if outage is None else {"until": outage.until_at, "trips": outage.trips}
        if outage is not None:
            facts.update(probe=outage.probe, since=outage.since_at, error=outage.error)
        if state is not None:
            held = ",".join(turn_id for turn_id, _ in state.turns) or None
            facts.update(failures=state.failures, turns=held, next=state.next_at)
        return "closed" if outage is None else "open", facts

    def _do_upload(self, line: Line) -> c.Command:
        """`size` is what the upload says that it has; else it has from `least` to `most` bytes."""
        account, file_id = line.words
        least, most = (line.options.get("size", line.options.get(name)) for name in ("least", "most"))
        return c.BeginFile(
            file_id,
            account,
            line.options.get("name", f"{file_id}.png"),
            int(least or 0),
            None if most is None else int(most),
            line.options.get("reservation"),
        )

    def _do_save(self, line: Line) -> c.Command:
        """A handler begins a result: `save JOB EPOCH FILE`."""
        job, _, file_id = line.words
        return self._result(line, file_id, c.FileRun(job, epoch_of(line)))

    def _do_copy(self, line: Line) -> c.Command:
        """A provider's result begins to be copied: `copy JOB ATTEMPTS FILE`."""
        job, attempts, file_id = line.words
        return self._result(line, file_id, c.FileRun(job, attempts=int(attempts)))

    def _result(self, line: Line, file_id: str, run: c.FileRun) -> c.Command:
        owner = line.options.get("account", "ana")
        self.runs[file_id] = run
        return c.BeginFile(file_id, owner, f"{file_id}.png", int(line.options.get("size", 0)), run=run)

    def _do_stored(self, line: Line) -> c.Command:
        """The bytes of a file have come."""
        file_id, size = line.words
        account = line.options.get("by", self._owner_of(file_id))
        return c.StoreFile(file_id, account, int(size), "image/png", f"digest of {file_id}", self.runs.get(file_id))

    def _do_remove_file(self, line: Line) -> c.Command:
        file_id = line.words[0]
        return c.RemoveFile(
            file_id, line.options.get("by", self._owner_of(file_id)), aborts=line.options.get("aborts") == "yes"
        )

    def _do_expire_file(self, line: Line) -> c.Command:
        file = self.world.state.of(File).get(line.words[0])
        return c.ExpireFile(line.words[0], self._owner_of(line.words[0]), None if file is None else file.job_id)

    def _do_forget_file(self, line: Line) -> c.Command:
        return c.ForgetFile(line.words[0])

    def _owner_of(self, file_id: str) -> str:
        file = self.world.state.of(File).get(file_id)
        return "ana" if file is None else file.account_id

    # Questions

    def _ask_file(self, file_id: str) -> Told:
        file = self.world.state.of(File).get(file_id)
        if file is None:
            return "gone", {}
        facts = {name: getattr(file, name) for name in file.__struct_fields__}
        return file.state, {**facts, "job": file.job_id, "until": file.expires_at}

    def _ask_files(self, account_id: str) -> Told:
        """How many files the account has, and their bytes together."""
        used = self.world.state.of(FileUsage).get(account_id, FileUsage(account_id))
        return f"{used.files} files {used.size} bytes", {}

    def _ask_audit(self) -> Told:
        lines = self.world.state.audit
        return ", ".join(f"{line.actor} {line.act} {line.target}" for line in lines) or "empty", {}

    def _ask_audited(self, number: str) -> Told:
        """The particulars of one line."""
        line = self.world.state.audit[int(number) - 1]
        return "", {**line.details, **(line.words or {}), "at": line.at}

    def _ask_used(self, key_id: str) -> Told:
        use = self.world.state.api_key_uses.get(key_id)
        return "never" if use is None else "", {} if use is None else {"at": use.at}

    def _ask_account(self, account_id: str) -> Told:
        account = self.world.state.accounts.get(account_id)
        if account is None:
            return "nobody", {}
        return "", {name: getattr(account, name) for name in account.__struct_fields__}

    def _ask_ledger(self, account_id: str) -> Told:
        mine = [entry for entry in self.world.state.entries if entry.account_id == account_id]
        return ", ".join(f"{entry.kind} {entry.amount}" for entry in mine) or "empty", {}

    def _ask_job(self, job_id: str) -> Told:
        job = self.world.state.jobs.get(job_id)
        if job is None:
            return "unknown", {}
        place = job.place
        facts = {name: getattr(part, name) for part in (job, job.spec) for name in part.__struct_fields__}
        if place is not None:
            facts.update({name: getattr(place, name) for name in place.__struct_fields__})
        if job.checkpoint is not None:
            facts.update(checkpoint=job.checkpoint.name, progress=job.checkpoint.progress, data=job.checkpoint.data)
        facts.update(place=None if place is None else type(place).__name__.lower(), dead=job.dead_at is not None)
        facts.update(result=self.world.state.results.get(job_id), payload=self.world.state.payloads[job_id])
        return job.status, facts

    def _ask_events(self, job_id: str) -> Told:
        return " ".join(event.kind for event in self.world.state.events if event.job_id == job_id), {}

    def _ask_event(self, job_id: str, kind: str) -> Told:
        """The last event of that kind."""
        found = [event for event in self.world.state.events if (event.job_id, event.kind) == (job_id, kind)]
        return ("", found[-1].data or {}) if found else ("none", {})

    def _ask_queue(self, pool: str) -> Told:
        ready = [
            job for job in self.world.state.jobs.values() if isinstance(job.place, Ready) and job.spec.pool == pool
        ]
        order = sorted(ready, key=lambda job: self.world.store.claim_order(job.id))
        return ", ".join(job.id for job in order) or "empty", {}

    def _ask_reservation(self, reservation_id: str) -> Told:
        held = self.world.state.reservations.get(reservation_id)
        return ("unknown", {}) if held is None else (held.state, {"job": held.job_id, "until": held.expires_at})

    def _ask_batch(self, batch_id: str) -> Told:
        batch = self.world.state.batches.get(batch_id)
        return ("unknown", {}) if batch is None else ("", {"account": batch.account_id, "total": batch.total})

    def _ask_why(self, job_id: str) -> Told:
        job = self.world.state.jobs[job_id]
        busy = [one for one in self.world.state.jobs.values() if isinstance(one.place, Leased | Awaiting)]
        occupied = sum(one.spec.pool == job.spec.pool for one in busy)
        return str(why_waiting(job, self.world.state.pools.get(job.spec.pool), occupied)).lower(), {}


def _uncounted(job: Job | None) -> Job | None:
    return None if job is None else replace(job, events=0, late_finishes=0, callbacks=0)


def _part(line: Line) -> tuple[int | None, str | None]:
    amount = line.options.get("amount")
    return None if amount is None else int(amount), line.options.get("share")


def _name(verb: str) -> str:
    return verb.replace("-", "_")


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()
