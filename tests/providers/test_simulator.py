"""The provider simulator: what it answers as each provider, the work it does, and that it misbehaves when told to."""

import base64
import io
import json
from typing import Any

import httpx
import pytest
from PIL import Image, ImageSequence

from tests.providers.conftest import data_uri
from tests.support.provider_simulator import Receiver, Simulated

BEARER = {"Authorization": "Bearer key"}


def predict(simulator: Simulated, model: str, given: dict[str, Any], **body: Any) -> dict[str, Any]:
    body = {"version": model, "input": given, **body}
    answer = simulator.request("POST", "/replicate/v1/predictions", json=body, headers=BEARER)
    assert answer.status_code == 201, answer.text
    return answer.json()


def result(simulator: Simulated, model: str, **given: Any) -> dict[str, Any]:
    started = predict(simulator, model, given)
    simulator.until_over(started["id"])
    return simulator.request("GET", f"/replicate/v1/predictions/{started['id']}", headers=BEARER).json()


def output(simulator: Simulated, model: str, **given: Any) -> Image.Image:
    ended = result(simulator, model, **given)
    assert ended["status"] == "succeeded", ended["error"]
    image = Image.open(io.BytesIO(simulator.request("GET", ended["output"]).content))
    image.load()
    return image


@pytest.mark.parametrize("scale", [2, 4])
def test_an_upscale_is_a_true_one(simulator: Simulated, picture: str, scale: int) -> None:
    made = output(simulator, "acme/image-upscaler", image=picture, scale=scale)
    assert made.size == (30 * scale, 20 * scale)
    assert (made.getpixel((2, 2)), made.getpixel((made.width - 3, 3))) == ((255, 0, 0), (0, 0, 255))


@pytest.mark.parametrize("model", ["pose-changer", "outfit-changer", "product-shot", "freestyle", "my-workflow"])
def test_the_other_models_change_the_picture_visibly(simulator: Simulated, picture: str, model: str) -> None:
    made = output(simulator, f"acme/{model}", image=picture, prompt="a green coat")
    before = Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))).convert("RGB")
    after = made.convert("RGB").resize(before.size)
    changed = sum(a != b for a, b in zip(after.tobytes(), before.tobytes(), strict=True))
    assert changed > 100


def test_a_try_on_puts_the_garment_onto_the_person(simulator: Simulated, picture: str) -> None:
    garment = data_uri(Image.new("RGB", (8, 8), (0, 255, 0)))
    made = output(simulator, "acme/virtual-try-on", garment_image=garment, human_image=picture)
    assert made.size == (30, 20)
    assert made.getpixel((15, 17))[1] > 180
    assert made.getpixel((1, 1)) == (255, 0, 0)
    assert result(simulator, "acme/virtual-try-on", human_image=picture)["error"] == "garment_image: field required"


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_a_clip_is_upscaled_frame_by_frame(simulator: Simulated, format: str) -> None:
    frames = [Image.new("RGB", (10, 6), colour) for colour in ("red", "green", "blue")]
    clip = data_uri(frames[0], format, save_all=True, append_images=frames[1:], duration=70)
    made = output(simulator, "acme/video-upscaler", video=clip)
    assert (made.format, made.size, made.n_frames) == (format, (20, 12), 3)
    middle = ImageSequence.Iterator(made)[1].convert("RGB").getpixel((10, 6))
    assert middle[1] > middle[0] + 60
    assert made.info["duration"] == 70


def test_what_is_no_picture_fails_in_the_models_words(simulator: Simulated) -> None:
    assert result(simulator, "upscaler", image="data:text/plain,hello")["error"] == "cannot identify image file"
    assert result(simulator, "upscaler", image="https://example.com/x.png")["status"] == "failed"
    assert "loopback" in result(simulator, "upscaler", image="http://10.0.0.1/x.png")["error"]


def test_a_picture_is_fetched_by_its_address(simulator: Simulated, picture: str) -> None:
    url = result(simulator, "upscaler", image=picture)["output"]
    assert output(simulator, "upscaler", image=url).size == (120, 80)


def test_a_bad_key_is_refused(simulator: Simulated) -> None:
    for path, bad in (("/replicate/v1/predictions", "Bearer bad"), ("/fal/acme/upscaler", "Key bad")):
        assert simulator.request("POST", path, json={}, headers={"Authorization": bad}).status_code == 401
    answer = simulator.request("POST", "/runninghub/task/openapi/create", json={"apiKey": "bad"})
    assert answer.json()["code"] == 802


@pytest.mark.parametrize("fault", ["500", "429", "404", "html", "redirect", "huge", "garbage", "empty"])
def test_an_answer_is_as_bad_as_planned_and_the_next_one_good(simulator: Simulated, fault: str, picture: str) -> None:
    simulator.answer(fault, on="start", provider="replicate", retry_after="7")
    body = {"version": "upscaler", "input": {"image": picture}}
    answer = simulator.request("POST", "/replicate/v1/predictions", json=body, headers=BEARER)
    match fault:
        case "500" | "429" | "404":
            assert answer.status_code == int(fault)
            assert (fault != "429") or answer.headers["retry-after"] == "7"
        case "html":
            assert answer.text.startswith("<html>")
        case "redirect":
            assert answer.status_code == 302
        case "huge":
            assert len(answer.content) > 10_000_000
        case _:
            with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
                answer.json()
    assert simulator.tasks() == []
    predict(simulator, "upscaler", {"image": picture})


def test_a_connection_is_closed_after_the_task_was_made(simulator: Simulated, picture: str) -> None:
    simulator.answer("close", on="start", after=True)
    with pytest.raises(httpx.RemoteProtocolError):
        predict(simulator, "upscaler", {"image": picture})
    assert len(simulator.tasks()) == 1


def test_a_provider_is_down_until_it_is_told_to_behave(simulator: Simulated, picture: str) -> None:
    ref = predict(simulator, "upscaler", {"image": picture})["id"]
    simulator.answer("close", times=0)
    for _ in range(3):
        with pytest.raises(httpx.RemoteProtocolError):
            simulator.request("GET", f"/replicate/v1/predictions/{ref}", headers=BEARER)
    simulator.behave()
    assert simulator.request("GET", f"/replicate/v1/predictions/{ref}", headers=BEARER).status_code == 200


def test_a_result_breaks_off_once_and_can_be_fetched_then(simulator: Simulated, picture: str) -> None:
    simulator.task(file="cut", file_times=1)
    url = result(simulator, "upscaler", image=picture)["output"]
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.request("GET", url)
    assert simulator.request("GET", url).status_code == 200


@pytest.mark.parametrize(("fault", "status"), [("404", 404), ("expired", 403), ("500", 500), ("redirect", 302)])
def test_a_result_cannot_be_fetched(simulator: Simulated, picture: str, fault: str, status: int) -> None:
    simulator.task(file=fault)
    url = result(simulator, "upscaler", image=picture)["output"]
    assert [simulator.request("GET", url).status_code for _ in range(2)] == [status, status]


def test_call_backs_are_duplicated_lost_and_sent_before_the_answer(
    simulator: Simulated, callbacks: Receiver, picture: str
) -> None:
    simulator.task(duplicate=3)
    predict(simulator, "upscaler", {"image": picture}, webhook=f"{callbacks.url}/t")
    callbacks.until(3)
    simulator.task(lose=True)
    lost = predict(simulator, "upscaler", {"image": picture}, webhook=f"{callbacks.url}/t")
    simulator.until_over(lost["id"])
    simulator.task(early=True)
    predict(simulator, "upscaler", {"image": picture}, webhook=f"{callbacks.url}/early")
    assert [call.path for call in callbacks.received] == ["/t", "/t", "/t", "/early"]


def test_a_provider_changes_its_mind(simulator: Simulated, callbacks: Receiver, picture: str) -> None:
    simulator.task(verdicts=["failed", "succeeded"])
    predict(simulator, "upscaler", {"image": picture}, webhook=f"{callbacks.url}/t")
    assert [json.loads(call.body)["status"] for call in callbacks.until(2)] == ["failed", "succeeded"]


def test_a_call_back_is_tried_again_until_it_is_taken(simulator: Simulated, callbacks: Receiver, picture: str) -> None:
    callbacks.answers = [503, 500]
    predict(simulator, "upscaler", {"image": picture}, webhook=f"{callbacks.url}/t")
    callbacks.until(3)
    callbacks.answers = [401]
    told = simulator.tasks()[0]["id"]
    assert simulator.callback(told, wrong_token=True) == [401]
    assert callbacks.received[-1].path != "/t"


def test_a_repeated_key_gets_the_first_task_where_keys_are_taken(simulator: Simulated, picture: str) -> None:
    headers = BEARER | {"Idempotency-Key": "job:1"}
    body = {"model": "upscaler", "input": {"image": picture}}
    first, second = (simulator.request("POST", "/plain/tasks", json=body, headers=headers) for _ in range(2))
    assert first.json()["task"]["id"] == second.json()["task"]["id"]
    assert [(entry["key"], entry["repeated"]) for entry in simulator.log("start")] == [
        ("job:1", False),
        ("job:1", True),
    ]
    body = {"version": "upscaler", "input": {"image": picture}}
    for _ in range(2):
        simulator.request("POST", "/replicate/v1/predictions", json=body, headers=headers)
    assert len(simulator.tasks()) == 3


def test_a_task_is_held_until_it_is_told_and_can_be_cancelled(simulator: Simulated, picture: str) -> None:
    simulator.task(hold=True, times=2)
    held, cancelled = (predict(simulator, "upscaler", {"image": picture})["id"] for _ in range(2))
    simulator.finish(held)
    assert simulator.until_over(held) == "succeeded"
    answer = simulator.request("POST", f"/replicate/v1/predictions/{cancelled}/cancel", headers=BEARER)
    assert answer.json()["status"] == "canceled"


def test_bad_control_is_told_what_is_wrong(simulator: Simulated) -> None:
    answer = simulator.request("POST", "/control", json={"task": {"explode": True}})
    assert (answer.status_code, "explode" in answer.text) == (422, True)
