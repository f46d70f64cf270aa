"""The slots of cron expressions: month ends, leap days, and clocks that are put forward and back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.core.cron_slots import NICKNAMES, cron_problem, last_slots, next_slot

MINUTE = 60_000_000
NEW_YORK, SAO_PAULO = "America/New_York", "America/Sao_Paulo"
ZONES = (NEW_YORK, SAO_PAULO, "UTC", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "Europe/Berlin")


def at(text: str, tz: str = "UTC", fold: int = 0) -> int:
    """The instant at which a zone's clock shows this."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz), fold=fold)
    return int(moment.timestamp()) * 1_000_000


def shown(slots: list[int], tz: str = "UTC") -> list[str]:
    zone = ZoneInfo(tz)
    return [f"{datetime.fromtimestamp(slot / 1e6, zone):%Y-%m-%d %H:%M%z}" for slot in slots]


def following(expression: str, start: str, count: int, tz: str = "UTC") -> list[str]:
    """The slots after a time, as the clock shows them."""
    found = [at(start, tz)]
    for _ in range(count):
        slot = next_slot(expression, tz, found[-1])
        assert slot is not None
        found.append(slot)
    return shown(found[1:], tz)


@pytest.mark.parametrize(
    ("expression", "start", "slots"),
    [
        ("0 9 * * 1-5", "2026-11-13 09:00", ["2026-11-16 09:00+0000", "2026-11-17 09:00+0000"]),
        ("0 0 29 2 *", "2026-01-01 00:00", ["2028-02-29 00:00+0000", "2032-02-29 00:00+0000"]),
        ("30 23 31 * *", "2026-01-31 23:30", ["2026-03-31 23:30+0000", "2026-05-31 23:30+0000"]),
        ("0 12 L * *", "2026-01-31 12:00", ["2026-02-28 12:00+0000", "2026-03-31 12:00+0000"]),
        ("*/15 * * * *", "2026-12-31 23:46", ["2027-01-01 00:00+0000", "2027-01-01 00:15+0000"]),
        ("0 0 13 * 5", "2026-11-12 00:00", ["2026-11-13 00:00+0000", "2026-11-20 00:00+0000"]),
        ("@monthly", "2026-11-12 00:00", ["2026-12-01 00:00+0000", "2027-01-01 00:00+0000"]),
    ],
)
def test_slots_of_months_years_and_weeks(expression: str, start: str, slots: list[str]) -> None:
    assert following(expression, start, len(slots)) == slots


def test_a_time_that_the_clock_skips_in_spring_comes_once_right_after_the_gap() -> None:
    """New York goes from 02:00 to 03:00 on 8 March 2026."""
    assert following("30 2 * * *", "2026-03-07 02:30", 2, NEW_YORK) == [
        "2026-03-08 03:00-0400",
        "2026-03-09 02:30-0400",
    ]
    assert following("0,30 2 * * *", "2026-03-08 01:00", 2, NEW_YORK) == [
        "2026-03-08 03:00-0400",
        "2026-03-09 02:00-0400",
    ]


def test_a_time_that_the_clock_shows_twice_in_autumn_comes_once() -> None:
    """New York goes from 02:00 back to 01:00 on 1 November 2026."""
    assert following("30 1 * * *", "2026-10-31 12:00", 2, NEW_YORK) == [
        "2026-11-01 01:30-0400",
        "2026-11-02 01:30-0500",
    ]
    # Whoever begins in the hour that comes again has missed that day's.
    second = at("2026-11-01 01:15", NEW_YORK, fold=1)
    assert shown([next_slot("30 1 * * *", NEW_YORK, second) or 0], NEW_YORK) == ["2026-11-02 01:30-0500"]


def test_a_schedule_of_every_half_hour_goes_by_the_time_that_passes() -> None:
    spring = following("*/30 * * * *", "2026-03-08 01:29", 3, NEW_YORK)
    assert spring == ["2026-03-08 01:30-0500", "2026-03-08 03:00-0400", "2026-03-08 03:30-0400"]
    autumn = following("*/30 * * * *", "2026-11-01 00:59", 5, NEW_YORK)
    assert [slot[11:] for slot in autumn] == ["01:00-0400", "01:30-0400", "01:00-0500", "01:30-0500", "02:00-0500"]


def test_a_clock_that_is_put_forward_at_midnight() -> None:
    """Sao Paulo had no midnight on 4 November 2018, and two hours from 23:00 on 17 February 2019."""
    assert following("0 0 * * *", "2018-11-03 12:00", 2, SAO_PAULO) == [
        "2018-11-04 01:00-0200",
        "2018-11-05 00:00-0200",
    ]
    assert following("*/30 * * * 0", "2018-11-03 23:59", 2, SAO_PAULO) == [
        "2018-11-04 01:00-0200",
        "2018-11-04 01:30-0200",
    ]
    assert following("30 23 * * *", "2019-02-16 12:00", 2, SAO_PAULO) == [
        "2019-02-16 23:30-0200",
        "2019-02-17 23:30-0300",
    ]
    # It has none of this since 2019.
    assert following("0 9 * * 1-5", "2026-11-13 10:00", 1, SAO_PAULO) == ["2026-11-16 09:00-0300"]


@pytest.mark.parametrize(
    ("expression", "tz", "words"),
    [
        ("60 9 * * *", "UTC", "bad minute: '60'"),
        ("0 24 * * *", "UTC", "bad hour: '24'"),
        ("0 9 32 * *", "UTC", "bad day-of-month: '32'"),
        ("0 9 * 13 *", "UTC", "bad month: '13'"),
        ("0 9 * * mon-sunday", "UTC", "bad day-of-week: 'mon-sunday'"),
        ("*/0 * * * *", "UTC", "bad minute: '*/0'"),
        ("0 9 * *", "UTC", "has 4 fields; it needs five: minute, hour, day-of-month, month, day-of-week"),
        ("0 0 9 * * *", "UTC", "has 6 fields"),
        ("0 0 30 2 *", "UTC", "bad day-of-month: '30'"),
        ("0 0 31 2,4 *", "UTC", "bad day-of-month: '31'"),
        ("@reboot", "UTC", "is not known; known are: @hourly"),
        ("", "UTC", "has 0 fields"),
        (None, "UTC", "is text such as"),
        ("0 9 * * *", "Mars/Olympus", "no time zone 'Mars/Olympus'"),
        ("0 9 * * *", "../etc/passwd", "no time zone"),
        ("0 9 * * *", None, "no time zone None"),
    ],
)
def test_a_bad_expression_is_told_with_its_field(expression: object, tz: object, words: str) -> None:
    assert words in str(cron_problem(expression, tz))


@pytest.mark.parametrize("expression", ["0 9 * * MON-FRI", "0 0 29 2 *", "0 0 * * 7", "5/10 * * jan L", *NICKNAMES])
def test_what_cron_understands_is_taken(expression: str) -> None:
    assert cron_problem(expression.replace(" L", " 5L"), SAO_PAULO) is None


EXPRESSIONS = (
    *("* * * * *", "*/7 * * * *", "0 * * * *", "30 1 * * *", "30 2 * * *", "0,30 2,3 * * *", "15 0-4 * * *"),
    *("0 0 * * *", "*/20 1 * * *", "59 23 * * *", "0 3 * * 0", "10-20/5 2 1-9 3,10,11 *", "0 */2 * * *"),
)
CHANGES = tuple(
    at(text) for text in ("2026-03-08 07:00", "2026-11-01 06:00", "2018-11-04 03:00", "2019-02-17 02:00", "2026-04-05")
)


@given(
    st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(-1800, 1800), st.data()
)
def test_slots_looked_for_backwards_are_those_that_come_one_after_the_other(
    expression: str, tz: str, around: int, minutes: int, data: st.DataObject
) -> None:
    """Also where a clock is put forward or back, wherever the looking begins."""
    after = around + minutes * MINUTE
    until = after + data.draw(st.integers(0, 1_500)) * MINUTE
    expected = []
    slot = next_slot(expression, tz, after)
    while slot is not None and slot <= until:
        expected.append(slot)
        later = next_slot(expression, tz, slot)
        assert later is None or later > slot
        slot = later
    assert last_slots(expression, tz, after, until, 10_000) == expected
    assert last_slots(expression, tz, after, until, 2) == expected[-2:]


def test_a_slot_is_a_whole_minute_of_the_zones_clock() -> None:
    for tz in ZONES:
        slot = next_slot("0 9 * * *", tz, at("2026-11-16 00:00"))
        assert slot is not None
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=slot)
        assert (moment.astimezone(ZoneInfo(tz)).hour, moment.second, moment.microsecond) == (9, 0, 0)
