"""Visitors who come by themselves, so that the queue moves and the console's charts have something to show.

`python visitors.py --url http://127.0.0.1:8000` walks as the visitors of people.py: at a gentle, random pace one of
them picks a tool and a sample picture and submits; now and then several come at once, one orders a whole batch, one
gives up waiting, one pays for more credits, and a provider fails. They stay within the limits of their plans. What they
made before their last few works is removed again, so that a demonstration that runs for days does not fill the disk.
"""

import argparse
import os
import random
import signal
import sys
import threading
from typing import Any

import httpx
import samples
from payments import GOOD_CARD, PACKS
from people import VISITORS, Person
from run import NO_TLS

WORKS_KEPT = 6
FILES_KEPT = 50
"""Newest files of a visitor that stay: more than all its active jobs can name."""
VISITS = {"free": 1, "starter": 3, "growth": 5, "pro": 8}
"""How often those of a plan come, compared with the others."""
FAIL_WORDS = (
    "CUDA out of memory: tried to allocate 2.50 GiB",
    "NSFW content detected",
    "the input picture has no face",
)
TOOLS: dict[str, dict[str, Any]] = {
    "image_upscaler": {"image": "tiny.png", "scale": [2, 4]},
    "pose_changer": {"image": "person.png"},
    "outfit_changer": {"image": "person.png", "outfit": ["shirt.png", "dots.png"]},
    "video_upscaler": {"video": "boat.gif"},
    "try_on": {"person": "person.png", "garment": ["shirt.png", "dots.png"]},
    "product": {"image": "vase.png", "scene": ["a studio", "a kitchen"]},
    "freestyle": {"prompt": ["a lighthouse in winter", "hills at dawn", "a harbour at night"]},
    "workflow": {"image": "lighthouse.png", "prompt": ["ink", "woodcut"]},
    "moods": {"image": ["lighthouse.png", "vase.png"], "images": [2, 3]},
}
OFTEN = {"image_upscaler": 5, "pose_changer": 4, "outfit_changer": 4, "video_upscaler": 1}
"""How much more often than others these are picked: they share three slots, so that there is a line."""
MANY = 0.03
"""How often a visitor of the highest plan orders several pictures at once: a batch."""
NOT_A_PICTURE = 0.03
"""How often a visitor sends a text to a tool that expects a picture: a dead letter, for an operator to look into."""
TAKEN_WELL = ("QUOTA_EXCEEDED", "RATE_LIMITED", "ACTIVE_JOB_EXISTS", "PROVIDER_DOWN", "OVERLOADED")
"""Refusals that a visitor takes: they come again later."""


class Visitor:
    """One of them: an account, its token and what it has uploaded."""

    def __init__(self, url: str, person: Person, chance: random.Random) -> None:
        self.person = person
        self._chance = chance
        self._http = httpx.Client(base_url=url, timeout=20, trust_env=False, verify=NO_TLS)
        self._uploads: list[str] = []

    def close(self) -> None:
        self._http.close()

    def come(self) -> None:
        """Submits one job."""
        entered = self._http.post("/studio/enter", json={"account": self.person.account})
        self._http.headers["Authorization"] = f"Bearer {entered.raise_for_status().json()['token']}"
        self._uploads.clear()
        if self.person.plan == "pro" and self._chance.random() < MANY:
            self._settle(self._http.post("/api/batches", json={"items": self._many_wishes()}))
        else:
            tool, payload = self._wish()
            answer = self._http.post("/api/jobs", json={"tool": tool, "payload": payload})
            self._settle(answer)
            if answer.status_code == 201 and self._chance.random() < 0.06:
                self._http.post(f"/api/jobs/{answer.json()['job_id']}/cancel")
        self._tidy()

    def _settle(self, answer: httpx.Response) -> None:
        """Takes an answer to a submit as a person would: pays where credits are missing, and comes again later."""
        if answer.status_code != 201:
            for file_id in self._uploads:
                self._http.delete(f"/api/files/{file_id}")
            if answer.status_code == 402:
                self.pay()
            elif answer.json()["code"] not in TAKEN_WELL:
                answer.raise_for_status()

    def _many_wishes(self) -> list[dict[str, Any]]:
        prompts, number = TOOLS["freestyle"]["prompt"], self._chance.randint(4, 8)
        return [
            {"tool": "freestyle", "payload": {"prompt": f"{self._chance.choice(prompts)}, sketch {one}"}}
            for one in range(1, number + 1)
        ]

    def _wish(self) -> tuple[str, dict[str, Any]]:
        """A tool, and what it is given."""
        if self._chance.random() < NOT_A_PICTURE:
            return "moods", {"image": self._sent("notes.txt", b"milk, bread, coffee", "text/plain"), "images": 1}
        [tool] = self._chance.choices(list(TOOLS), [OFTEN.get(name, 1) for name in TOOLS])
        return tool, {name: self._value(wanted) for name, wanted in TOOLS[tool].items()}

    def _value(self, wanted: Any) -> Any:
        value = self._chance.choice(wanted) if isinstance(wanted, list) else wanted
        return self._uploaded(value) if isinstance(value, str) and samples.picture(value) else value

    def _uploaded(self, name: str) -> str:
        """A file's id. Every job has files of its own: work that is removed takes them along."""
        found = samples.picture(name)
        assert found is not None
        return self._sent(name, *found)

    def _sent(self, name: str, data: bytes, media_type: str) -> str:
        answer = self._http.post("/api/uploads", files={"file": (name, data, media_type)})
        file_id: str = answer.raise_for_status().json()["file"]["id"]
        self._uploads.append(file_id)
        return file_id

    def pay(self) -> None:
        """Buys more credits."""
        opened = self._http.post("/studio/payments", json={"credits": self._chance.choice(list(PACKS)[:2])})
        payment = opened.raise_for_status().json()["id"]
        self._http.post(f"/studio/payments/{payment}/pay", json={"card": GOOD_CARD}).raise_for_status()

    def _tidy(self) -> None:
        works = self._http.get("/api/library", params={"limit": 50}).raise_for_status().json()["items"]
        for work in works[WORKS_KEPT:]:
            self._http.delete(f"/api/library/{work['job']['id']}")
        # Those of jobs that failed too.
        files = self._http.get("/api/files", params={"limit": 100}).raise_for_status().json()["items"]
        for file in files[FILES_KEPT:]:
            self._http.delete(f"/api/files/{file['id']}")


def walk(url: str, simulator: str | None, pause_s: float, stopped: threading.Event, chance: random.Random) -> None:
    """Sends visitors until it is stopped. pause_s: the mean time between two."""
    visitors = [Visitor(url, person, chance) for person in VISITORS]
    try:
        at_once = 5  # somebody is there already when the first person looks
        while not stopped.wait(0.2 if at_once else min(chance.expovariate(1 / pause_s), 5 * pause_s)):
            at_once = at_once - 1 if at_once else chance.choices((0, 7), (14, 1))[0]
            [visitor] = chance.choices(visitors, [VISITS[one.person.plan] for one in visitors])
            try:
                if simulator and chance.random() < 0.07:
                    told = {"fail": chance.choice(FAIL_WORDS), "model": f"--for-{visitor.person.account}"}
                    httpx.post(f"{simulator}/control", json={"task": told}, trust_env=False, verify=NO_TLS)
                visitor.come()
            except httpx.HTTPError as error:
                # The server may be on its way down, or up.
                print(f"a visitor was turned away: {error}", file=sys.stderr, flush=True)
                stopped.wait(5)
    finally:
        for visitor in visitors:
            visitor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pause", type=float, default=4.0, help="mean seconds between two (default: %(default)s)")
    asked = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    print("visitors started", flush=True)
    walk(asked.url, os.environ.get("STUDIO_SIMULATOR"), asked.pause, stopped, random.Random())  # noqa: S311 (a walk)


if __name__ == "__main__":
    main()
