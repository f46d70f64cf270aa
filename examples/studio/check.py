"""One whole paid round trip over HTTP, with the simulated provider: `python check.py [--database URL] [--pages]`.

With `--pages` the built pages must be served too: the studio and the console. `make demo CHECK=1` runs it so.

Exits with 0 if everything was as it must be, and with 1, after what the processes said, if it was not.
"""

import argparse
import io
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from payments import DECLINED_CARD, GOOD_CARD
from PIL import Image, ImageDraw
from run import Studio, studio

WAIT_S = 60


def say(text: str) -> None:
    print(text, flush=True)


def must(is_so: bool, what: str) -> None:
    if not is_so:
        raise AssertionError(what)


def answered(answer: httpx.Response, status: int) -> Any:
    must(answer.status_code == status, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}")
    return answer.json()


def portrait(width: int = 64, height: int = 96) -> bytes:
    """A person, more or less."""
    picture = Image.new("RGB", (width, height), (208, 226, 240))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((width // 3, height // 8, width * 2 // 3, height * 3 // 8), fill=(224, 172, 128))
    draw.rectangle((width // 4, height * 3 // 8, width * 3 // 4, height), fill=(70, 90, 160))
    return _png(picture)


def garment() -> bytes:
    picture = Image.new("RGB", (48, 48), (190, 40, 60))
    ImageDraw.Draw(picture).line((0, 24, 48, 24), fill="white", width=6)
    return _png(picture)


def clip(frames: int = 4) -> bytes:
    """A short clip: an animated GIF."""
    pictures = []
    for number in range(frames):
        picture = Image.new("RGB", (32, 24), "black")
        ImageDraw.Draw(picture).ellipse((6 * number, 8, 6 * number + 8, 16), fill="yellow")
        pictures.append(picture)
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=80, loop=0)
    return file.getvalue()


def _png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


class Customer:
    """Somebody with an account: what their browser does."""

    def __init__(self, running: Studio, name: str, plan: str = "pro", credits: int = 200) -> None:
        with running.client(running.admin) as admin:
            opened = {"account": name, "plan": plan, "credits": credits}
            answered(admin.post("/api/admin/accounts", json=opened), 201)
            asked = {"name": name, "scope": "user", "account": name}
            token = answered(admin.post("/api/admin/api-keys", json=asked), 201)["secret"]
        self.name = name
        self.http = running.client(token)

    def upload(self, data: bytes, name: str = "picture.png") -> str:
        file_id: str = answered(self.http.post("/api/uploads", files={"file": (name, data)}), 201)["file"]["id"]
        return file_id

    def submit(self, tool: str, **payload: Any) -> dict[str, Any]:
        receipt: dict[str, Any] = answered(self.http.post("/api/jobs", json={"tool": tool, "payload": payload}), 201)
        return receipt

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = answered(self.http.get(f"/api/jobs/{job_id}"), 200)
        return found

    def wait(self, job_id: str, *statuses: str) -> dict[str, Any]:
        """The job, once it has one of these states."""
        wanted = statuses or ("completed", "failed", "cancelled")
        until(lambda: self.job(job_id)["status"] in wanted, f"job {job_id} is not {' or '.join(wanted)}")
        return self.job(job_id)

    def download(self, job: dict[str, Any]) -> Image.Image:
        """The first file of a job's result, as a picture."""
        [file, *_] = job["result"]["files"]
        answer = self.http.get(f"/api/files/{file['file']}")
        must(answer.status_code == 200, f"the file was answered with {answer.status_code}: {answer.text[:200]}")
        picture = Image.open(io.BytesIO(answer.content))
        picture.load()
        return picture

    @property
    def balance(self) -> int:
        found: int = answered(self.http.get("/api/account"), 200)["balance"]
        return found

    def ledger(self) -> list[tuple[str, int]]:
        lines = answered(self.http.get("/api/account/ledger"), 200)["items"]
        return [(line["kind"], line["amount"]) for line in reversed(lines)]

    def close(self) -> None:
        self.http.close()


def until(is_so: Callable[[], bool], what: str) -> None:
    """Waits for something to be so."""
    ends_at = time.monotonic() + WAIT_S
    while not is_so():
        must(time.monotonic() < ends_at, f"{what}, after {WAIT_S} s")
        time.sleep(0.05)


def round_trip(running: Studio) -> None:
    ana = Customer(running, "customer")
    small = Image.open(io.BytesIO(portrait()))
    uploaded = ana.upload(portrait(), "ana.png")
    receipt = ana.submit("image_upscaler", image=uploaded, scale=2)
    must((receipt["cost"], receipt["new_balance"]) == (6, 194), f"the upscale was charged as {receipt}")
    say(f"image_upscaler: job {receipt['job_id']}, {receipt['cost']} credits, {receipt['new_balance']} left")
    job = ana.wait(receipt["job_id"])
    must(job["status"] == "completed", f"the upscale ended as {job['status']}: {job['error']}")
    large = ana.download(job)
    must(large.size == (2 * small.width, 2 * small.height), f"the picture is {large.size}, not twice {small.size}")
    say(f"   the picture was {small.width} x {small.height} and is {large.width} x {large.height}")

    pictures = {"image": uploaded, "outfit": ana.upload(garment(), "coat.png")}
    others = {
        "pose_changer": {"image": uploaded},
        "outfit_changer": pictures,
        "video_upscaler": {"video": ana.upload(clip(), "ball.gif")},
        "try_on": {"person": uploaded, "garment": pictures["outfit"]},
        "product": {"image": uploaded},
        "freestyle": {"prompt": "a lighthouse"},
        "workflow": {"image": uploaded, "prompt": "ink"},
        "moods": {"image": uploaded, "images": 2},
    }
    submitted = {tool: ana.submit(tool, **payload)["job_id"] for tool, payload in others.items()}
    for tool, job_id in submitted.items():
        job = ana.wait(job_id)
        must(job["status"] == "completed", f"{tool} ended as {job['status']}: {job['error']}")
        made = ana.download(job)
        frames = getattr(made, "n_frames", 1)
        say(f"{tool}: {job['charged']} credits, {made.width} x {made.height}, frames: {frames}")

    _fails_and_is_refunded(running, ana)

    works = answered(ana.http.get("/api/library"), 200)["items"]
    must(len(works) == 9, f"the library has {len(works)} works")
    removed = answered(ana.http.delete(f"/api/library/{receipt['job_id']}"), 200)
    must(removed["changed"], "the work was not removed")
    [result] = [file["id"] for file in works[-1]["files"] if file["role"] == "result"]
    gone = ana.http.get(f"/api/files/{result}")
    must(gone.status_code == 404, f"a file of removed work was answered with {gone.status_code}")
    say(f"library: {len(works)} works; one was removed with its files, and its charge stays in the ledger")
    for kind, amount in ana.ledger():
        say(f"   {kind:8} {amount:+5}")
    ana.close()
    _buys_credits(running)
    must(running.run_ficha("verify") == "", "ficha verify found something")


def _fails_and_is_refunded(running: Studio, ana: Customer) -> None:
    before = ana.balance
    with httpx.Client(base_url=running.simulator, trust_env=False) as simulator:
        answered(simulator.post("/control", json={"task": {"fail": "CUDA out of memory"}}), 200)
    job = ana.wait(ana.submit("freestyle", prompt="a storm")["job_id"])
    must((job["status"], job["error"]) == ("failed", "CUDA out of memory"), f"{job['status']}: {job['error']}")
    must(ana.balance == before, "the credits of the failed job did not come back")
    say(f"   it failed, in the provider's own words: {job['error']}; its {job['refunded']} credits came back")


def _buys_credits(running: Studio) -> None:
    """Through the page's own routes: enters as a demo account, and pays twice for the same payment."""
    with running.client(None) as visitor:
        token = answered(visitor.post("/studio/enter", json={"account": "ana"}), 200)["token"]
    with running.client(token) as ana:
        before = answered(ana.get("/api/account"), 200)["balance"]
        payment = answered(ana.post("/studio/payments", json={"credits": 50}), 201)["id"]
        declined = answered(ana.post(f"/studio/payments/{payment}/pay", json={"card": DECLINED_CARD}), 200)
        must(declined["state"] == "declined", f"the card was not declined: {declined}")
        for _ in range(2):
            paid = answered(ana.post(f"/studio/payments/{payment}/pay", json={"card": GOOD_CARD}), 200)
            must((paid["state"], paid["balance"]) == ("paid", before + 50), f"the payment ended as {paid}")
    say(f"payment: 50 credits, paid twice and credited once; ana has {before + 50}")


def pages(running: Studio) -> None:
    """The built pages, and the files that they name."""
    with running.client(None) as browser:
        for path in ("/studio", "/console"):
            answer = browser.get(path, follow_redirects=True)
            must(answer.status_code == 200, f"{path} was answered with {answer.status_code}: {answer.text[:200]}")
            must("script-src 'self'" in answer.headers["Content-Security-Policy"], f"{path} has another CSP")
            named = re.findall(r'(?:src|href)="(/[^"]+)"', answer.text)
            must(any(name.endswith(".js") for name in named), f"{path} names no script: {answer.text[:500]}")
            for name in named:
                must(browser.get(name).status_code == 200, f"{name}, which {path} names, is not there")
            say(f"page {path}: {len(answer.content)} bytes, and {len(named)} files that it names")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database")
    parser.add_argument("--serverless", action="store_true")
    parser.add_argument("--pages", action="store_true", help="the built pages must be served too")
    asked = parser.parse_args()
    running: Studio | None = None
    with tempfile.TemporaryDirectory() as folder:
        database = asked.database or f"sqlite:///{folder}/studio.db"
        try:
            with studio(database, Path(folder), seconds=0.2, serverless=asked.serverless) as running:
                say(f"the studio answers at {running.url}, its provider at {running.simulator}")
                round_trip(running)
                if asked.pages:
                    pages(running)
        except Exception as error:
            for program in running.programs if running is not None else ():
                say(f"--- {program.name}\n{''.join(program.lines)}")
            say(f"WRONG: {error or type(error).__name__}")
            return 1
        codes = {program.name: program.process.returncode for program in running.programs}
        if any(codes[name] not in (0, None) for name in ("server", "worker") if name in codes):
            say(f"WRONG: not all ended well: {codes}")
            return 1
    say("All of it was as it must be.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
