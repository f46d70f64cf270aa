"""Files: room is taken before the bytes come, jobs take what is their account's own, and what nobody wants goes."""

import pytest

from ficha.core import commands as c
from ficha.core.outcomes import FileChanged, Forgotten, Outcome
from ficha.core.policy import Plan, Policy
from ficha.core.records import File
from tests.core.scenarios import play
from tests.core.world import World
from tests.support.new_jobs import new_job

SCENARIOS = {
    "an upload takes room for what it may have, and keeps what it has": """
        plan free storage_bytes=100
        open ana free
        upload ana f1 size=60          -> uploading size=60 role=input until=+1h
        files ana                      -> 1 files 60 bytes
        stored f1 50                   -> stored size=50 until=+1d changed=yes
        files ana                      -> 1 files 50 bytes
        stored f1 50                   -> stored changed=no
    """,
    "an upload whose size is not known takes all that it may have": """
        plan free file_bytes=80 storage_bytes=100
        open ana free
        upload ana f1                  -> uploading size=80
        upload ana f2                  -> uploading size=20
        upload ana f3                  -> QUOTA_EXCEEDED bytes=100 limit=100
        stored f1 10
        upload ana f3                  -> uploading size=70
    """,
    "the largest file passes, and one byte more is refused": """
        plan free file_bytes=100
        open ana free
        upload ana f1 size=100         -> uploading size=100
        upload ana f2 size=101         -> TOO_LARGE limit=100 says="plan free allows 100"
        upload ana f3 least=90 most=110 -> uploading size=100
        stored f3 101                  -> TOO_LARGE limit=100 bytes=101
        stored f3 100                  -> stored
    """,
    "the application's limit binds where a plan has none, or a higher one": """
        plan free
        plan pro file_bytes=5000
        policy file_bytes=1000
        open ana free
        open bob pro
        upload ana f1 size=1001        -> TOO_LARGE limit=1000 says="the application allows 1000"
        upload bob f2 size=1001        -> TOO_LARGE limit=1000
        upload bob f3 size=1000        -> uploading
    """,
    "the last byte of the storage can be used, and the next cannot": """
        plan free storage_bytes=100
        open ana free
        upload ana f1 size=60
        upload ana f2 size=40          -> uploading
        upload ana f3 size=1           -> QUOTA_EXCEEDED limit=100 bytes=100 says="Remove some of them"
        remove-file f1 aborts=yes      -> removed
        upload ana f3 size=60          -> uploading
    """,
    "the last file can be had, and the next cannot": """
        plan free max_files=2
        open ana free
        upload ana f1 size=1
        upload ana f2 size=1
        upload ana f3 size=1           -> QUOTA_EXCEEDED limit=2 files=2
        stored f1 1
        remove-file f1                 -> removed changed=yes
        upload ana f3 size=1           -> uploading
    """,
    "uploads that begin together share what is left": """
        plan free storage_bytes=100 max_files=3
        open ana free
        together
            upload ana f1 size=60      -> uploading
            upload ana f2 size=60      -> QUOTA_EXCEEDED bytes=60
            upload ana f3 size=40      -> uploading
        files ana                      -> 2 files 100 bytes
    """,
    "an upload under a reservation": """
        plan free max_active=1
        open ana free
        open bob free
        reserve ana r1
        upload ana f1 size=10 reservation=r1  -> uploading
        file f1                        -> uploading reservation_id=r1
        upload bob f2 size=10 reservation=r1  -> NOT_FOUND
        upload ana f3 size=10 reservation=r9  -> NOT_FOUND
        stored f1 10
        submit ana j1 reservation=r1 files=f1 cost=0  -> queued
        reservation r1                 -> consumed
        upload ana f4 size=10 reservation=r1  -> INVALID_STATE state=consumed
    """,
    "a job takes its account's own files and keeps them": """
        plan free
        open ana free credits=10
        upload ana f1 size=10
        stored f1 10
        submit ana j1 cost=3 files=f1  -> queued balance=7
        file f1                        -> stored uses=1 job=j1 until=none
        submit ana j2 cost=3 files=f1,f1  -> queued
        file f1                        -> stored uses=2 job=j1
        +30d
        expire-file f1                 -> kept
    """,
    "a missing, foreign, removed or unfinished file refuses the submit, and nothing is charged": """
        plan free
        open ana free credits=10
        open bob free credits=10
        upload bob f1 size=10
        stored f1 10
        upload ana f2 size=10
        upload ana f3 size=10
        stored f3 10
        remove-file f3
        submit ana j1 files=f9         -> INVALID_PAYLOAD file=f9 says="Upload it first"
        submit ana j1 files=f1         -> INVALID_PAYLOAD file=f1 says="account ana has no such file"
        submit ana j1 files=f3         -> INVALID_PAYLOAD file=f3
        submit ana j1 files=f2         -> INVALID_STATE file=f2 state=uploading
        ledger ana                     -> grant 10
        file f1                        -> stored uses=0
    """,
    "a batch takes its files, all or none; a repeat takes none again": """
        plan free
        open ana free credits=10
        upload ana f1 size=10
        upload ana f2 size=10
        stored f1 10
        submit ana j1,j2 batch=b1 key=k1 files=f1,f2  -> INVALID_STATE
        file f1                        -> stored uses=0
        stored f2 10
        submit ana j1,j2 batch=b1 key=k1 files=f1,f2  -> queued jobs=2
        file f2                        -> stored uses=2
        submit ana j1,j2 batch=b1 key=k1 files=f1,f2  -> queued repeat=yes
        file f2                        -> stored uses=2
    """,
    "an upload that died goes, and its row when no byte can arrive any more": """
        plan free
        open ana free
        upload ana f1 size=10
        remove-file f1                 -> INVALID_STATE state=uploading
        +59m
        expire-file f1                 -> kept
        +1m
        expire-file f1                 -> cleared
        file f1                        -> removed until=+1d
        files ana                      -> 0 files 0 bytes
        stored f1 10                   -> NOT_FOUND
        expire-file f1                 -> kept
        remove-file f1                 -> removed changed=no
        forget-file f1                 -> kept
        +1d
        forget-file f1                 -> cleared
        file f1                        -> gone
        forget-file f1                 -> kept
        stored f1 10                   -> NOT_FOUND
    """,
    "an input that no job takes goes after a day": """
        plan free
        open ana free
        upload ana f1 size=10
        stored f1 10
        forget-file f1                 -> kept
        +23h
        expire-file f1                 -> kept
        +1h
        expire-file f1                 -> cleared
        file f1                        -> removed
    """,
    "a file that should have gone can be taken until it is": """
        plan free
        open ana free credits=10
        upload ana f1 size=10
        stored f1 10
        +25h
        submit ana j1 files=f1         -> queued
        expire-file f1                 -> kept
    """,
    "somebody else's file is not found": """
        plan free
        open ana free
        open bob free
        upload ana f1 size=10
        stored f1 10 by=bob            -> NOT_FOUND
        stored f1 10
        remove-file f1 by=bob          -> NOT_FOUND
        remove-file f9                 -> NOT_FOUND
        file f1                        -> stored
    """,
    "an id is begun once": """
        plan free
        open ana free
        upload ana f1 size=10
        upload ana f1 size=10          -> INVALID_STATE
        upload eva f2 size=10          -> NOT_FOUND
    """,
    "a run saves results only while it holds its lease": """
        plan free storage_bytes=10 max_files=1
        open ana free credits=10
        submit ana j1 attempts=2
        claim gpu w1                   -> j1 epoch=1
        save j1 e1 f1 size=50          -> uploading role=result
        stored f1 50                   -> stored
        file f1                        -> stored job=j1 role=result
        save j1 e2 f2                  -> LEASE_LOST
        save j1 e1 f3
        finish j1 e1 failed
        stored f3 5                    -> LEASE_LOST
        save j1 e1 f4                  -> LEASE_LOST
        # What a job makes was paid for, so it is kept beyond the limits; an upload is not.
        upload ana f5 size=1           -> QUOTA_EXCEEDED
    """,
    "no result is larger than the application allows": """
        plan free file_bytes=10
        policy file_bytes=100
        open ana free credits=10
        submit ana j1
        claim gpu w1                   -> j1 epoch=1
        save j1 e1 f1 size=101         -> TOO_LARGE limit=100
        save j1 e1 f2 size=100         -> uploading size=100
        save j9 e1 f3                  -> NOT_FOUND
    """,
    "results of a job that completed stay, those of one that failed go": """
        plan free
        open ana free credits=10
        submit ana j1
        submit ana j2
        submit ana j3
        claim gpu w1 limit=9           -> j1, j2, j3
        save j1 e1 f1
        save j2 e1 f2
        save j3 e1 f3
        stored f1 5
        stored f2 5
        stored f3 5
        finish j1 e1 completed
        finish j2 e1 failed
        +1d
        expire-file f1                 -> cleared
        file f1                        -> stored until=none
        expire-file f2                 -> cleared
        file f2                        -> removed
        # The third still runs: it is looked at again later.
        expire-file f3                 -> cleared
        file f3                        -> stored until=+1d
    """,
    "a result that a further job takes stays, whatever becomes of its own": """
        plan free
        open ana free credits=10
        submit ana j1
        claim gpu w1                   -> j1 epoch=1
        save j1 e1 f1
        stored f1 5
        submit ana j2 files=f1         -> queued
        finish j1 e1 failed
        +2d
        expire-file f1                 -> cleared
        file f1                        -> stored until=none job=j1 uses=1
    """,
    "a provider's result is copied once, however often it is begun": """
        plan free
        open ana free credits=10
        open bob free credits=10
        submit ana j1 attempts=2
        copy j1 0 f0                   -> LEASE_LOST
        claim gpu w1                   -> j1 epoch=1
        copy j1 0 f0                   -> LEASE_LOST
        finish j1 e1 accepted
        copy j1 1 f1                   -> LEASE_LOST
        copy j1 0 f1                   -> uploading role=result
        copy j1 0 f1                   -> uploading changed=yes
        copy j1 0 f1 account=bob       -> NOT_FOUND
        files ana                      -> 1 files 1073741824 bytes
        stored f1 7                    -> stored size=7
        copy j1 0 f1                   -> stored changed=no
        files ana                      -> 1 files 7 bytes
        webhook j1 completed
        copy j1 0 f2                   -> LEASE_LOST
        remove-file f1                 -> removed
    """,
    "a copy that died is begun again for as long as its job waits for the provider": """
        plan free
        open ana free credits=10
        submit ana j1 timeout=10h
        claim gpu w1                   -> j1 epoch=1
        finish j1 e1 accepted
        copy j1 0 f1                   -> uploading
        +1h
        expire-file f1                 -> cleared
        file f1                        -> uploading until=+1h
        copy j1 0 f1                   -> uploading
        +61m
        webhook j1 failed
        expire-file f1                 -> cleared
        file f1                        -> removed until=+1d
        copy j1 0 f1                   -> LEASE_LOST
        forget-file f1                 -> kept
        +1d
        forget-file f1                 -> cleared
    """,
    "a copy that was given up is not begun again before its bytes are gone": """
        plan free
        open ana free credits=10
        submit ana j1
        claim gpu w1                   -> j1 epoch=1
        finish j1 e1 accepted
        copy j1 0 f1                   -> uploading
        remove-file f1 aborts=yes      -> removed
        copy j1 0 f1                   -> OVERLOADED retryable=yes
        forget-file f1                 -> cleared
        copy j1 0 f1                   -> uploading
    """,
    "a result that died while its run goes on is removed, and its row when no byte can arrive any more": """
        plan free
        open ana free credits=10
        submit ana j1 timeout=10h
        claim gpu w1                   -> j1 epoch=1
        save j1 e1 f1
        +1h
        expire-file f1                 -> cleared
        file f1                        -> removed until=+1d
    """,
    "who gives up a copy does not take away what another one has stored": """
        plan free
        open ana free credits=10
        submit ana j1
        claim gpu w1                   -> j1 epoch=1
        finish j1 e1 accepted
        copy j1 0 f1
        copy j1 0 f1
        stored f1 7
        remove-file f1 aborts=yes      -> stored changed=no
        file f1                        -> stored size=7
        upload ana f1 size=1           -> INVALID_STATE
    """,
    "who removed a file is in the audit log": """
        plan free
        open ana free
        upload ana f1 size=10
        stored f1 10
        as boss remove-file f1
        audit                          -> boss remove_file file f1
        audited 1                      -> account=ana name=f1.png
    """,
}


@pytest.mark.req("C6")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_files(scenario: str) -> None:
    play(SCENARIOS[scenario])


def test_whoever_gives_up_a_copy_leaves_alone_what_others_may_still_send() -> None:
    world, job_id, file_id = with_a_provider()
    begin = c.BeginFile(file_id, "ana", "result", run=c.FileRun(job_id, attempts=0))
    first, second = (changed_file(world.one(begin)) for _ in range(2))
    assert first.created_at == second.created_at
    for attempt in (first, second):
        left = changed_file(world.one(c.RemoveFile(file_id, "ana", aborts=True, expires_at=attempt.expires_at)))
        assert left.state == "uploading"
    run = c.FileRun(job_id, attempts=0)
    stored = changed_file(world.one(c.StoreFile(file_id, "ana", 3, "image/png", "digest", run)))
    assert (stored.state, stored.size) == ("stored", 3)


def test_a_copy_that_was_begun_again_and_stored_by_nobody_goes_when_its_job_no_longer_waits() -> None:
    world, job_id, file_id = with_a_provider()
    begin = c.BeginFile(file_id, "ana", "result", run=c.FileRun(job_id, attempts=0))
    _, second = (changed_file(world.one(begin)) for _ in range(2))
    world.one(c.RemoveFile(file_id, "ana", aborts=True, expires_at=second.expires_at))
    assert second.expires_at is not None
    world.now = second.expires_at
    assert world.one(c.ExpireFile(file_id, "ana", job_id)) == Forgotten(changed=True)
    waits = world.state.of(File)[file_id]
    assert (waits.state, world.one(c.CancelJob(job_id)).status) == ("uploading", "cancelled")
    assert waits.expires_at is not None
    world.now = waits.expires_at
    assert world.one(c.ExpireFile(file_id, "ana", job_id)) == Forgotten(changed=True)
    assert world.state.of(File)[file_id].state == "removed"


def with_a_provider() -> tuple[World, str, str]:
    """A job that a provider has, and the id of a file that the provider makes."""
    world = World(Policy(plans={"pro": Plan("pro")}))
    world.declare_pools(gpu=None)
    job_id, file_id = (f"0000000{n}-0000-7000-8000-000000000000" for n in (1, 2))
    world.run(c.OpenAccount("ana", "pro", 10), c.Submit("ana", (new_job(job_id, "draw", "gpu", "{}", 1),)))
    world.run(c.Claim("w1", ("gpu",), 1), c.Finish(job_id, c.AcceptedByProvider("ref"), 1))
    return world, job_id, file_id


def changed_file(outcome: Outcome) -> File:
    assert isinstance(outcome, FileChanged), outcome
    return outcome.file
