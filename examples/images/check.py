"""One whole round trip over HTTP, against `ficha dev`: `python check.py`.

Exits with 0 if everything was as it must be, and with 1, after what the server said, if it was not.
"""

import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

HERE = Path(__file__).parent
START_S = 20


class Demo:
    """`ficha dev` with the example, and what it prints."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[str] = []
        self.url = ""
        self.tokens: dict[str, str] = {}
        self._told = threading.Event()
        database = f"sqlite:///{folder / 'ficha.db'}"
        self.process = subprocess.Popen(  # noqa: S603 (this very program)
            [sys.executable, "-m", "ficha.cli", "dev", "--app", "app:app", "--database", database, "--port", "0"],
            cwd=HERE,
            env={**os.environ, "PAID_CALLS": str(folder / "paid-calls.log")},
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait(self) -> None:
        must(self._told.wait(START_S) and bool(self.url), f"it did not start within {START_S} s")

    def _read(self) -> None:
        """Takes the address and each account's token from what is printed for people."""
        account = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.match(r"account (\S+):", line):
                account = found[1]
            elif found := re.match(r"token   (\S+)", line):
                self.tokens[account] = found[1]
            elif found := re.match(r"server  (\S+)", line):
                self.url = found[1]
            elif line.startswith("watch "):
                self._told.set()
        self._told.set()

    def stop(self) -> int:
        """Ctrl-C."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(15)


def say(text: str) -> None:
    print(text, flush=True)


def must(is_so: bool, what: str) -> None:
    if not is_so:
        raise AssertionError(what)


def answered(answer: httpx.Response, status: int) -> Any:
    must(answer.status_code == status, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}")
    return answer.json()


def events(http: httpx.Client, job_id: str, token: str) -> Iterator[tuple[str, Any]]:
    """A job's events as they happen, to its end: what a browser's EventSource would see with a token for this job."""
    kind = ""
    asked = {"method": "GET", "url": f"/api/jobs/{job_id}/events", "params": {"token": token}}
    with (
        httpx.Client(base_url=http.base_url, timeout=20, trust_env=False) as browser,
        browser.stream(**asked) as feed,
    ):
        must(feed.status_code == 200, f"the stream was answered with {feed.status_code}")
        for line in feed.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


def watched(http: httpx.Client, job_id: str) -> dict[str, Any]:
    token = answered(http.post(f"/api/jobs/{job_id}/token", json={}), 201)["token"]
    for kind, told in events(http, job_id, token):
        if kind == "end":
            say("   end")
            job: dict[str, Any] = told
            return job
        say(f"   {kind}")
    raise AssertionError(f"the events of job {job_id} ended before the job")


def submitted(http: httpx.Client, tool: str, payload: dict[str, Any]) -> dict[str, Any]:
    asked = {"tool": tool, "payload": payload, "idempotency_key": f"check-{tool}"}
    first = answered(http.post("/api/jobs", json=asked), 201)
    again = answered(http.post("/api/jobs", json=asked), 200)
    must(again["job_id"] == first["job_id"] and again["idempotent_hit"], "a repeated submit made a second job")
    say(f"{tool}: job {first['job_id']}, {first['cost']} credits, {first['new_balance']} left; sent twice, paid once")
    result: dict[str, Any] = first
    return result


def round_trip(http: httpx.Client, folder: Path) -> None:
    balance = answered(http.get("/api/account"), 200)["balance"]

    receipt = submitted(http, "upscale", {"picture": "lighthouse", "scale": 2})
    must(receipt["new_balance"] == balance - 5, "the upscale did not cost 5 credits")
    job = watched(http, receipt["job_id"])
    must(job["status"] == "completed", f"the upscale ended as {job['status']}: {job['error']}")
    small = Image.open(HERE / "pictures" / "lighthouse.png")
    encoded = job["result"]["picture"].removeprefix("data:image/png;base64,")
    large = Image.open(io.BytesIO(base64.b64decode(encoded)))
    large.load()
    must(large.size == (2 * small.width, 2 * small.height), f"the picture is {large.size}, not twice {small.size}")
    say(f"   the picture was {small.width} x {small.height} and is {large.width} x {large.height}")

    receipt = submitted(http, "storybook", {"pages": 3, "crash_at": 3})
    job = watched(http, receipt["job_id"])
    must(
        (job["status"], job["recoveries"]) == ("completed", 1),
        f"the book: {job['status']}, {job['recoveries']} crashes",
    )
    paid = (folder / "paid-calls.log").read_text().splitlines()
    must(len(paid) == len(set(paid)) == 3, f"pages were paid for twice: {paid}")
    say("   its process crashed before page 3; another went on, and no page was paid for twice")

    receipt = submitted(http, "flaky", {})
    job = watched(http, receipt["job_id"])
    must((job["status"], job["refunded"]) == ("failed", 7), f"flaky: {job['status']}, {job['refunded']} refunded")
    say(f"   it failed: {job['error']}")

    batch = answered(http.post("/api/batches", json={"items": [{"tool": "thumbnail", "payload": {}}] * 4}), 201)
    until = time.monotonic() + 10
    while (found := answered(http.get(f"/api/batches/{batch['batch_id']}"), 200))["progress"] < 100:
        must(time.monotonic() < until, f"the thumbnails were not done within 10 s: {found['by_status']}")
        time.sleep(0.1)
    say(f"thumbnails: {found['by_status']}")

    ledger = answered(http.get("/api/account/ledger"), 200)["items"]
    for entry in reversed(ledger):
        say(f"   {entry['kind']:8} {entry['amount']:+5} {entry['balance_after']:5}")
    of_flaky = {entry["kind"]: entry["amount"] for entry in ledger if entry["job_id"] == receipt["job_id"]}
    must(of_flaky == {"charge": -7, "refund": 7}, f"the ledger of the failed job: {of_flaky}")
    left = answered(http.get("/api/account"), 200)["balance"]
    must(left == balance - 5 - 12 - 4, f"{left} credits are left of {balance}")


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    running = Demo(folder)
    try:
        running.wait()
        yield running
    except BaseException:
        say("".join(running.lines))
        raise
    finally:
        code = running.stop()
    must(code == 0, f"it ended with {code} after Ctrl-C")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        try:
            with demo(Path(name)) as running:
                say(f"ficha dev answers at {running.url}")
                token = running.tokens["demo-pro"]
                headers = {"Authorization": f"Bearer {token}"}
                with httpx.Client(base_url=running.url, headers=headers, timeout=20, trust_env=False) as http:
                    round_trip(http, Path(name))
        except Exception as error:
            say(f"WRONG: {error or type(error).__name__}")
            return 1
    say("All of it was as it must be.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
