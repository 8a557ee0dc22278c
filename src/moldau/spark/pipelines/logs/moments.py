"""Times as lines of logs write them, in microseconds since 1970. Pure.

What names no zone is in the zone that the user says the machines are in. What names no year, or no
day, is taken to be the one that is nearest to when the record was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from moldau.base.errors import UserError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_NAMES: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTHS: Final = {name: number for number, name in enumerate(_NAMES.split("|"), 1)}
MONTH: Final = f"(?:{_NAMES})"
DAY: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"

_ISO: Final = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?"
    r" ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
_COMMON: Final = re.compile(
    rf"(\d\d)/({MONTH})/(\d{{4}}):(\d\d):(\d\d):(\d\d) ([+-]\d\d)(\d\d)", re.ASCII
)
_SYSLOG: Final = re.compile(rf"({MONTH}) {{1,2}}(\d{{1,2}}) (\d\d):(\d\d):(\d\d)", re.ASCII)
_AMERICAN: Final = re.compile(
    rf"({MONTH}) (\d{{1,2}}), (\d{{4}}),? (\d{{1,2}}):(\d\d):(\d\d) ([AP])M", re.ASCII
)
_ASCTIME: Final = re.compile(
    rf"{DAY} ({MONTH}) ([ \d]\d) (\d\d:\d\d:\d\d(?:\.\d{{1,9}})?) (\d{{4}})", re.ASCII
)
_KLOG: Final = re.compile(r"(\d{4})?(\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{1,9})", re.ASCII)
_CLOCK: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_NUMBER: Final = re.compile(r"\d{9,19}(?:\.\d{1,9})?", re.ASCII)

TIME_SIZE_MAX: Final = 64
"""Characters of a time; what is longer is none, and nobody is to ask for it."""
_REMEMBERED: Final = 4096
"""Lines of a second often have the same time, and reading one costs as much as the line's rest.
Texts that are none are remembered too, hence the limit above."""


def zone_of(name: str) -> tzinfo:
    """Return a zone by its name; UserError if there is none."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UserError(f"{name!r} is not known: expected one as Europe/Prague") from None


@lru_cache(_REMEMBERED)
def iso_us(text: str, zone: tzinfo) -> int | None:
    """Read `2026-11-15T12:00:00.123Z` and its like: a space, slashes, a comma, no zone."""
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, month, day, clock, fraction, named = found.groups()
    if named is None:
        offset = ""
    elif named in ("Z", "UTC", "GMT"):
        offset = "+00:00"
    else:
        offset = named
    decimals = f".{fraction[:6].ljust(6, '0')}" if fraction else ""
    seconds = clock if len(clock) > 5 else f"{clock}:00"
    return _read(f"{year}-{month}-{day}T{seconds}{decimals}{offset}", zone)


@lru_cache(_REMEMBERED)
def common_us(text: str) -> int | None:
    """Read the time of an access log, `15/Nov/2026:12:00:00 +0100`."""
    found = _COMMON.fullmatch(text)
    if found is None:
        return None
    day, month, year, hour, minute, second, hours, minutes = found.groups()
    return _read(f"{year}-{_MONTHS[month]:02}-{day}T{hour}:{minute}:{second}{hours}:{minutes}", UTC)


def american_us(text: str, zone: tzinfo) -> int | None:
    """Read the time of java.util.logging, `Nov 15, 2026 12:00:00 PM`."""
    found = _AMERICAN.fullmatch(text)
    if found is None:
        return None
    month, day, year, hour, minute, second, half = found.groups()
    hours = int(hour) % 12 + (12 if half == "P" else 0)
    return _read(f"{year}-{_MONTHS[month]:02}-{int(day):02}T{hours:02}:{minute}:{second}", zone)


def syslog_us(text: str, zone: tzinfo, sent_us: int) -> int | None:
    """Read `Nov 15 12:00:00`, in the year that is nearest to when it was sent."""
    found = _SYSLOG.fullmatch(text)
    if found is None:
        return None
    month, day, hour, minute, second = found.groups()
    rest = f"{_MONTHS[month]:02}-{int(day):02}T{hour}:{minute}:{second}"
    return _in_nearest_year(rest, zone, sent_us)


def asctime_us(text: str, zone: tzinfo) -> int | None:
    """Read the time of Apache's error log, `Sun Nov 15 12:00:00.123456 2026`."""
    found = _ASCTIME.fullmatch(text)
    if found is None:
        return None
    month, day, clock, year = found.groups()
    return iso_us(f"{year}-{_MONTHS[month]:02}-{int(day):02}T{clock}", zone)


def klog_us(text: str, zone: tzinfo, sent_us: int) -> int | None:
    """Read `1115 12:00:00.123456`, in the year that is nearest, or that is before it."""
    found = _KLOG.fullmatch(text)
    if found is None:
        return None
    year, month, day, clock = found.groups()
    rest = f"{month}-{day}T{clock}"
    return _in_nearest_year(rest, zone, sent_us) if year is None else iso_us(f"{year}-{rest}", zone)


def _in_nearest_year(rest: str, zone: tzinfo, sent_us: int) -> int | None:
    """Read a date without its year, which is the one that is nearest to when it was sent."""
    year = (_EPOCH + timedelta(microseconds=sent_us)).year
    return _nearest(
        [iso_us(f"{one:04}-{rest}", zone) for one in (year - 1, year, year + 1)], sent_us
    )


def clock_us(text: str, zone: tzinfo, sent_us: int) -> int | None:
    """Read `12:00:00.123`, on the day that is nearest to when it was sent."""
    if _CLOCK.fullmatch(text) is None:
        return None
    sent = (_EPOCH + timedelta(microseconds=sent_us)).astimezone(zone)
    # Not a day of 24 hours before or after: where clocks are changed, one has another number.
    days = [sent.date() + timedelta(days=one) for one in (-1, 0, 1)]
    return _nearest([iso_us(f"{day.isoformat()}T{text}", zone) for day in days], sent_us)


def _nearest(times: Iterable[int | None], sent_us: int) -> int | None:
    known = (one for one in times if one is not None)
    return min(known, key=lambda one: abs(one - sent_us), default=None)


def number_us(text: str) -> int | None:
    """Read seconds, milliseconds, microseconds or nanoseconds since 1970, by their size."""
    if _NUMBER.fullmatch(text) is None:
        return None
    whole, _, fraction = text.partition(".")
    if len(whole) > 17:
        return int(whole) // 1000
    if len(whole) > 14:
        return int(whole)
    if len(whole) > 11:
        return int(whole) * 1000 + int(fraction[:3].ljust(3, "0"))
    return int(whole) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def any_us(text: str, zone: tzinfo) -> int | None:
    """Read a time that may be written as a number, or as a date."""
    if len(text) > TIME_SIZE_MAX:
        return None
    found = number_us(text) if text[:1].isdigit() and "-" not in text else None
    return iso_us(text, zone) if found is None else found


def moment_us(text: str, zone: tzinfo, sent_us: int) -> int | None:
    """Read a time in any of the ways there are."""
    if len(text) > TIME_SIZE_MAX:
        return None
    for found in (
        any_us(text, zone),
        common_us(text),
        syslog_us(text, zone, sent_us),
        asctime_us(text, zone),
        american_us(text, zone),
        klog_us(text, zone, sent_us),
        clock_us(text, zone, sent_us),
    ):
        if found is not None:
            return found
    return None


def _read(text: str, zone: tzinfo) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None
