"""The order of a tool's declared checkpoints: which may follow which, and what saving one again does."""

from __future__ import annotations

from msgspec import Struct

from .outcomes import Refusal
from .records import Job


class Checkpoints(Struct, frozen=True, gc=False):
    """What a tool declares: the checkpoints that may follow each checkpoint, and those that a job may begin with."""

    follow: dict[str, tuple[str, ...]]
    first: tuple[str, ...]

    def after(self, name: str | None) -> tuple[str, ...]:
        """Returns the checkpoints that may follow. After an undeclared one, that is any that a job may begin with."""
        return self.first if name is None else self.follow.get(name, self.first)

    def lies_before(self, name: str, other: str) -> bool:
        """Whether a path leads from `name` to `other`."""
        seen: set[str] = set()
        ahead = [name]
        while ahead:
            further = set(self.follow.get(ahead.pop(), ())) - seen
            seen |= further
            ahead.extend(further)
        return other in seen


def is_passed(declared: Checkpoints | None, job: Job, name: str) -> bool | Refusal:
    """Whether the job is past this checkpoint already, so that there is nothing to save; or why it cannot be saved.

    A resumed handler that starts from the top saves earlier checkpoints again, and must not lose the later ones.
    """
    if declared is None:
        return False
    if name not in declared.follow:
        return Refusal(
            "INVALID_ARGUMENT",
            f"tool {job.spec.tool} declares no checkpoint {name!r}, only {_listed(tuple(declared.follow))}; nothing "
            "was changed.",
        )
    current = job.checkpoint.name or None if job.checkpoint is not None else None
    if name == current or name in declared.after(current):
        return False
    if current is not None and declared.lies_before(name, current):
        return True
    stands = "has no checkpoint yet" if current is None else f"is at checkpoint {current!r}"
    return Refusal(
        "INVALID_STATE",
        f"job {job.id} {stands}, after which tool {job.spec.tool} may save {_listed(declared.after(current))}, not "
        f"{name!r}; nothing was changed.",
        details={"checkpoint": current, "may_follow": list(declared.after(current))},
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names)) or "none"
