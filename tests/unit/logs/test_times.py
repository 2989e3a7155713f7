"""The period that options name, and what is no time."""

from __future__ import annotations

from datetime import datetime

import pytest

from slurmfab.base.errors import InputError
from slurmfab.commands.logs.times import AROUND, Asked, Period, period

NOW = datetime(2026, 11, 23, 12, 0).timestamp()


def at(*when: int) -> float:
    return datetime(*when).timestamp()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked(), Period(NOW - 3600, NOW)),
        (Asked(since="2h"), Period(NOW - 7200, NOW)),
        (Asked(since="90 min ago", until="30m"), Period(NOW - 5400, NOW - 1800)),
        (Asked(until="1d"), Period(NOW - 86400 - 3600, NOW - 86400)),
        (Asked(since="11:15"), Period(at(2026, 11, 23, 11, 15), NOW)),
        (Asked(since="23:15:30"), Period(at(2026, 11, 22, 23, 15, 30), NOW)),
        (Asked(since="yesterday", until="today"), Period(at(2026, 11, 22), at(2026, 11, 23))),
        (Asked(since="2026-11-20", until="2026-11-20T10:30"), Period(at(2026, 11, 20), at(2026, 11, 20, 10, 30))),
        (Asked(around="2026-11-20T10:30:00+00:00"), Period(1795170600 - AROUND, 1795170600 + AROUND)),
        (Asked(around="now"), Period(NOW - AROUND, NOW + AROUND)),
    ],
)
def test_the_period_is_what_the_options_name_or_the_last_hour(asked: Asked, expected: Period) -> None:
    assert period(asked, None, NOW) == expected


def test_the_period_of_a_job_holds_where_the_options_are_silent() -> None:
    assert period(Asked(since="3h"), Period(1, NOW - 60), NOW) == Period(NOW - 10800, NOW - 60)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(since="soon"), "--since soon: this is no time"),
        (Asked(until="25:00"), "--until 25:00: this is no time"),
        (Asked(around="2026-99-01"), "--around 2026-99-01: this is no time"),
        (Asked(since="1h", until="2h"), "ends before it begins"),
        (Asked(since="1h", around="2h"), "--around takes the place"),
        (Asked(since="500d"), "longer than a year"),
    ],
)
def test_what_is_no_period_is_refused(asked: Asked, message: str) -> None:
    with pytest.raises(InputError, match=message):
        period(asked, None, NOW)
