"""Operations of the operator's pages: search all jobs, show one job in full, group dead letters by error."""

from __future__ import annotations

from .. import validation as arg
from ..core.policy import MILLISECOND
from ..engine.views import DeadGroups, JobCount, JobPage, JobSearch, SearchWords
from ..job_search import STATES, job_match
from ..store.base import SearchJobs, wall_clock
from .submits import SubmitOperations
from .turns import TurnOperations


class SearchOperations(TurnOperations, SubmitOperations):
    async def search_jobs(self, search: str = "", *, after: str | None = None, limit: int = 50) -> JobSearch:
        """A part of the jobs that match a search such as `tool:upscale state:failed since:1h error:"timed out"`, newest
        first and without their texts; `after` is the `next` of the part before.

        One call scans at most `Limits.jobs_searched` jobs, for about a tenth of a second. `is_whole` says whether that
        was enough; if not, the next part goes on.
        """
        before = None if after is None else arg.job_id(after)
        query = await self._search(search, before, arg.count(limit, "limit", self.limits.page_items))
        return await self.queries.operator.search(query, self.limits.jobs_searched)

    async def count_jobs(self, search: str = "") -> JobCount:
        """How many jobs match a search, and what they cost together. Counting stops at `Limits.jobs_counted`."""
        query = await self._search(search, None, self.limits.jobs_counted)
        return await self.queries.operator.count(query, self.limits.jobs_searched)

    async def _search(self, search: str, before: str | None, limit: int) -> SearchJobs:
        # Ids come from the clocks of the submitting processes; silence is measured by the database's clock.
        match = job_match(search, wall_clock())
        silent_since = 0
        if match.is_stuck is not None:
            silent_since = await self.queries.now() - self.engine.policy.stuck_ms * MILLISECOND
        return SearchJobs(match, silent_since, before, limit)

    async def job_page(self, job_id: str) -> JobPage:
        """A job with its history, steps, runs, ledger lines and files, and the acts that an operator could do now.
        Secret fields are masked."""
        return await self.queries.operator.page(await self.part(job_id), self.engine.policy, await self.queries.now())

    async def dead_groups(self) -> DeadGroups:
        """The newest `Limits.dead_grouped` dead letters, grouped by tool and error, the largest group first."""
        return await self.queries.operator.dead_groups(self.limits.dead_grouped)

    async def search_words(self) -> SearchWords:
        """The words that can complete a search."""
        return SearchWords(
            tools=sorted(self.tools),
            pools=await self.queries.operator.pool_names(),
            plans=sorted(self.engine.policy.plans),
            states=[*STATES],
            providers=[provider.name for provider in await self.provider_states()],
        )
