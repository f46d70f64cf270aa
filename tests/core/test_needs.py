"""`needs` names what `decide` looks at. That it suffices is a property; here is that it does not ask for more."""

import pytest

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.loaded import NotLoaded
from ficha.core.needs import Needs, needs
from ficha.core.policy import Plan, Policy
from ficha.core.snapshot import Snapshot
from tests.core.scenarios import play
from tests.support.new_jobs import new_job

BRAKES = {("Brake", "tool upscale"), ("Brake", "pool gpu")}
NEW = new_job("j9", "upscale", "gpu", "{}", cost=1)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (c.OpenAccount("ana", "free"), Needs(accounts={"ana"})),
        (c.ChangePlan("ana", "free"), Needs(accounts={"ana"}, parked_of={"ana"})),
        (
            c.RecountAccount("ana"),
            Needs(accounts={"ana"}, parked_of={"ana"}, rows_of={"ana"}, keyed={("FileUsage", "ana")}),
        ),
        (c.Credit("ana", 1, "grant"), Needs(accounts={"ana"})),
        (c.Credit("ana", 1, "grant", key="k"), Needs(accounts={"ana"}, keys={("ana", "grant", "k")})),
        (c.Submit("ana", (NEW,)), Needs(accounts={"ana"}, reservations_of={"ana"}, looked=BRAKES)),
        (
            c.Submit("ana", (NEW,), key="k", reservation_id="r1"),
            Needs(
                accounts={"ana"},
                reservations_of={"ana"},
                keys={("ana", "submit", "k")},
                reservations={"r1"},
                looked=BRAKES,
            ),
        ),
        (
            c.Claim("w1", ("gpu", "cpu"), 3),
            Needs(pools={"gpu", "cpu"}, ready={"gpu": 3, "cpu": 3}, suspects={"gpu", "cpu"}),
        ),
        (c.Claim("w1", ("gpu",), 3, keeps_apart=True), Needs(pools={"gpu"}, ready={"gpu": 3})),
        (c.ClaimJob("w1", "gpu", "j1"), Needs(owned_jobs={"j1"}, payloads={"j1"}, pools={"gpu"}, ready={"gpu": 1})),
        (c.Heartbeat("j1", 1, starts=True), Needs(jobs={"j1"})),
        (c.Report("j1", 1, 50), Needs(jobs={"j1"})),
        (c.Note("j1", 1, "so far"), Needs(jobs={"j1"})),
        (c.NoteStart("j1", 1, "acme", "painter"), Needs(jobs={"j1"})),
        (c.Heartbeat("j1", 1), Needs(jobs={"j1"})),
        (c.SaveCheckpoint("j1", 1, "HALF"), Needs(jobs={"j1"})),
        (c.SaveStep("j1", 1, "fetch", "1"), Needs(jobs={"j1"}, steps={("j1", "fetch")})),
        (c.Finish("j1", c.Completed("1"), 1), Needs(owned_jobs={"j1"})),
        (c.CancelJob("j1"), Needs(owned_jobs={"j1"})),
        (c.Recover("j1"), Needs(owned_jobs={"j1"})),
        (c.Discard("j1"), Needs(owned_jobs={"j1"})),
        (c.Requeue("j1", "j2"), Needs(owned_jobs={"j1"}, payloads={"j1"})),
        (
            c.Resubmit("ana", "j1", "j2", {}),
            Needs(accounts={"ana"}, reservations_of={"ana"}, owned_jobs={"j1"}, payloads={"j1"}, parts_of={"ana"}),
        ),
        (c.Reserve("r1", "ana"), Needs(accounts={"ana"}, reservations_of={"ana"}, reservations={"r1"})),
        (c.EndReservation("r1", "consumed"), Needs(reservations={"r1"})),
        (c.EndReservation("r1", "released"), Needs(reservations={"r1"})),
        (c.ExpireReservation("r1"), Needs(reservations={"r1"})),
        (c.ForgetKey("ana", "submit", "k"), Needs(accounts={"ana"}, keys={("ana", "submit", "k")})),
        (c.DeclarePool("gpu", 1), Needs(pools={"gpu"}, changed_pools={"gpu"})),
        (c.PausePool("gpu"), Needs(pools={"gpu"}, changed_pools={"gpu"})),
        (c.ResizePool("gpu", 1), Needs(pools={"gpu"}, changed_pools={"gpu"})),
        (c.Elect("sweeper", "n1", 1), Needs(keyed={("Leader", "sweeper")})),
        (c.RegisterWorker("w1", "host", 1, ("gpu",), 1, "1.0", 10_000), Needs()),
        (c.Submit("ana", (NEW,), batch_id="b1"), Needs(accounts={"ana"}, reservations_of={"ana"}, looked=BRAKES)),
        (
            c.Submit("ana", (NEW,), batch_id="b1", joins=True),
            Needs(accounts={"ana"}, reservations_of={"ana"}, batches={"b1"}, looked=BRAKES),
        ),
        (
            c.CreateApiKey("k1", "ci", "hint", "digest", "user", "ana"),
            Needs(accounts={"ana"}, api_keys={"k1"}, api_keys_of={"ci"}),
        ),
        (c.RevokeApiKey("k1"), Needs(api_keys={"k1"})),
        (c.UseApiKey("k1"), Needs()),
        (c.HoldHook("told", "j1", 1), Needs(owned_jobs={"j1"}, hooks_of={"j1"})),
        (c.EndHook("told", "j1", 1), Needs(owned_jobs={"j1"}, hooks_of={"j1"})),
        (c.NoteCallback("j1", 0, "verified"), Needs(owned_jobs={"j1"})),
        (c.HoldPoll("j1", 1), Needs(jobs={"j1"})),
        (c.EndPoll("j1", 1, 1), Needs(jobs={"j1"})),
        (c.ActingAs("boss", c.CancelJob("j1")), Needs(owned_jobs={"j1"})),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, c.Command) else "",
)
def test_a_hot_command_names_no_more_than_it_looks_at(command: c.Command, expected: Needs) -> None:
    assert needs([command]) == expected


def test_claims_in_one_commit_group_add_up_and_make_up_for_jobs_that_may_leave_the_queue() -> None:
    group = [c.Claim("w1", ("gpu",), 3), c.Claim("w2", ("gpu", "cpu"), 2), c.CancelJob("j1"), c.CancelJob("j2")]
    assert needs(group).ready == {"gpu": 7, "cpu": 4}


@pytest.mark.parametrize(
    "command",
    [
        c.Submit("ana", (NEW,)),
        c.Claim("w1", ("gpu",)),
        c.Heartbeat("j1", 1),
        c.Finish("j1", c.Completed("1"), 1),
        c.EndReservation("r1", "consumed"),
        c.PausePool("gpu"),
        c.Elect("sweeper", "n1", 1),
        c.CreateApiKey("k1", "ci", "hint", "digest", "admin"),
        c.RevokeApiKey("k1"),
        c.ActingAs("boss", c.Heartbeat("j1", 1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_looking_at_what_was_not_loaded_fails_loudly(command: c.Command) -> None:
    with pytest.raises(NotLoaded, match="`needs` must name it"):
        decide(Snapshot(now=0), [command], Policy(plans={"free": Plan("free")}))


CLAIMED_IN_THE_SAME_GROUP = """
    plan free max_running=1
    plan pro
    open ana free credits=9
    submit-each ana j1..j3 attempts=2
    submit ana later delay=10s
    claim gpu w1                          -> j1
"""


@pytest.mark.req("D4", "B3")
def test_a_claim_takes_what_the_same_commit_group_promoted() -> None:
    play(f"""
        {CLAIMED_IN_THE_SAME_GROUP}
        together
            finish j1 e1 completed            -> completed
            claim gpu w2 limit=9              -> j2 epoch=1 payload='"payload of j2"'
        together
            change-plan ana pro               -> plan=pro
            claim gpu w2 limit=9              -> j3 payload='"payload of j3"'
    """)


@pytest.mark.req("B4", "B3")
def test_a_claim_takes_what_the_same_commit_group_recovered_or_brought_due() -> None:
    play(f"""
        {CLAIMED_IN_THE_SAME_GROUP}
        +60s
        together
            recover j1                        -> requeued
            claim gpu w2 limit=9              -> j1 epoch=2 payload='"payload of j1"'
        cancel j2
        cancel j3
        cancel j1
        together
            recover later                     -> promoted
            claim gpu w2 limit=9              -> later payload='"payload of later"'
    """)


@pytest.mark.req("B3")
def test_a_claim_takes_what_the_same_commit_group_submitted_or_requeued() -> None:
    play("""
        plan free
        open ana free credits=9
        together
            submit ana j1                     -> queued
            claim gpu w1                      -> j1 payload='"payload of j1"'
            finish j1 e1 failed               -> failed
            requeue j1 as=j2                  -> queued
            claim gpu w1                      -> j2 payload='"payload of j1"'
    """)
