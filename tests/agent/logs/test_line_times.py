"""The times of lines in logs, in all formats of Slurm and munge, as seconds since 1970."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator

import pytest

from slurmfab.on_hosts.agent.logs import line_times


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host in another time zone than UTC."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    line_times.local_minute.cache_clear()
    yield
    monkeypatch.undo()
    time.tzset()
    line_times.local_minute.cache_clear()


NOON = float(calendar.timegm((2026, 7, 1, 12, 0, 30)))


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[2026-07-01T14:00:30.250] error: no", NOON + 0.25),
        ("[2026-07-01T14:00:30] error: no", NOON),
        ("[2026-07-01T14:00:30+02:00] error: no", NOON),
        ("[2026-07-01T12:00:30.250Z] error: no", NOON + 0.25),
        ("2026-07-01 14:00:30 +0200 error: no", NOON),
        ("2026-07-01 05:00:30 -0700 error: no", NOON),
    ],
)
def test_the_time_of_a_line_is_that_of_its_zone_or_of_the_host(line: str, seconds: float) -> None:
    assert line_times.begin(line) == (seconds, "error: no")


def test_a_line_without_a_year_is_of_the_last_day_with_its_name() -> None:
    soon = time.localtime(time.time() + 10 * 86400)
    found, rest = line_times.begin(f"[{time.strftime('%b %d %H:%M:%S', soon)}] up")
    assert rest == "up"
    assert found is not None
    assert time.time() - 366 * 86400 < found < time.time()


@pytest.mark.parametrize("line", ["", "error: no", "[2026-99-99T14:00:30] no", "[10.0.0.1:6818] no", "[12.batch] done"])
def test_a_line_that_begins_with_no_time_stays_whole(line: str) -> None:
    assert line_times.begin(line) == (None, line)
