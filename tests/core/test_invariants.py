"""A checker that cannot fail is worthless: for each of its sentences, a state broken by hand that makes it say it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ficha.core import invariants
from ficha.core.dataset import State
from ficha.core.invariants import overfull_pools, violations
from ficha.core.records import Entry, Event, File, PageSessions, Parked, PendingHook, Pool, Step
from tests.core.scenarios import play

STORY = """
    plan free max_running=2
    pool gpu slots=2
    open ana free credits=100
    open bob free credits=100
    submit ana held cost=5
    submit ana ready cost=5
    submit ana parked cost=5
    submit ana later cost=5 delay=1h key=k1
    submit bob done cost=5 key=k2 content=abc
    submit bob broken cost=5
    claim gpu w1 limit=9              -> broken, done
    finish done e1 completed
    finish broken e1 failed
    claim gpu w1                      -> held
    pool cpu slots=1
    submit bob makes cost=5 pool=cpu content=def
    submit bob same cost=5 pool=cpu content=def
    claim cpu w1                      -> makes
    reserve ana r1
    api-key a1 web scope=user account=ana
    api-key a2 ci scope=admin
    upload ana f1 size=10
    upload ana f2 size=20
    stored f2 15
    save held e1 f3 size=5
    stored f3 5
    stay ana s1
"""
"""Some of everything. Jobs are created at the same instant, so they are claimed in the order of their names."""


def a_good_state() -> State:
    return play(STORY).state


def account(name: str, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.accounts[name] = replace(state.accounts[name], **fields)

    return change


def job(name: str, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.jobs[name] = replace(state.jobs[name], **fields)

    return change


def entry(at: int, /, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.entries[at] = replace(state.entries[at], **fields)

    return change


def key(name: str, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        (full,) = [one for one in state.keys if one[2] == name]
        state.keys[full] = replace(state.keys[full], **fields)

    return change


def content(content_hash: str, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        (name,) = [one for one in state.contents if one[1] == content_hash]
        state.contents[name] = replace(state.contents[name], **fields)

    return change


def reservation(**fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.reservations["r1"] = replace(state.reservations["r1"], **fields)

    return change


def api_key(key_id: str, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.api_keys[key_id] = replace(state.api_keys[key_id], **fields)

    return change


def file(file_id: str, **fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.keyed["File", file_id] = replace(state.of(File)[file_id], **fields)

    return change


def sessions(**fields: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.keyed["PageSessions", "ana"] = replace(state.of(PageSessions)["ana"], **fields)

    return change


def hook(job_id: str) -> Callable[[State], None]:
    return lambda state: state.hooks.update({("told", job_id): PendingHook("told", job_id, 7)})


def one_more_entry(account_id: str, job_id: str | None = None, kind: Any = "charge") -> Callable[[State], None]:
    return lambda state: state.entries.append(Entry(account_id, 9, kind, -1, 0, 0, job_id))


def a_refund_of_a_job_that_left(state: State) -> None:
    state.entries.append(Entry("ana", 9, "refund", 7, 0, 0, "gone"))


def one_more_event(job_id: str, kind: str, **data: Any) -> Callable[[State], None]:
    return lambda state: state.events.append(Event(job_id, "ana", 9, kind, 0, data))


def no_history_of(job_id: str) -> Callable[[State], None]:
    def change(state: State) -> None:
        state.events = [event for event in state.events if event.job_id != job_id]

    return change


def nothing_to_free_the_parked(state: State) -> None:
    for name in ("held", "ready"):
        job(name, place=Parked(1))(state)
    account("ana", admitted=0, parked=3)(state)


def a_step_of_removed_work(state: State) -> None:
    job("done", removed_at=7)(state)
    state.steps["done", "paint"] = Step("done", "paint", "1", 7)


BROKEN: list[tuple[Callable[[State], None], str]] = [
    # The ledger
    (one_more_entry("bob", "done"), "job done has 2 entries of kind charge"),
    (entry(0, balance_after=7), "entry 1 of account ana does not follow from the entries before it"),
    (entry(0, number=7), "entry 7 of account ana does not follow from the entries before it"),
    (entry(0, amount=-1), "entry 1 takes account ana below zero"),
    (account("ana", balance=7), "account ana shows 7 credits, its entries add up to 80"),
    (one_more_entry("eva"), "there are entries of account eva, which does not exist"),
    # The counters
    (account("ana", active=7), "account ana counts 7 active jobs, there are 4"),
    (account("ana", admitted=7), "account ana counts 7 admitted jobs, there are 2"),
    (account("ana", parked=7), "account ana counts 7 parked jobs, there are 1"),
    (account("ana", submitted=1), "account ana counts 1 submits, there are 4 jobs"),
    (account("ana", reserved=7), "account ana counts 7 active reservations, there are 1"),
    (nothing_to_free_the_parked, "account ana has 3 parked jobs and none that could free them"),
    (account("bob", latest_job="done"), "account bob names job done as active, which it is not"),
    (account("bob", latest_job="nothing"), "account bob names job nothing as active, which it is not"),
    (lambda state: state.accounts.pop("bob"), "there are jobs of account bob, which does not exist"),
    # The jobs
    (one_more_entry("ana", "nothing"), "entry 9 of ana names job nothing, which does not exist"),
    (a_refund_of_a_job_that_left, "job gone, which has left, got back more than it was charged"),
    (job("held", status="queued"), "job held is queued but its place is Leased"),
    (job("ready", status="starting"), "job ready is starting but its place is Ready"),
    (job("done", place=Parked(1)), "job done is completed but its place is Parked"),
    (job("held", place=None), "job held is starting but its place is None"),
    (job("done", finished_at=None), "job done is completed but finished_at is None"),
    (job("held", finished_at=7), "job held is starting but finished_at is 7"),
    (job("held", charged=7), "job held shows 7 charged, the ledger 5"),
    (job("done", refunded=1), "job done shows 1 refunded, the ledger 0"),
    (job("broken", refunded=7), "job broken got back 7 of 5 credits"),
    (job("broken", refunded=3), "job broken is failed but 2 credits were not refunded"),
    (job("held", refunded=5), "job held is starting but was refunded already"),
    (job("broken", attempts=2), "job broken failed 2 times, more than its 1 attempts"),
    (job("done", dead_at=7), "job done is completed but stands in the dead-letter list"),
    # The library
    (job("held", removed_at=7), "job held is starting but was removed from the library"),
    (job("done", payload_removed_at=7), "job done lost its payload by its age but has it"),
    (job("done", removed_at=7), "job done was removed from the library but has its payload or its result"),
    (a_step_of_removed_work, "job done was removed from the library but has the step paint"),
    # Contents
    (content("def", job_id="same"), "job makes is held, but its content is another job's"),
    (content("def", job_id="same"), "content def of upscale waits for job same, which is not held"),
    (content("abc", result=None), "content abc of upscale waits for job done, which is not held"),
    (lambda state: state.contents.clear(), "job makes is held, but its content is no job's"),
    # Keys and reservations
    (key("k1", account_id="eva"), "key 'k1' belongs to account eva, which does not exist"),
    (key("k1", job_id="nothing"), "key 'k1' of account ana names job nothing, which is not its own"),
    (key("k1", job_id="done"), "key 'k1' of account ana names job done, which is not its own"),
    (key("k1", job_id=None), "key 'k1' of account ana names job None, which is not its own"),
    (reservation(account_id="eva"), "reservation r1 belongs to account eva, which does not exist"),
    (api_key("a1", account_id=None), "API key a1 has the scope user and the account None"),
    (api_key("a2", account_id="ana"), "API key a2 has the scope admin and the account ana"),
    (api_key("a1", account_id="eva"), "API key a1 acts for account eva, which does not exist"),
    # Hooks
    (hook("held"), "the hook told is to be run for job held, which has not ended"),
    (hook("nothing"), "the hook told is to be run for job nothing, which has not ended"),
    # Files
    (file("f2", account_id="eva"), "file f2 belongs to account eva, which does not exist"),
    (file("f1", expires_at=None), "file f1 is uploading and would stay so for ever"),
    (file("f2", digest=""), "file f2 is stored without a digest or a type"),
    (file("f3", job_id="done"), "file f3 is a result of job done, which is not its account's"),
    (file("f3", job_id=None), "file f3 is a result of job None, which is not its account's"),
    (file("f2", size=16), "account ana counts 3 files of 30 bytes, there are 3 of 31"),
    (file("f2", state="removed"), "account ana counts 3 files of 30 bytes, there are 2 of 15"),
    (file("f2", account_id="bob"), "account bob counts 0 files of 0 bytes, there are 1 of 15"),
    # Sessions of pages
    (sessions(account_id="eva"), "there are sessions of account eva, which does not exist"),
    (sessions(next_at=7), "the first session of account ana is to end at 7, it ends at 1773101400000000"),
    (sessions(sessions=()), "the first session of account ana is to end at 1773101400000000, it ends at None"),
    # The histories
    (one_more_event("done", "claimed", epoch=2), "the history of job done goes from completed to starting"),
    (one_more_event("ready", "completed"), "the history of job ready goes from queued to completed"),
    (one_more_event("nothing", "claimed", epoch=1), "the history of job nothing goes from None to starting"),
    (one_more_event("held", "claimed", epoch=1), "job held was claimed under epoch 1 after 1"),
    (one_more_event("ready", "claimed", epoch=1), "job ready is queued, its history ends with starting"),
    (no_history_of("ready"), "job ready is queued, its history ends with None"),
    (one_more_event("done", "log"), "event 9 of job done stands where its event 5 should"),
    (job("done", events=7), "job done counts 7 events, its history ends with number 4"),
]


def test_a_good_state_has_nothing_wrong_with_it() -> None:
    assert violations(a_good_state()) == []
    assert overfull_pools(a_good_state()) == []
    assert violations(State()) == []


@pytest.mark.req("A6", "A7", "D1")
@pytest.mark.parametrize(("broken", "sentence"), BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_what_is_broken_is_named(broken: Callable[[State], None], sentence: str) -> None:
    state = a_good_state()
    broken(state)
    assert [found for found in violations(state) if found.startswith(sentence)]


@pytest.mark.req("A1")
def test_an_overfull_pool_is_named() -> None:
    state = a_good_state()
    state.pools["gpu"] = Pool("gpu", slots=0)
    assert overfull_pools(state) == ["pool gpu has 0 slots and 1 jobs in them"]
    state.pools["gpu"] = Pool("gpu", slots=9, resized=0)
    assert overfull_pools(state) == ["pool gpu has 0 slots and 1 jobs in them"]


def test_a_part_of_a_state_that_stands_by_itself_is_checked_alike() -> None:
    """`ficha verify` walks a database account by account, and leaves the histories out where they are too long."""
    whole = a_good_state()
    part = State(
        accounts={"bob": whole.accounts["bob"]},
        jobs={name: one for name, one in whole.jobs.items() if one.account_id == "bob"},
        keys={name: one for name, one in whole.keys.items() if one.account_id == "bob"},
        pools=whole.pools,
        contents=whole.contents,
        entries=[one for one in whole.entries if one.account_id == "bob"],
    )
    assert violations(part) == []
    account("bob", balance=7)(part)
    assert violations(part) == ["account bob shows 7 credits, its entries add up to 85"]


def test_every_sentence_of_the_checker_is_broken_above() -> None:
    """A sentence that is added to the checker needs a state here that breaks it."""
    said = [sentence for _, sentence in BROKEN]
    unsaid = [pattern for pattern in sentences() if not any(re.match(pattern, one) for one in said)]
    assert unsaid == []


def sentences() -> list[str]:
    """The sentences that the checker can say, with anything in the place of names and numbers."""
    tree = ast.parse(inspect.getsource(invariants))
    yielded = [node.value for node in ast.walk(tree) if isinstance(node, ast.Yield)]
    texts = [text for text in yielded if isinstance(text, ast.JoinedStr)]
    assert len(texts) == len(yielded)
    return ["".join(_pattern(part) for part in text.values) for text in texts]


def _pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
