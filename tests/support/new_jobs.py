"""Jobs to submit, from the fields of their spec and their own in one."""

from __future__ import annotations

from typing import Any

from ficha.core.commands import NewJob
from ficha.core.records import JobSpec


def new_job(job_id: str, tool: str, pool: str, payload: str, cost: int, **fields: Any) -> NewJob:
    spec = {name: fields.pop(name) for name in [*fields] if name in JobSpec.__struct_fields__}
    return NewJob(job_id, JobSpec(tool, pool, cost, **spec), payload, **fields)
