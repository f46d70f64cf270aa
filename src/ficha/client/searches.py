"""For an operator's pages: searches among all jobs, one job and what belongs to it, dead letters by error."""

from __future__ import annotations

from .. import validation as arg
from ..engine.views import DeadGroups, JobCount, JobPage, JobSearch, SearchWords
from .effects import Flow
from .operation import operation
from .sending import RequestMethods


class SearchMethods(RequestMethods):
    @operation
    def search_jobs(self, search: str = "", *, after: str | None = None, limit: int = 50) -> Flow[JobSearch]:
        """A part of the jobs that match a search such as `tool:upscale state:failed since:1h error:"timed out"`, newest
        first and without their texts; `after` is the `next` of the previous part.

        A part may be empty and still have a `next`: each part examines a limited number of jobs.
        """
        return self.get("/api/admin/jobs", JobSearch, search=search or None, cursor=after, limit=limit)

    @operation
    def count_jobs(self, search: str = "") -> Flow[JobCount]:
        """How many jobs match a search, and what they cost together. Counting stops at a limit."""
        return self.get("/api/admin/jobs/count", JobCount, search=search or None)

    @operation
    def search_words(self) -> Flow[SearchWords]:
        """The words that a search can be completed with."""
        return self.get("/api/admin/search-words", SearchWords)

    @operation
    def job_page(self, job_id: str) -> Flow[JobPage]:
        """A job with its history, steps, runs, ledger lines and files, and what an operator could do to it now. Secret
        fields are masked."""
        return self.get(f"/api/admin/jobs/{arg.job_id(job_id)}", JobPage)

    @operation
    def dead_groups(self) -> Flow[DeadGroups]:
        """The newest dead letters, by tool and error, the largest groups first."""
        return self.get("/api/admin/dead/groups", DeadGroups)
