"""Each built-in provider against the simulator, over the client that Ficha uses: lives of a task, and bad answers."""

import io
from collections.abc import AsyncIterator

import pytest
from PIL import Image

from ficha.outbound import Outbound
from ficha.providers import (
    Fal,
    Provider,
    ProviderBusy,
    ProviderCall,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderStatus,
    ProviderSucceeded,
    ProviderWorking,
    Replicate,
    RunningHub,
)
from tests.providers.kinds import KINDS, Kind, http_over, started, task_of
from tests.support.provider_simulator import Simulated


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def provider(kind: Kind, simulator: Simulated) -> Provider:
    return kind.of(simulator)


@pytest.fixture
async def outbound() -> AsyncIterator[Outbound]:
    outbound = Outbound(allow=("127.0.0.0/8",))
    yield outbound
    await outbound.close()


@pytest.fixture
def http(outbound: Outbound) -> ProviderHttp:
    return http_over(outbound)


async def ended(provider: Provider, http: ProviderHttp, simulator: Simulated, ref: str) -> ProviderStatus:
    simulator.until_over(task_of(ref))
    return await provider.status(http, ref)


async def test_a_picture_is_upscaled(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    ref = await started(provider, http, kind.call(picture, scale=2))
    status = await ended(provider, http, simulator, ref)
    assert isinstance(status, ProviderSucceeded)
    result = status.result or await provider.result(http, ref)
    assert result == await provider.result(http, ref)
    (file,) = result.files
    made = Image.open(io.BytesIO(simulator.request("GET", file.url).content))
    assert made.size == (60, 40)
    assert file.name is not None
    assert file.name.endswith(".png")
    assert file.media_type in (None, "image/png")


async def test_a_task_that_works_says_so_and_is_cancelled(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    simulator.task(hold=True)
    ref = await started(provider, http, kind.call(picture))
    assert isinstance(await provider.status(http, ref), ProviderWorking)
    with pytest.raises(ProviderError):
        await provider.result(http, ref)
    await provider.cancel(http, ref)
    assert simulator.until_over(task_of(ref)) == "cancelled"
    assert isinstance(await provider.status(http, ref), ProviderFailed)
    await provider.cancel(http, ref)  # once more is no error


async def test_a_task_that_has_ended_is_cancelled_without_an_error(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    ref = await started(provider, http, kind.call(picture))
    assert simulator.until_over(task_of(ref)) == "succeeded"
    await provider.cancel(http, ref)
    assert isinstance(await provider.status(http, ref), ProviderSucceeded)


async def test_a_failure_is_told_in_the_providers_words(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    simulator.task(fail="CUDA out of memory. Tried to allocate 2 GiB")
    status = await ended(provider, http, simulator, await started(provider, http, kind.call(picture)))
    assert isinstance(status, ProviderFailed)
    assert (status.error, status.final) == ("CUDA out of memory. Tried to allocate 2 GiB", True)


async def test_a_failure_of_fals_machines_may_be_tried_again(
    http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    provider = KINDS["fal"].of(simulator)
    simulator.task(fail="Runner disconnected", crash=True)
    ref = await started(provider, http, KINDS["fal"].call(picture))
    assert await ended(provider, http, simulator, ref) == ProviderFailed("Runner disconnected", final=False)
    # A gateway that fails says nothing about the request.
    simulator.answer("500", on="result")
    with pytest.raises(ProviderError) as caught:
        await provider.status(http, ref)
    assert caught.value.is_fault


async def test_the_key_of_the_run_goes_with_the_start(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    refs = [await started(provider, http, kind.call(picture), key="job:3") for _ in range(2)]
    assert [entry["key"] for entry in simulator.log("start")] == ["job:3", "job:3"]
    assert (refs[0] == refs[1]) == provider.takes_keys == (kind.name == "plain")


async def test_a_bad_key_is_final_and_its_words_are_not_for_the_user(
    kind: Kind, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    with pytest.raises(ProviderError) as caught:
        await started(kind.of(simulator, "bad"), http, kind.call(picture))
    assert (caught.value.final, caught.value.is_fault, caught.value.for_user) == (True, False, False)


async def test_a_task_that_is_not_known_is_final(kind: Kind, provider: Provider, http: ProviderHttp) -> None:
    ref = "acme/image-upscaler/requests/none" if kind.name == "fal" else "none"
    with pytest.raises(ProviderError) as caught:
        await provider.status(http, ref)
    assert (caught.value.final, caught.value.is_fault) == (True, False)


@pytest.mark.parametrize("on", ["start", "status", "cancel"])
@pytest.mark.parametrize("fault", ["close", "500", "html", "redirect", "huge", "garbage", "empty"])
async def test_a_bad_answer_is_a_failure_of_the_provider_and_may_be_tried_again(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str, on: str, fault: str
) -> None:
    simulator.task(hold=True)
    ref = await started(provider, http, kind.call(picture))
    simulator.answer(fault, on=on)
    calls = {
        "start": lambda: started(provider, http, kind.call(picture)),
        "status": lambda: provider.status(http, ref),
        "cancel": lambda: provider.cancel(http, ref),
    }
    if on == "cancel" and kind.name != "runninghub" and fault in ("html", "garbage", "empty"):
        await calls[on]()  # the status 200 says it all; nobody reads the rest
        return
    with pytest.raises(ProviderError) as caught:
        await calls[on]()
    error = caught.value
    assert (error.final, error.is_fault, error.was_sent, error.for_user) == (False, True, True, False)


async def test_one_request_too_many_waits_as_long_as_the_provider_says(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    simulator.answer("429", on="start", retry_after="17")
    with pytest.raises(ProviderBusy) as caught:
        await started(provider, http, kind.call(picture))
    assert (caught.value.retry_after_s, caught.value.was_sent) == (17.0, False)
    assert simulator.tasks() == []


async def test_a_slow_answer_is_given_up(kind: Kind, simulator: Simulated, outbound: Outbound, picture: str) -> None:
    simulator.answer(on="start", slow=30)
    with pytest.raises(ProviderError) as caught:
        await started(kind.of(simulator), http_over(outbound, timeout_s=0.05), kind.call(picture))
    # Whether it was sent depends on how busy this machine is.
    assert (caught.value.final, caught.value.is_fault) == (False, True)


async def test_a_provider_that_is_not_there_has_received_nothing(
    kind: Kind, http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    nowhere = Simulated("http://127.0.0.1:9")
    nowhere.request = simulator.request
    with pytest.raises(ProviderError) as caught:
        await started(kind.of(nowhere), http, kind.call(picture))
    assert (caught.value.was_sent, caught.value.is_fault) == (False, True)
    nowhere.close()


async def test_an_answer_that_is_lost_leaves_one_task_where_keys_are_taken(
    http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    kind = KINDS["plain"]
    provider = kind.of(simulator)
    simulator.answer("close", on="start", after=True)
    with pytest.raises(ProviderError):
        await started(provider, http, kind.call(picture), key="job:0")
    ref = await started(provider, http, kind.call(picture), key="job:0")
    assert [task["id"] for task in simulator.tasks()] == [ref]


async def test_the_providers_refusal_of_an_input_is_for_the_user(
    kind: Kind, provider: Provider, http: ProviderHttp, simulator: Simulated
) -> None:
    call = kind.call("data:text/plain,hello")
    status = await ended(provider, http, simulator, await started(provider, http, call))
    assert isinstance(status, ProviderFailed)
    assert status.error == "cannot identify image file"


@pytest.mark.parametrize("name", ["replicate", "fal", "runninghub"])
async def test_an_option_that_is_not_known_is_refused_before_anything_is_sent(
    http: ProviderHttp, simulator: Simulated, picture: str, name: str
) -> None:
    kind = KINDS[name]
    call = ProviderCall("acme/upscaler", kind.call(picture).input, {"speed": 9})
    with pytest.raises(ProviderError, match="unknown option 'speed'") as caught:
        await started(kind.of(simulator), http, call)
    assert (caught.value.final, caught.value.was_sent, caught.value.is_fault) == (True, False, False)
    assert simulator.log() == []


@pytest.mark.parametrize("target", ["", "a//b", "a/b/c/d", ":x", "../x", "a b"])
async def test_a_target_that_cannot_be_one_is_refused_before_anything_is_sent(
    http: ProviderHttp, simulator: Simulated, target: str
) -> None:
    provider = KINDS["fal"].of(simulator) if target in ("../x", "a b", "") else KINDS["replicate"].of(simulator)
    with pytest.raises(ProviderError) as caught:
        await started(provider, http, ProviderCall(target, {}))
    assert (caught.value.final, caught.value.was_sent) == (True, False)
    assert simulator.log() == []


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("acme/upscaler", "/replicate/v1/models/acme/upscaler/predictions"),
        ("acme/upscaler:f00d", "/replicate/v1/predictions"),
        ("f00d-upscaler", "/replicate/v1/predictions"),
        ("deployments/acme/upscaler", "/replicate/v1/deployments/acme/upscaler/predictions"),
    ],
)
async def test_replicate_starts_models_versions_and_deployments(
    http: ProviderHttp, simulator: Simulated, picture: str, target: str, path: str
) -> None:
    await started(KINDS["replicate"].of(simulator), http, ProviderCall(target, {"image": picture}))
    assert [entry["path"] for entry in simulator.log("start")] == [path]


async def test_fal_drops_a_models_subpath_from_a_requests_address(
    http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    provider = KINDS["fal"].of(simulator)
    ref = await started(provider, http, ProviderCall("acme/upscaler/fast/v2", {"image": picture}))
    assert ref.startswith("acme/upscaler/requests/")
    assert isinstance(await ended(provider, http, simulator, ref), ProviderSucceeded)


@pytest.mark.parametrize("target", ["upscale-workflow-1", "app:upscaler-7"])
async def test_runninghub_starts_workflows_and_apps_with_files_that_it_was_given(
    http: ProviderHttp, simulator: Simulated, picture: str, target: str
) -> None:
    provider = KINDS["runninghub"].of(simulator)
    call = ProviderCall(target, {"10.image": picture, "3.scale": 4}, {"upload": ["10.image"]})
    ref = await started(provider, http, call)
    status = await ended(provider, http, simulator, ref)
    assert isinstance(status, ProviderSucceeded)
    (file,) = status.result.files
    assert Image.open(io.BytesIO(simulator.request("GET", file.url).content)).size == (120, 80)
    # The result's address is given as the next input: it is fetched, and uploaded.
    again = await started(provider, http, ProviderCall(target, {"1.image": file.url}, {"upload": ["1.image"]}))
    assert isinstance(await ended(provider, http, simulator, again), ProviderSucceeded)
    assert len(simulator.log("upload")) == 2


@pytest.mark.parametrize("name", ["image", "6.", ".text"])
async def test_an_input_that_names_no_node_is_refused(http: ProviderHttp, simulator: Simulated, name: str) -> None:
    with pytest.raises(ProviderError, match="names no node's field"):
        await started(KINDS["runninghub"].of(simulator), http, ProviderCall("w", {name: "x"}))


async def test_costs_are_worked_out_from_what_the_provider_tells(
    http: ProviderHttp, simulator: Simulated, picture: str
) -> None:
    simulator.task(seconds=0.01, times=5)
    costs = {}
    for name, price in (
        ("replicate", {"price_per_s": {"acme/image-upscaler": 2.0}}),
        ("fal", {"price_per_s": 2.0}),
        ("runninghub", {"price_per_coin": 0.5}),
        ("plain", {}),
    ):
        provider = KINDS[name].of(simulator, **price)
        status = await ended(provider, http, simulator, await started(provider, http, KINDS[name].call(picture)))
        assert isinstance(status, ProviderSucceeded)
        costs[name] = status.result.cost
    assert costs["runninghub"] == 0.5
    assert costs["plain"] >= 0.01
    assert 0 < costs["replicate"] < 60
    assert 0 < costs["fal"] < 60
    free = KINDS["replicate"].of(simulator, price_per_s={"acme/other": 2.0})
    status = await ended(free, http, simulator, await started(free, http, KINDS["replicate"].call(picture)))
    assert status.result.cost is None


def test_a_missing_key_is_said_at_once(monkeypatch: pytest.MonkeyPatch, simulator: Simulated) -> None:
    for cls, variable in ((Replicate, "REPLICATE_API_TOKEN"), (Fal, "FAL_KEY"), (RunningHub, "RUNNINGHUB_API_KEY")):
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(ValueError, match=variable):
            cls()
        monkeypatch.setenv(variable, "from the environment")
        cls()
        monkeypatch.setenv(variable, "two\nlines")
        with pytest.raises(ValueError, match=variable):
            cls()
