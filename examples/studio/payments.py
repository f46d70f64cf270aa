"""Payments, without money: a stand-in for the service that takes cards.

What a product has to do about payments is in `pay`: the payment's id is the grant's key, so that however often the
service says that it was paid, the credits come once.
"""

import secrets
from collections import OrderedDict
from typing import Literal

from msgspec import Struct

from ficha import Ficha

PACKS = {50: 500, 200: 1_800, 500: 4_000}
"""Credits, and what they cost in cents."""
GOOD_CARD, DECLINED_CARD = "4242 4242 4242 4242", "4000 0000 0000 0002"
MOST_KEPT = 1_000


class Payment(Struct):
    id: str
    account: str
    credits: int
    cents: int
    state: Literal["open", "paid", "declined"] = "open"
    detail: str | None = None
    balance: int | None = None


class Payments:
    """The newest payments. They are in memory only: the ledger has what was paid."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Payment] = OrderedDict()

    def open(self, account: str, credits: int) -> Payment:
        made = Payment(f"pay_{secrets.token_hex(8)}", account, credits, PACKS[credits])
        self._kept[made.id] = made
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return made

    def find(self, account: str, payment_id: str) -> Payment | None:
        found = self._kept.get(payment_id)
        return found if found is not None and found.account == account else None


async def pay(app: Ficha, payment: Payment, card: str) -> Payment:
    """Charges the card. A payment that was declined can be tried with another card; one that was paid stays paid."""
    if card.replace(" ", "") != GOOD_CARD.replace(" ", "") and payment.state != "paid":
        payment.state = "declined"
        payment.detail = (
            "The bank declined the card." if _is_test_card(card) else "The demonstration knows two cards only."
        )
        return payment
    credited = await app.grant(payment.account, payment.credits, reason=f"payment {payment.id}", key=payment.id)
    payment.state, payment.detail, payment.balance = "paid", None, credited.balance
    return payment


def _is_test_card(card: str) -> bool:
    return card.replace(" ", "") == DECLINED_CARD.replace(" ", "")
