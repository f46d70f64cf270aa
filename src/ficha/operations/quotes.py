"""Quotes: what a submit would lead to. The submit's own rules decide on the current rows; nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from msgspec.structs import replace

from .. import validation as arg
from ..core.commands import Submit
from ..core.outcomes import Refusal
from ..engine.views import Quote
from ..errors import Refused
from ..requests import SubmitOptions, SubmitRequest, labels_of
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
        """What a submit with the same arguments would cost, whether it would be admitted, and its position.

        An idempotency key is ignored. An unknown tool or account, or a payload that does not fit, is refused as in
        `submit`.
        """
        given: Mapping[str, Any] = {} if payload is None else payload
        return await self.quote_request(SubmitRequest(tool=tool, payload=given, account=account, **options))

    async def quote_request(self, request: SubmitRequest, *, by_user: bool = False) -> Quote:
        """The same, from a request. `by_user`: as a submit by the account's user."""
        command, counts = await self._kinds_command(replace(request, idempotency_key=None), by_user)
        outcome = await self.engine.preview(command, counts)
        if isinstance(outcome, Refusal):
            payer = await self.queries.account(command.account_id)
            if payer is None:
                raise Refused.of(outcome)
            return Quote(
                admitted=False,
                cost=sum(job.spec.cost * count for job, count in zip(command.jobs, counts, strict=True)),
                jobs=sum(counts),
                priority=None,
                position=None,
                estimated_wait_s=None,
                balance=payer.balance,
                new_balance=None,
                refusal=outcome,
                quota_warnings=(),
                cost_limit_warning=None,
            )
        first = outcome.first
        assert first is not None
        standing = await self.engine.positions.of_possible(first)
        return Quote(
            admitted=True,
            cost=outcome.cost,
            jobs=outcome.jobs,
            priority=first.priority,
            position=None if standing is None else standing.position,
            estimated_wait_s=None if standing is None else standing.estimated_wait_s,
            balance=outcome.balance,
            new_balance=outcome.new_balance,
            refusal=None,
            quota_warnings=outcome.quota_warnings,
            cost_limit_warning=outcome.cost_limit_warning,
        )

    async def _kinds_command(self, request: SubmitRequest, by_user: bool) -> tuple[Submit, tuple[int, ...]]:
        """The submit with one job of each kind, and the number of jobs of each. Equal jobs are counted, not made."""
        tool = self._tool(request.tool, by_user)
        text = self._payload(request.payload)
        labels = labels_of(request)
        by_size = tool.has_equal_parts
        _, kinds = self._kinds(tool, request.account, request.payload, text, labels, by_user, by_size=by_size)
        account = arg.name(request.account, "an account")
        found = await self.engine.slices.all_of(account, self._limited(kinds))
        command = self._single_command(request, tuple(kind for kind, _ in found), "")
        return replace(command, counts_parts=True), tuple(count for _, count in found)
