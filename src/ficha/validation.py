"""Checks the arguments of callers: names, keys, amounts and JSON. Errors say what to do."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import date as calendar_date
from datetime import datetime
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from .core.outcomes import Refusal
from .core.payload import CheckedJson, canonical, text_problem
from .core.policy import DAY, MAX_PROVIDER_COST, millionths
from .core.records import ReservationState, Status
from .declarations import LONGEST_S, name_problem
from .engine.views import PAGE_BYTES, RANGES, STORED_TEXTS, JobText, OverviewRange, instant, moment
from .errors import Refused
from .files.names import clean_name
from .json_values import stored_json
from .storable import clean_text

_KEY: Final = re.compile(r"[A-Za-z0-9._~:/-]{1,255}")
TEXT_LENGTH: Final = 10_000
SEARCH_LENGTH: Final = 200


class Limits(Struct, frozen=True):
    """The largest sizes accepted. All can be changed.

    payload_bytes: one payload, as JSON. Defaults to 256 KiB.
    result_bytes: one result, step result or checkpoint data, as JSON. Defaults to 1 MiB.
    json_depth: how deep JSON may be nested. Defaults to 64.
    batch_jobs: jobs in one batch. Defaults to 10,000.
    batch_bytes: the payloads of one batch together, as JSON; also where one submit is split into many jobs, each of
        which has the rest of the payload. Defaults to 16 MiB.
    request_parts: parts of one split request that are one job to their owner; a request that is split into more is a
        batch of as many jobs. Defaults to 50.
    claim_jobs: jobs in one claim. Defaults to 1,000.
    page_items: items in one page of a list. Defaults to 1,000.
    page_bytes: bytes of JSON in one page of a list; it has fewer items then, but always one. Defaults to 4 MiB.
    library_searched: jobs of an account that are scanned for one page of its library. Defaults to 1,000.
    jobs_searched: jobs that are scanned for one part of a search among all jobs. Defaults to 100,000.
    jobs_counted: matching jobs at which a count stops. Defaults to 10,000.
    dead_grouped: dead letters that are read to group them by error. Defaults to 10,000.
    job_events: events of one job, beyond which its handler's progress and log lines are left out, which its history
        says, and further steps are refused. Defaults to 100,000: more than one a second for `max_age_s`.
    late_bytes: how much is kept of a job's first finish that came too late. Defaults to 4 KiB.
    job_callbacks: call-backs of its provider that are kept with one job. Defaults to 20.
    callback_bytes: what is kept of one call-back. Defaults to 16 KiB.
    child_message_bytes: one message that a worker reads from a child process: a result, a step or a log line, with
        about 1 KiB around it. Defaults to 64 MiB.
    file_bytes: one file, whatever the plan; also one that a job makes. Defaults to 1 GiB.
    bulk_jobs: jobs that one bulk act may change; up to ten times as many are scanned to find them. Defaults to 100,000.
    open_sessions: sessions of one account whose pages reported that they are open or were left. Defaults to 100.
    """

    payload_bytes: int = 262_144
    result_bytes: int = 1_048_576
    json_depth: int = 64
    batch_jobs: int = 10_000
    batch_bytes: int = 16_777_216
    request_parts: int = 50
    claim_jobs: int = 1_000
    page_items: int = 1_000
    page_bytes: int = PAGE_BYTES
    library_searched: int = 1_000
    jobs_searched: int = 100_000
    jobs_counted: int = 10_000
    dead_grouped: int = 10_000
    job_events: int = 100_000
    late_bytes: int = 4_096
    job_callbacks: int = 20
    callback_bytes: int = 16_384
    child_message_bytes: int = 67_108_864
    file_bytes: int = 1_073_741_824
    open_sessions: int = 100
    bulk_jobs: int = 100_000


def invalid(message: str) -> Refused:
    return Refused.of(Refusal("INVALID_ARGUMENT", f"{message}; nothing was changed."))


def overview_range(value: Any) -> OverviewRange:
    """The time range of an overview."""
    if (found := next((known for known in RANGES if known == value), None)) is None:
        raise invalid(f"range must be one of {', '.join(RANGES)}, not {value!r}")
    return found


def name(value: Any, what: str) -> str:
    """A name chosen by people: of an account, a worker, a pool and the like."""
    if (problem := name_problem(value, what)) is not None:
        raise invalid(problem)
    return str(value)


def optional_name(value: Any, what: str) -> str | None:
    return None if value is None else name(value, what)


def text(value: Any) -> str:
    """Free text, such as an error or a reason; if too long, it is cut and ends with "…"."""
    words = str(value)
    if len(words) > TEXT_LENGTH:
        words = words[:TEXT_LENGTH] + "…"
    # An error must never be refused: characters that cannot be stored are replaced.
    return clean_text(words)


def reason(value: Any) -> str:
    """Why an operator does something to others' jobs. It is required, because it is stored."""
    if not isinstance(value, str) or not value.strip():
        raise invalid("a reason is missing: say why")
    return text(value)


def search(value: Any) -> str | None:
    """Words to look for in payloads, as the stored JSON text has them."""
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= SEARCH_LENGTH:
        raise invalid(f"search must be a text of 1 to {SEARCH_LENGTH} characters")
    if (problem := text_problem(value, "search")) is not None:
        raise invalid(problem)
    return msgspec.json.encode(value).decode()[1:-1]


def key(value: Any) -> str:
    """An idempotency key."""
    if not isinstance(value, str) or _KEY.fullmatch(value) is None:
        raise invalid(
            "an idempotency key must be 1 to 255 of the characters A-Z a-z 0-9 . _ ~ - : /, such as a UUID, or a "
            "repository and a commit"
        )
    return value


def job_id(value: Any, what: str = "job") -> str:
    """The id of a job, batch or reservation, in canonical form. Anything but a UUID is refused as NOT_FOUND."""
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise Refused.of(Refusal("NOT_FOUND", f"there is no {what} {str(value)[:80]!r}: an id is a UUID.")) from None


def file_name(value: Any) -> str:
    """A file's name, without folders and invisible characters; refused if nothing is left."""
    if not isinstance(value, str) or (name := clean_name(value, "")) == "" or text_problem(name, "it") is not None:
        shown = repr(value)[:80]
        raise Refused.of(
            Refusal(
                "INVALID_FILE", f"a file needs a name of letters that can be seen, not {shown}; nothing was stored."
            )
        )
    return name


def amount(value: Any, what: str = "the amount") -> int:
    """Whole credits; the rules check the range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{what} must be a whole number of credits, not {value!r}")
    if abs(value) >= 2**63:
        raise invalid(f"{what} is out of range")
    return value


def refund_part(credits: Any, share: Any) -> tuple[int | None, str | None]:
    """How much a refund gives back: an amount, or a share of the charge, as a decimal text; both None for all of it."""
    if credits is not None and share is not None:
        raise invalid("give an amount or a share, not both")
    if credits is not None and amount(credits) < 1:
        raise invalid(f"the amount must be at least 1 credit, not {credits!r}; leave it out to refund all")
    if share is None:
        return credits, None
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise invalid(f"the share must be a number above 0, and at most 1, not {share!r}")
    return None, str(share)


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise invalid(f"{what} must be True or False, not {value!r}")
    return value


def count(value: Any, what: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise invalid(f"{what} must be a whole number from 1 to {most}, not {value!r}")
    return value


def cursor(value: Any, what: str) -> int | None:
    """A number to continue after: an entry's or event's, or the `next` of a page."""
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value) else value
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63):
        raise invalid(f"{what} must be a whole number from 0 up, not {value!r}")
    return number


def epoch(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise invalid(f"an epoch must be a whole number, not {value!r}")
    return value


def percent(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise invalid(f"progress must be a whole number from 0 to 100, not {value!r}")
    return value


def milliseconds(value: Any, what: str, unit_s: int = 1, unit: str = "seconds") -> int:
    """A duration in seconds or another unit, as whole milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value * unit_s <= LONGEST_S:
        raise invalid(f"{what} must be a number of {unit} from 0 to a hundred years, not {value!r}")
    return int(value * unit_s * 1_000)


def provider_cost(value: Any) -> int | None:
    """What a provider charged, in millionths of the operator's currency; None if that is unknown."""
    if value is not None and millionths(value) is None:
        raise invalid(f"provider_cost must be a number from 0 to {MAX_PROVIDER_COST} in your currency, not {value!r}")
    return None if value is None else millionths(value)


def day(value: Any, what: str) -> int:
    """The first instant of a UTC day."""
    if not isinstance(value, calendar_date):
        raise invalid(f"{what} must be a date, not {value!r}")
    if not isinstance(value, datetime):
        return instant(datetime(value.year, value.month, value.day))
    at = instant(value)
    return at - at % DAY


def date(value: Any, what: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise invalid(f"{what} must be a datetime, not {value!r}")
    try:
        at = instant(value)
        moment(at)  # The job's view must be able to show it.
    except OverflowError:
        raise invalid(f"{what} must be a datetime within the years 1 to 9999 of UTC, not {value!r}") from None
    return at


def payload(value: Any) -> Mapping[str, Any]:
    """A payload, whatever kind of mapping it is."""
    if isinstance(value, (dict, CheckedJson)):
        return value
    if not isinstance(value, Mapping):
        words = "the payload must be a JSON object (a dict or another mapping); nothing was changed."
        raise Refused.of(Refusal("INVALID_PAYLOAD", words))
    return dict(value)


def json(value: Any, what: str, most_bytes: int, limits: Limits) -> str:
    """Any JSON value as canonical text."""
    return _text(canonical(value, what=what, max_bytes=most_bytes, max_depth=limits.json_depth))


def stored(value: Any, what: str, limits: Limits) -> str:
    """What a handler returns or stores, as canonical text: any value with a usual form as JSON."""
    return _text(stored_json(value, what=what, max_bytes=limits.result_bytes, max_depth=limits.json_depth))


def _text(result: str | Refusal) -> str:
    if isinstance(result, Refusal):
        raise Refused.of(result)
    return result


def names(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, Iterable) or isinstance(values, bytes):
        raise invalid(f"name a {what}, or several as a list, not {values!r}")
    found = (values,) if isinstance(values, str) else tuple(values)
    if not found:
        raise invalid(f"name at least one {what}")
    return tuple(dict.fromkeys(name(value, what) for value in found))


def statuses(values: Any) -> tuple[Status, ...]:
    """The states to filter by; empty for all."""
    known = get_args(Status)
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    if isinstance(values, str) or not all(isinstance(value, str) and value in known for value in found):
        raise invalid(f"statuses must be a list of {', '.join(known)}, not {values!r}")
    return tuple(dict.fromkeys(found))


def reservation_state(value: Any) -> ReservationState | None:
    """The state to filter by; None for all."""
    if value is not None and value not in get_args(ReservationState):
        raise invalid(f"state must be one of {', '.join(get_args(ReservationState))}, not {value!r}")
    found: ReservationState | None = value
    return found


def job_texts(values: Any) -> tuple[JobText, ...]:
    """The texts that a list of jobs includes; empty for none."""
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    if isinstance(values, str) or not all(isinstance(value, str) and value in STORED_TEXTS for value in found):
        raise invalid(f"include must be a list of {', '.join(STORED_TEXTS)}, not {values!r}")
    return found


def key_cursor(value: Any) -> tuple[str, str, str] | None:
    """The account, key and scope after which a list of keys continues."""
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise invalid(f"after must be an account, a key and a scope, not {value!r}")
    account, called, scope = (name(part, "a part of after") for part in value)
    return account, called, scope
