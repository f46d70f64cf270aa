"""The audit log: what is done in somebody's name leaves a line, and only that."""

from __future__ import annotations

import msgspec
import pytest

from ficha.core import commands as c
from ficha.core.audit import TEXT_LENGTH
from ficha.core.outcomes import Outcome
from ficha.core.rules import RULES
from tests.core.scenarios import play
from tests.core.world import World
from tests.support.new_jobs import new_job

ACTS = """
    plan free
    plan pro
    as boss open ana free credits=50
    as boss change-plan ana pro
    as boss grant ana 5 reason=promo key=k1
    as boss adjust ana -5 reason=mistake
    as boss submit ana j1 cost=2 key=k2
    as boss cancel j1 reason=enough
    as boss submit ana j2..j3 batch=b1
    claim gpu w1 limit=2
    as boss webhook j2 completed
    finish j3 e1 failed
    as boss recover j3
    as boss requeue j3 as=j4
    claim gpu w1
    finish j4 e1 failed
    as boss resubmit ana j4 as=j5 tool=upscale
    as boss discard j2
    as boss reserve ana r1
    as boss reserve ana r2
    as boss consume r1
    as boss release r2
    as boss pool cpu slots=1
    as boss pause cpu
    as boss resume cpu
    as boss resize cpu 3
    as boss pause-tool upscale gpu cpu
    as boss resume-tool upscale gpu cpu
    as boss close-tool upscale reason=bad
    as boss open-tool upscale
    as boss close-pool cpu reason=full
    as boss open-pool cpu
    as boss api-key a1 ci
    as boss revoke a1
    as boss open-breaker fal ttl=60s declared=yes
    as boss close-breaker fal
    upload ana f1 size=1
    stored f1 1
    as boss remove-file f1
    as boss remove ana j2
    webhooks
    as boss add-webhook ana e1
    as boss rotate-webhook ana e1
    as boss enable-webhook ana e1
    as boss test-webhook ana e1 d1
    as boss resend ana d1
    as boss remove-webhook ana e1
    as boss refund j2
    as boss begin-bulk b1 cancel total=1
    as boss stop-bulk b1
    as boss recount ana
    as boss verify 3
    declare-schedule daily account=ana
    as boss pause-schedule daily
    as boss resume-schedule daily
    as boss run-schedule daily j6 account=ana
    as boss forget-hook told
    as boss close ana
"""


def test_every_act_of_a_person_leaves_its_line() -> None:
    lines = play(ACTS).state.audit
    assert {line.actor for line in lines} == {"boss"}
    assert [(line.act, line.target) for line in lines] == [
        ("open_account", "account ana"),
        ("change_plan", "account ana"),
        ("grant", "account ana"),
        ("adjust", "account ana"),
        ("submit", "account ana"),
        ("cancel", "job j1"),
        ("submit", "account ana"),
        ("finish", "job j2"),
        ("recover", "job j3"),
        ("requeue", "job j3"),
        ("requeue", "job j4"),
        ("discard", "job j2"),
        ("reserve", "reservation r1"),
        ("reserve", "reservation r2"),
        ("consume", "reservation r1"),
        ("release", "reservation r2"),
        ("declare_pool", "pool cpu"),
        ("pause_pool", "pool cpu"),
        ("resume_pool", "pool cpu"),
        ("resize_pool", "pool cpu"),
        ("pause_tool", "tool upscale"),
        ("resume_tool", "tool upscale"),
        ("close_tool", "tool upscale"),
        ("open_tool", "tool upscale"),
        ("close_pool", "pool cpu"),
        ("open_pool", "pool cpu"),
        ("create_api_key", "API key a1"),
        ("revoke_api_key", "API key a1"),
        ("open_breaker", "provider fal"),
        ("close_breaker", "provider fal"),
        ("remove_file", "file f1"),
        ("remove_work", "job j2"),
        ("add_webhook", "webhook e1"),
        ("rotate_webhook_secret", "webhook e1"),
        ("enable_webhook", "webhook e1"),
        ("test_webhook", "webhook e1"),
        ("resend_webhook", "delivery d1"),
        ("remove_webhook", "webhook e1"),
        ("refund", "job j2"),
        ("begin_bulk_act", "bulk act b1"),
        ("stop_bulk_act", "bulk act b1"),
        ("recount", "account ana"),
        ("verify", "database"),
        ("pause_schedule", "schedule daily"),
        ("resume_schedule", "schedule daily"),
        ("run_schedule", "schedule daily"),
        ("forget_hook", "hook told"),
        ("erase_account", "account ana"),
    ]


def test_the_acts_are_those_of_every_rule_that_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    given: set[type[c.Command]] = set()
    run = World.run

    def noting(self: World, *commands: c.Command) -> list[Outcome]:
        given.update(type(command.command) for command in commands if isinstance(command, c.ActingAs))
        return run(self, *commands)

    monkeypatch.setattr(World, "run", noting)
    play(ACTS)
    assert given == {command for command, rule in RULES.items() if rule.audit is not None}


def test_a_line_tells_the_particulars_and_what_came_of_it() -> None:
    play(f"""
        {ACTS}
        audited 1                              -> plan=free credits=50 balance=50 at=+0s
        audited 2                              -> plan=pro balance=50
        audited 3                              -> amount=5 reason=promo key=k1 balance=55
        audited 5                              -> tool=upscale job_id=j1 jobs=1 cost=2 key=k2 new_balance=48
        audited 6                              -> reason=enough status=cancelled refunded=2 new_balance=50
        audited 7                              -> job_id=j2 jobs=2 batch_id=b1 cost=2
        audited 8                              -> ending=Completed status=completed refunded=0
        audited 9                              -> act=nothing
        audited 10                             -> as_job=j4 new_balance=48
        audited 13                             -> account=ana
        audited 20                             -> slots=3
        audited 33                             -> owner=ana host=hooks.example
        audited 43                             -> violations=3
        audited 23                             -> reason=bad
        audited 27                             -> name=ci scope=admin "hint=hint of a1"
    """)


def test_a_refused_command_leaves_no_line_and_a_repeat_says_that_nothing_was_changed() -> None:
    play("""
        plan free
        open ana free credits=1
        as boss grant ana -5                   -> INVALID_ARGUMENT
        as boss submit ana j1 cost=2           -> INSUFFICIENT_CREDITS
        as boss revoke a1                      -> NOT_FOUND
        audit                                  -> empty
        as boss grant ana 5 key=k1             -> balance=6 repeated=no
        as boss grant ana 5 key=k1             -> balance=6 repeated=yes
        as boss submit ana j1 key=k2           -> queued repeat=no
        as boss submit ana j2 key=k2           -> queued job=j1 repeat=yes
        as boss cancel j1                      -> cancelled
        as boss cancel j1                      -> unchanged
        audited 1                              -> balance=6 changed=?
        audited 2                              -> balance=6 changed=no
        audited 3                              -> changed=?
        audited 4                              -> job_id=j1 changed=no
        audited 6                              -> changed=no
    """)


def test_what_workers_say_all_day_long_leaves_no_line() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1
        as boss claim gpu w1                   -> j1
        as boss beat j1 e1
        as boss checkpoint j1 e1 HALF 50%
        as boss report j1 e1 progress=60
        as boss elect sweeper n1 ttl=1s
        api-key a1 ci
        as boss use a1
        audit                                  -> empty
    """)


def test_without_a_name_nothing_is_audited() -> None:
    play("""
        plan free
        open ana free credits=9
        grant ana 5
        api-key a1 ci
        audit                                  -> empty
    """)


def test_a_command_in_a_name_leads_to_the_same_as_without_it() -> None:
    named, nameless = play(ACTS), play(ACTS.replace("as boss ", ""))
    named.state.audit.clear()
    assert named.state == nameless.state


def test_a_line_is_small_and_holds_neither_texts_nor_digests() -> None:
    world = play("""
        plan free
        open ana free credits=9
    """)
    canary = "payload-canary"
    job = new_job("j1", "upscale", "gpu", f'{{"x": "{canary}"}}', cost=1)
    commands: tuple[c.UnwrappedCommand, ...] = (
        c.Credit("ana", 1, "grant", reason="why " * 5_000),
        c.Submit("ana", (job,)),
        c.Finish("j1", c.Failed(canary * 5_000)),
        c.CancelJob("j1", reason="because " * 5_000),
        c.CreateApiKey("a1", "ci", "hint", "digest-canary", "admin"),
        c.RevokeApiKey("a1"),
    )
    world.run(*(c.ActingAs("boss", command) for command in commands))
    assert world.state.audit
    for line in world.state.audit:
        text = msgspec.json.encode(line)
        assert b"canary" not in text
        assert len(text) < 1_000
    reason = (world.state.audit[0].words or {})["reason"]
    assert (len(reason), reason[-1]) == (TEXT_LENGTH + 1, "…")
