"""Pools, the workers that serve them, and shared duties, which one of many processes has at a time."""

from __future__ import annotations

from .base import Command


class DeclarePool(Command, frozen=True):
    name: str
    slots: int | None


class PausePool(Command, frozen=True):
    name: str
    paused: bool = True


class ResizePool(Command, frozen=True):
    """Overrides the declared slots; None returns to them."""

    name: str
    resized: int | None


class RegisterWorker(Command, frozen=True):
    """Registers a worker or renews its registration; with `stops`, ends it."""

    name: str
    host: str
    pid: int
    pools: tuple[str, ...]
    concurrency: int
    version: str
    heartbeat_ms: int
    started_at: int | None = None
    """When it first registered, as the first call returned it; None for that first call."""
    stops: bool = False
    problem: str | None = None


class Elect(Command, frozen=True):
    """Asks for a shared duty; granted if it is free, expired or the caller's own."""

    name: str
    owner: str
    ttl_ms: int
