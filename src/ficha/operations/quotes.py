"""Quotes: what a submit would lead to, by the rules themselves on the rows as they are, with nothing changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from msgspec.structs import replace

from ..core.outcomes import Refusal, Submitted
from ..engine.views import Quote
from ..errors import Refused
from ..requests import SubmitOptions, SubmitRequest
from .submits import SubmitOperations


class QuoteOperations(SubmitOperations):
    async def quote(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        account: str,
        **options: Unpack[SubmitOptions],
    ) -> Quote:
        """What a submit with the same arguments would cost, whether it would be admitted, and where it would stand.

        An idempotency key is left out of account. What is no submit at all (an unknown tool or account, a payload that
        does not fit) is refused as there.
        """
        given: Mapping[str, Any] = {} if payload is None else payload
        return await self.quote_request(SubmitRequest(tool=tool, payload=given, account=account, **options))

    async def quote_request(self, request: SubmitRequest, *, by_user: bool = False) -> Quote:
        """The same, from a request. `by_user`: as a submit by the account's user."""
        command = self.submit_command(replace(request, idempotency_key=None), by_user=by_user)
        changes, outcome = await self.engine.preview(command)
        if isinstance(outcome, Refusal):
            payer = await self.queries.account(command.account_id)
            if payer is None:
                raise Refused.of(outcome)
            return Quote(
                admitted=False,
                cost=sum(job.spec.cost for job in command.jobs),
                jobs=len(command.jobs),
                priority=None,
                position=None,
                estimated_wait_s=None,
                balance=payer.balance,
                new_balance=None,
                refusal=outcome,
                quota_warnings=(),
                cost_limit_warning=None,
            )
        assert isinstance(outcome, Submitted)
        first = next(change.after for change in changes.jobs if change.after.id == outcome.job_id)
        standing = await self.engine.positions.of_possible(first)
        return Quote(
            admitted=True,
            cost=outcome.cost,
            jobs=outcome.jobs,
            priority=outcome.priority,
            position=None if standing is None else standing.position,
            estimated_wait_s=None if standing is None else standing.estimated_wait_s,
            balance=outcome.new_balance + outcome.cost,
            new_balance=outcome.new_balance,
            refusal=None,
            quota_warnings=outcome.quota_warnings,
            cost_limit_warning=outcome.cost_limit_warning,
        )
