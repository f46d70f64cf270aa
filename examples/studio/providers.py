"""Whose machines do the work: real providers where their keys are set, the simulated one where they are not.

The README lists the environment variables.
"""

import os
import re

from ficha import JobContext
from ficha.providers import Fal, Provider, Replicate, RunningHub

SIMULATOR = os.environ.get("STUDIO_SIMULATOR", "http://127.0.0.1:8900").rstrip("/")
POLL_S = float(os.environ.get("STUDIO_POLL_S", "10"))
"""How long after a start the provider is asked, where its call-back does not come."""


def runninghub() -> Provider:
    """At most 60 requests a minute, over all processes."""
    if "RUNNINGHUB_API_KEY" in os.environ:
        return RunningHub(price_per_coin=0.0002, rate="60/m", poll_s=POLL_S)
    return RunningHub("simulated", price_per_coin=0.0002, base_url=f"{SIMULATOR}/runninghub", poll_s=POLL_S)


def replicate() -> Provider:
    if "REPLICATE_API_TOKEN" in os.environ:
        return Replicate(price_per_s=0.000975, rate="600/m", poll_s=POLL_S)
    return Replicate("simulated", price_per_s=0.000975, base_url=f"{SIMULATOR}/replicate/v1", poll_s=POLL_S)


def fal() -> Provider:
    if "FAL_KEY" in os.environ:
        return Fal(price_per_s=0.001, at_once=10, poll_s=POLL_S)
    keys_url = f"{SIMULATOR}/fal/.well-known/jwks.json"
    return Fal("simulated", price_per_s=0.001, base_url=f"{SIMULATOR}/fal", keys_url=keys_url, poll_s=POLL_S)


def target(provider: Provider, job: JobContext, simulated: str) -> str:
    """The provider's own name for what a tool calls: a workflow, a model.

    The simulated one is told whom it works for, so that one account's next task can be made to fail (server.py).
    """
    name = f"{provider.name}_{job.tool}".upper()
    return os.environ.get(name) or f"{simulated}--for-{re.sub('[^a-z0-9-]', '-', job.account.lower())}"


def is_simulated() -> bool:
    """Whether a provider is simulated."""
    return not all(name in os.environ for name in ("RUNNINGHUB_API_KEY", "REPLICATE_API_TOKEN", "FAL_KEY"))
