"""A provider tool's whole life: the start, the wait, the call-back or the poll, and the one finish. Whatever goes wrong
on the way, the money is right and the provider is called once per key."""

import asyncio
import json
from typing import Any

import pytest

from ficha import Ficha, JobContext, NotFound, Refused
from ficha.providers import GenericProvider, ProviderCall, RequestTemplate, StateFields
from tests.provider_tools.loopback import (
    OUR_SECRET,
    PICTURE,
    PUBLIC_URL,
    LoopbackProvider,
    LoopbackServer,
    SilentProvider,
    ended,
    in_state,
    kinds,
    money,
    studio,
    submitted,
    token_of,
    working,
)
from tests.support.receiver import Reply
from tests.support.waiting import until

pytestmark = pytest.mark.long_on("memory")
PAID = [("grant", 100), ("charge", -5)]
PAID_BACK = [*PAID, ("refund", 5)]


async def call_back(app: Ficha, server: LoopbackServer, number: int = 0, **options: Any) -> Any:
    """The provider calls back about one of its starts, as the work stands."""
    start = server.starts[number]
    headers, body = server.callback(start["ref"], **options)
    return await app.receive_callback("loopback", token_of(start), headers, body)


async def started(server: LoopbackServer, times: int = 1) -> dict[str, Any]:
    await until(lambda: len(server.starts) >= times)
    return server.starts[-1]


@pytest.mark.req("A12", "B9")
async def test_a_job_is_starting_while_the_request_is_out_running_once_accepted_and_finished_by_the_call_back(
    url: str, server: LoopbackServer
) -> None:
    out, go_on = asyncio.Event(), asyncio.Event()

    async def hold(what: str, ref: str) -> None:
        out.set()
        await go_on.wait()

    server.answering = hold
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        await out.wait()
        assert (await app.job(job_id)).status == "starting"
        go_on.set()
        job = await in_state(app, job_id, "running")
        await until(lambda: _is_awaiting(app, job_id))
        start = await started(server)
        assert start["key"] == f"{job_id}:0"
        assert start["callback"].startswith(f"{PUBLIC_URL}/api/webhooks/loopback/{job_id}.0.")
        assert start["headers"]["x-correlation-id"] == "trace-7"
        server.succeed(start["ref"], {"picture": "x"}, [{"url": server.url("/file/x.png"), "name": "x.png"}])
        assert await call_back(app, server) == "verified"
        job = await ended(app, job_id)
        assert (job.status, job.callbacks, job.attempts) == ("completed", 1, 0)
        assert job.result["output"] == {"picture": "x"}
        [file] = job.result["files"]
        assert (file["name"], file["media_type"], file["size"]) == ("x.png", "image/png", len(PICTURE))
        assert server.fetched == ["x.png"]
        assert await kinds(app, job_id) == ["submitted", "claimed", "accepted", "callback", "completed"]
        assert (len(server.starts), server.asked, await money(app)) == (1, [], PAID)
        assert await app.verify() == []


async def _is_awaiting(app: Ficha, job_id: str) -> bool:
    return (await app.job(job_id)).provider_ref is not None


@pytest.mark.req("B9")
async def test_the_correlation_id_goes_to_the_provider_and_comes_back_in_the_log(
    server: LoopbackServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ficha.providers")
    async with studio("memory:", LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        assert start["headers"]["x-correlation-id"] == "trace-7"
        server.succeed(start["ref"])
        await call_back(app, server)
        await ended(app, job_id)
    told = {record.getMessage(): getattr(record, "correlation_id", None) for record in caplog.records}
    assert told == {"a provider called back": "trace-7", "collected": "trace-7"}


@pytest.mark.req("D9")
async def test_of_four_pictures_asked_for_those_that_the_provider_did_not_make_are_refunded(
    url: str, server: LoopbackServer
) -> None:
    provider = LoopbackProvider(server.url())
    app = studio(url, provider)

    @app.provider_tool(provider, cost=20, items="pictures")
    async def several(job: JobContext, pictures: int) -> ProviderCall:
        return ProviderCall("painter", {"n": pictures})

    async with app, working(app):
        await app.open_account("ana", credits=100)
        job_id = (await app.submit("several", {"pictures": 4}, account="ana")).job_id
        start = await started(server)
        made = [{"url": server.url(f"/file/{n}.png"), "name": f"{n}.png"} for n in range(3)]
        server.succeed(start["ref"], "three of them", made)
        await call_back(app, server)
        job = await ended(app, job_id)
        assert (job.status, job.delivered, job.charged, job.refunded) == ("completed", 3, 20, 5)
        assert await app.verify() == []


async def test_a_call_back_that_is_lost_is_made_up_for_by_a_poll(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url(), poll_s=0.05)) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        server.works[start["ref"]] = {"status": "working", "progress": 40}

        async def has_progress() -> bool:
            return (await app.job(job_id)).progress == 40

        await until(has_progress)
        server.succeed(start["ref"])
        job = await ended(app, job_id)
        assert (job.status, job.callbacks, job.result["output"]) == ("completed", 0, "done")
        assert (len(server.starts), await money(app)) == (1, PAID)


async def test_a_call_back_before_the_answer_finds_its_job(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app:

        async def early(what: str, ref: str) -> None:
            server.succeed(ref)
            assert await call_back(app, server) == "verified"
            assert (await app.job(job_id)).status == "starting"

        server.answering = early
        job_id = await submitted(app)
        async with working(app):
            job = await ended(app, job_id)
        assert (job.status, job.callbacks) == ("completed", 1)
        assert await kinds(app, job_id) == ["submitted", "claimed", "callback", "accepted", "completed"]
        assert (server.asked, await money(app)) == ([], PAID)


@pytest.mark.parametrize("at_once", [2, 20])
async def test_a_call_back_that_comes_many_times_finishes_once(url: str, server: LoopbackServer, at_once: int) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        server.succeed(start["ref"])
        assert await asyncio.gather(*(call_back(app, server) for _ in range(at_once))) == ["verified"] * at_once
        job = await ended(app, job_id)
        assert await call_back(app, server) == "verified"
        job = await app.job(job_id)
        assert (job.status, job.callbacks, await money(app)) == ("completed", at_once + 1, PAID)
        assert (await kinds(app, job_id)).count("completed") == 1
        assert await app.verify() == []


async def test_a_call_back_after_the_time_out_changes_nothing(url: str, server: LoopbackServer) -> None:
    app = Ficha(url, sweep_s=0.02, secret="s" * 32, public_url=PUBLIC_URL)
    provider = LoopbackProvider(server.url())

    # Long enough for the start on a busy machine: a start that takes longer is timed out itself.
    @app.provider_tool(provider, cost=5, timeout=1.5)
    async def draw(job: Any) -> Any:
        from ficha.providers import ProviderCall

        return ProviderCall("painter", {})

    async with app, working(app):
        job_id = await submitted(app)
        job = await ended(app, job_id)
        assert (job.status, job.error) == ("failed", "the provider did not answer within 1.5 s")
        start = server.starts[0]
        await until(lambda: server.cancelled == [start["ref"]], what="the provider is told")
        server.succeed(start["ref"])
        assert await call_back(app, server) == "verified"
        job = await app.job(job_id)
        assert (job.status, job.callbacks, await money(app)) == ("failed", 1, PAID_BACK)


async def test_a_cancelled_job_is_cancelled_at_the_provider(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        await until(lambda: _is_awaiting(app, job_id))
        await app.cancel(job_id)
        await until(lambda: server.cancelled == [start["ref"]])
        server.succeed(start["ref"])
        await call_back(app, server)
        assert ((await app.job(job_id)).status, await money(app)) == ("cancelled", PAID_BACK)

        async def is_told() -> bool:
            return not await app.hooks()

        await until(is_told)


async def test_a_provider_that_does_not_hear_of_the_end_is_told_again(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ficha.worker.due_runner.POLL_S", 0.05)
    async with studio("memory:", LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        await until(lambda: _is_awaiting(app, job_id))
        server.faults["cancel"] = [Reply(500), Reply(404)]
        await app.cancel(job_id)
        # A provider that does not know the work, and says so for good, is not told a third time.
        await until(lambda: len(server.cancelled) == 2)

        async def is_told() -> bool:
            return not await app.hooks()

        await until(is_told)


async def test_a_job_that_is_cancelled_while_the_request_is_out_is_cancelled_at_the_provider(
    url: str, server: LoopbackServer
) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app:

        async def cancel(what: str, ref: str) -> None:
            if what == "start":
                await app.cancel(job_id)

        server.answering = cancel
        job_id = await submitted(app)
        async with working(app):
            await until(lambda: server.cancelled == ["ref-1"])
        assert ((await app.job(job_id)).status, await money(app)) == ("cancelled", PAID_BACK)


@pytest.mark.parametrize("order", ["error then success", "success then error"])
async def test_of_two_words_that_contradict_each_other_one_counts(url: str, server: LoopbackServer, order: str) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        tell = [lambda: server.fail(start["ref"], "too dark"), lambda: server.succeed(start["ref"])]
        for act in tell if order.startswith("error") else tell[::-1]:
            act()
            await call_back(app, server)
            job = await ended(app, job_id)
        first = "failed" if order.startswith("error") else "completed"
        assert (job.status, job.callbacks) == (first, 2 if (await app.job(job_id)).callbacks == 2 else 1)
        assert (await app.job(job_id)).status == first
        assert await money(app) == (PAID_BACK if first == "failed" else PAID)


@pytest.mark.parametrize("order", ["error then success", "success then error"])
async def test_of_two_words_before_anybody_looked_the_first_one_counts(
    url: str, server: LoopbackServer, order: str
) -> None:
    """Also if the first is too long to be kept, so that its result is fetched."""
    async with studio(url, LoopbackProvider(server.url())) as app:
        job_id = await submitted(app)
        assert await app.run_worker(burst=True) == 1
        ref, long = server.starts[0]["ref"], "x" * 20_000
        tell = [lambda: server.fail(ref, long), lambda: server.succeed(ref, long)]
        for act in tell if order.startswith("error") else tell[::-1]:
            act()
            assert await call_back(app, server) == "verified"
        # Its state is asked for by nobody, and says what was said last.
        server.succeed(ref, long)
        await app.run_worker(burst=True)
        job = await app.job(job_id)
        assert (job.status, job.callbacks, server.asked) == (
            "failed" if order.startswith("error") else "completed",
            2,
            [],
        )
        assert await money(app) == (PAID_BACK if order.startswith("error") else PAID)


@pytest.mark.req("A12")
async def test_a_word_that_nobody_read_in_time_is_read_before_the_job_fails(url: str, server: LoopbackServer) -> None:
    provider = LoopbackProvider(server.url())
    app = studio(url, provider)

    @app.provider_tool(provider, cost=5, timeout=2.5)
    async def quick(job: JobContext) -> ProviderCall:
        return ProviderCall("painter", {})

    async with app:
        await app.open_account("ana", credits=100)
        told, silent = [(await app.submit("quick", {}, account="ana")).job_id for _ in range(2)]
        assert await app.run_worker(burst=True) == 2
        start = next(start for start in server.starts if start["key"].startswith(told))
        server.succeed(start["ref"], "in time")
        headers, body = server.callback(start["ref"])
        for _ in range(8):
            await app.receive_callback("loopback", token_of(start), headers, body)
        # Of two jobs whose time is up, the one without a word fails.
        assert (await ended(app, silent)).error == "the provider did not answer within 2.5 s"
        assert (await app.job(told)).status == "running"
        async with working(app):
            job = await ended(app, told)
        assert (job.status, job.result["output"]) == ("completed", "in time")
        assert await app.verify() == []


@pytest.mark.req("A12")
async def test_forged_call_backs_cannot_push_the_true_one_out_of_what_is_kept(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app:
        job_id = await submitted(app)
        assert await app.run_worker(burst=True) == 1
        server.succeed(server.starts[0]["ref"], "the truth")
        for _ in range(25):
            with pytest.raises(Refused):
                await call_back(app, server, secret="another's")  # noqa: S106 (a forger's)
        assert await call_back(app, server) == "verified"
        await app.run_worker(burst=True)
        job = await app.job(job_id)
        assert (job.status, job.result["output"], server.asked) == ("completed", "the truth", [])
        assert (await kinds(app, job_id)).count("callback") == 11


@pytest.mark.req("A4")
async def test_the_providers_own_words_reach_the_user_and_are_final_where_it_says_so(
    url: str, server: LoopbackServer
) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        server.fail(start["ref"], "the picture is too dark")
        await call_back(app, server)
        job = await ended(app, job_id)
        assert (job.status, job.user_error, job.attempts) == ("failed", "the picture is too dark", 1)
        assert (len(server.starts), await money(app)) == (1, PAID_BACK)


def described(server: LoopbackServer, **fields: Any) -> GenericProvider:
    """The same server's API, described instead of written."""
    return GenericProvider(
        "described",
        start=RequestTemplate(url=server.url("/start"), body={"key": "{key}", "callback": "{callback_url}"}),
        ref="ref",
        status=RequestTemplate(method="GET", url=server.url() + "work/{ref}"),
        result=RequestTemplate(method="GET", url=server.url() + "result/{ref}"),
        fields=StateFields(
            state="status", working=("working",), succeeded=("succeeded",), failed=("failed",), **fields
        ),
        poll_s=0.05,
    )


TRACEBACK = 'Traceback (most recent call last):\n  File "rp/h.py", line 4, in handler\nValueError: no face'


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("fields", "said", "read"),
    [
        ({}, "CUDA out of memory at 0x7f", "The job failed for an internal reason"),
        ({"user_error": "error"}, "the picture is too dark", "the picture is too dark"),
        ({"user_error": "error"}, TRACEBACK, "The job failed for an internal reason"),
        (
            {"user_error": "error", "user_words": "Please try another picture."},
            TRACEBACK,
            "Please try another picture.",
        ),
    ],
)
async def test_the_owner_reads_no_raw_error_of_a_described_provider(
    url: str, server: LoopbackServer, fields: dict[str, str], said: str, read: str
) -> None:
    async with studio(url, described(server, **fields)) as app, working(app):
        job_id = await submitted(app)
        server.fail((await started(server))["ref"], said)
        job = await ended(app, job_id)
        assert (job.status, await money(app)) == ("failed", PAID_BACK)
        assert job.user_error.startswith(read)
        # The operator reads all of it.
        history = [event.data or {} for event in await app.events(job=job_id)]
        assert any(said in (told.get("error") or "", told.get("traceback") or "") for told in history)


async def test_a_traceback_of_any_provider_stays_with_the_operator(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        server.fail((await started(server))["ref"], TRACEBACK)
        await call_back(app, server)
        job = await ended(app, job_id)
        assert (job.error, "Traceback" in job.user_error) == (TRACEBACK, False)
        server.faults["start"] = [Reply(422, body=json.dumps({"detail": TRACEBACK}).encode())]
        job = await ended(app, await submitted(app))
        assert (job.error, "Traceback" in job.user_error) == (TRACEBACK, False)


@pytest.mark.req("D9")
async def test_work_whose_files_cannot_be_found_is_refunded(url: str, server: LoopbackServer) -> None:
    async with studio(url, described(server, files="files.*.url")) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        server.succeed(start["ref"], "done", [{"filename": "x.png", "subfolder": ""}])
        job = await ended(app, job_id)
        assert (job.status, await money(app)) == ("failed", PAID_BACK)
        assert job.error == "the provider's answer has no address of a file at files.*.url, but []"
        assert "internal reason" in job.user_error


async def test_a_failure_that_is_not_final_is_tried_again_under_another_key(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        first = await started(server)
        server.fail(first["ref"], "the machine broke", final=False)
        await call_back(app, server)
        second = await started(server, 2)
        assert [start["key"] for start in server.starts] == [f"{job_id}:0", f"{job_id}:1"]
        # A word about the first run is late by now.
        server.succeed(first["ref"], "of the first run")
        await call_back(app, server, 0)
        server.succeed(second["ref"], "of the second run")
        await call_back(app, server, 1)
        job = await ended(app, job_id)
        assert (job.status, job.result["output"], await money(app)) == ("completed", "of the second run", PAID)


@pytest.mark.parametrize(
    ("reply", "words", "for_user"),
    [
        (Reply(422, body=b'{"detail": "no such painter"}'), "no such painter", True),
        (Reply(401, body=b'{"detail": "bad key"}'), "the provider answered 401: bad key", False),
    ],
)
async def test_a_start_that_the_provider_refuses_fails_and_pays_back(
    url: str, server: LoopbackServer, reply: Reply, words: str, for_user: bool
) -> None:
    server.faults["start"] = [reply]
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job = await ended(app, await submitted(app))
        assert (job.status, job.error, len(server.starts)) == ("failed", words, 1)
        assert (job.user_error == words) is for_user
        assert await money(app) == PAID_BACK


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500),
        Reply(429, (("retry-after", "0"),)),
        Reply(200, body=b"<html>"),
        Reply(302, (("location", "/elsewhere"),)),
        None,
    ],
    ids=["500", "429", "html", "redirect", "cut off"],
)
async def test_a_start_that_may_have_worked_is_repeated_under_the_same_key_and_begins_one_work(
    url: str, server: LoopbackServer, reply: Reply | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ficha.worker.starter.BACKOFF_MAX_S", 0.01)
    server.faults["start"] = [reply]
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server, 2)
        server.succeed(start["ref"])
        await call_back(app, server, 1)
        job = await ended(app, job_id)
        assert (job.status, job.attempts, await money(app)) == ("completed", 0, PAID)
        assert (server.keys, len(server.works)) == ([f"{job_id}:0"], 1)


async def test_a_provider_without_keys_is_not_called_twice_for_one_attempt(url: str, server: LoopbackServer) -> None:
    server.faults["start"] = [Reply(500), Reply(500)]
    async with studio(url, SilentProvider(server.url())) as app, working(app):
        job = await ended(app, await submitted(app))
        # The tool allows two attempts, and makes no call beyond them.
        assert (job.status, job.attempts, len(server.starts)) == ("failed", 2, 2)
        assert await money(app) == PAID_BACK


async def test_a_provider_that_nobody_can_reach_fails_the_job_when_its_time_is_up(server: LoopbackServer) -> None:
    await server.go()
    app = Ficha("memory:", sweep_s=0.02)
    provider = LoopbackProvider(server.url())

    @app.provider_tool(provider, cost=5, timeout=0.2)
    async def draw(job: Any) -> Any:
        from ficha.providers import ProviderCall

        return ProviderCall("painter", {})

    async with app, working(app):
        job = await ended(app, await submitted(app))
        assert (job.status, await money(app)) == ("failed", PAID_BACK)


async def test_a_call_back_that_nothing_signs_is_a_reason_to_ask(url: str, server: LoopbackServer) -> None:
    async with studio(url, SilentProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        await until(lambda: _is_awaiting(app, job_id))
        # It says that all went well, and the provider does not say so itself.
        headers, _ = server.callback(start["ref"])
        lie = json.dumps({"ref": start["ref"], "status": "succeeded", "output": "a lie"}).encode()
        assert await app.receive_callback("loopback", token_of(start), headers, lie) == "unsigned"
        await until(lambda: server.asked)
        assert (await app.job(job_id)).status == "running"
        server.succeed(start["ref"], "the truth")
        await app.receive_callback("loopback", token_of(start), {}, b"")
        job = await ended(app, job_id)
        assert (job.status, job.result["output"]) == ("completed", "the truth")


async def test_a_forged_call_back_is_refused_kept_and_changes_nothing(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        await until(lambda: _is_awaiting(app, job_id))
        server.succeed(start["ref"], "forged")
        with pytest.raises(Refused) as refused:
            await call_back(app, server, secret=OUR_SECRET)
        assert refused.value.code == "UNAUTHENTICATED"
        [kept] = [event for event in await app.events(job=job_id) if event.kind == "callback"]
        assert (kept.data["verdict"], kept.data["attempt"]) == ("forged", 0)
        assert (server.asked, (await app.job(job_id)).status) == ([], "running")


@pytest.mark.parametrize("broken", ["signature", "job", "attempt", "provider", "empty", "long", "dots", "sign"])
async def test_an_address_that_is_not_ours_is_not_found_whatever_is_wrong_with_it(
    server: LoopbackServer, broken: str
) -> None:
    async with studio("memory:", LoopbackProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        server.succeed(start["ref"])
        job, attempt, signature = token_of(start).split(".")
        tokens = {
            "signature": f"{job}.{attempt}.{signature[:-1]}{'A' if signature[-1] != 'A' else 'B'}",
            "job": f"{job[:-1]}{'0' if job[-1] != '0' else '1'}.{attempt}.{signature}",
            "attempt": f"{job}.1.{signature}",
            "empty": "",
            "long": f"{job}.{attempt}.{'x' * 10_000}",
            "dots": "...",
            "sign": f"{job}.-0.{signature}",
        }
        provider = "another" if broken == "provider" else "loopback"
        headers, body = server.callback(start["ref"])
        with pytest.raises(NotFound, match="there is no such call-back address"):
            await app.receive_callback(provider, tokens.get(broken, token_of(start)), headers, body)
        assert (await app.job(job_id)).callbacks == 0


async def test_a_call_back_with_another_jobs_reference_does_not_finish_this_one(
    url: str, server: LoopbackServer
) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app, working(app):
        job_ids = [await submitted(app), await submitted(app)]
        await started(server, 2)
        for job_id in job_ids:
            await until(lambda job_id=job_id: _is_awaiting(app, job_id))
        one, other = server.starts
        server.succeed(other["ref"])
        headers, body = server.callback(other["ref"])
        assert await app.receive_callback("loopback", token_of(one), headers, body) == "verified"
        assert [(await app.job(job_id)).status for job_id in job_ids] == ["running"] * 2
        # And also not when its own provider is asked.
        server.succeed(one["ref"], "its own")
        await call_back(app, server, 0)
        own = next(job_id for job_id in job_ids if one["key"].startswith(job_id))
        assert (await ended(app, own)).result["output"] == "its own"


async def test_what_a_call_back_holds_is_kept_without_its_secrets_and_not_beyond_its_limits(
    url: str, server: LoopbackServer
) -> None:
    async with studio(url, SilentProvider(server.url())) as app, working(app):
        job_id = await submitted(app)
        start = await started(server)
        secret = "sk-" + "a1" * 20
        body = f'{{"api_key": "{secret}", "é": "\x00", "long": "{"x" * 100_000}"}}'.encode() + b"\xff"
        sent = {"Authorization": f"Bearer {secret}", "User-Agent": "painter/1", "Cookie": secret}
        for _ in range(25):
            await app.receive_callback("loopback", token_of(start), sent, body)
        found = [event for event in await app.events(job=job_id, limit=100) if event.kind == "callback"]
        assert (len(found), (await app.job(job_id)).callbacks) == (20, 25)
        kept = found[0].data
        assert kept["headers"] == {"user-agent": "painter/1"}
        assert len(kept["body"].encode()) <= 16_384
        assert secret not in json.dumps(kept)


async def test_a_burst_collects_what_is_due(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url())) as app:
        job_id = await submitted(app)
        assert await app.run_worker(burst=True) == 1
        assert (await app.job(job_id)).status == "running"
        server.succeed(server.starts[0]["ref"])
        await call_back(app, server)
        await app.run_worker(burst=True)
        assert (await app.job(job_id)).status == "completed"


async def test_a_burst_waits_for_polls_that_fall_due_soon_enough(url: str, server: LoopbackServer) -> None:
    async with studio(url, LoopbackProvider(server.url(), poll_s=0.2)) as app:
        job_id = await submitted(app)

        async def done(what: str, ref: str) -> None:
            server.succeed(ref)

        server.answering = done
        await app.run_worker(burst=True, due_within_s=30)
        assert (await app.job(job_id)).status == "completed"


async def test_a_copy_that_fails_is_made_again_and_the_provider_is_not_started_again(
    url: str, server: LoopbackServer
) -> None:
    async with studio(url, LoopbackProvider(server.url(), poll_s=0.05)) as app:
        server.faults["file"] = [Reply(500), None]
        job_id = await submitted(app)
        async with working(app):
            start = await started(server)
            server.succeed(start["ref"], "x", [{"url": server.url("/file/x.png")}])
            job = await ended(app, job_id)
        assert (job.status, [file["name"] for file in job.result["files"]]) == ("completed", ["x.png"])
        assert (len(server.fetched), len(server.starts), await money(app)) == (3, 1, PAID)
