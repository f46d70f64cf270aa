"""The HTTP calls that Ficha makes: one bounded client, and the guard of the addresses that users give."""

from .addresses import AddressRules
from .errors import ForbiddenAddress, OutboundError
from .http_client import Answer, AnswerStream, Outbound

__all__ = ["AddressRules", "Answer", "AnswerStream", "ForbiddenAddress", "Outbound", "OutboundError"]
