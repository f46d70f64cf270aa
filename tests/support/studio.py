"""The example studio as a process of its own, the people in it, and its simulated provider."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import httpx

from tests.support.server_process import NO_TLS

EXAMPLE = Path("examples/studio").resolve()


def loaded() -> tuple[ModuleType, ModuleType, ModuleType]:
    """`check.py`, `run.py` and `visitors.py`, under names that stay free for others."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        return importlib.import_module("check"), importlib.import_module("run"), importlib.import_module("visitors")
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in ("check", "run", "visitors", "people", "payments", "samples"):
            sys.modules.pop(name, None)


check, run, visitors = loaded()


class Scene:
    """A running studio, the people in it, and the words with which its provider is told to misbehave."""

    def __init__(self, studio: Any) -> None:
        self.studio = studio
        self.simulator = httpx.Client(base_url=studio.simulator, trust_env=False, verify=NO_TLS, timeout=30)
        self._people: list[Any] = []

    def person(self, plan: str = "pro", credits: int = 200) -> Any:
        person = check.Customer(self.studio, f"ana-{uuid4().hex[:8]}", plan, credits)
        self._people.append(person)
        return person

    def plan(self, **task: Any) -> None:
        """How the provider's next task is to be."""
        assert self.simulator.post("/control", json={"task": task}).status_code == 200

    def tasks(self, *states: str) -> list[dict[str, Any]]:
        found = self.simulator.get("/control/tasks").json()
        return [task for task in found if not states or task["state"] in states]

    def task_of(self, job: dict[str, Any]) -> dict[str, Any]:
        """The provider's side of a job, by the address that it is to call back at."""
        [task] = [one for one in self.tasks() if job["id"] in (one["callback_url"] or "")]
        return task

    def release(self, task: dict[str, Any]) -> None:
        """Lets a task that was held come to its end."""
        self.simulator.post(f"/control/tasks/{task['id']}/finish")

    def close(self) -> None:
        self.simulator.delete("/control")
        self.simulator.close()
        for person in self._people:
            person.close()
