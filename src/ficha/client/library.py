"""The library: an account's completed work, listed, searched and removed."""

from __future__ import annotations

from typing import Any, Unpack

from .. import validation as arg
from ..core.outcomes import WorkRemoved
from ..engine.views import LibraryItem, Page
from ..requests import LibraryFilter
from .effects import Flow, Send
from .operation import operation
from .sending import RequestMethods, joined


class LibraryMethods(RequestMethods):
    @operation
    def library(self, account: str | None = None, **asked: Unpack[LibraryFilter]) -> Flow[Page[LibraryItem]]:
        """A page of an account's completed work, newest first; `after` is the `next` of the previous page.

        A page may be empty and still have a `next`: each page examines a limited number of jobs.
        """
        query: dict[str, Any] = {**asked}
        query |= {"cursor": query.pop("after", None), "include": joined(query.pop("include", ()))}
        for name in ("since", "until"):
            query[name] = None if query.get(name) is None else query[name].isoformat()
        return self.get("/api/library", Page[LibraryItem], account=account, **query)

    @operation
    def remove_work(self, job_id: str) -> Flow[WorkRemoved]:
        """Removes completed work: its payload, its result, its steps and its files. The job itself and what was paid
        for it stay. A repeat changes nothing."""
        path = f"/api/library/{arg.job_id(job_id)}"
        return self.decoded(Send(method="DELETE", path=path, harmless=True), WorkRemoved)
