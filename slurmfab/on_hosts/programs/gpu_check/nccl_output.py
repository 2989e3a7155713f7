"""Output of nccl-tests, such as all_reduce_perf: its table, its summary and its error messages.

The columns depend on the version (`error` and no `root` before 2.11, `#wrong` since; a time stamp at the end on
request), so they are found by the header's names. Three things show errors: wrong values, the line `Out of bounds
values`, and failures of CUDA or NCCL. The source is src/common.cu and src/util.cu of nccl-tests.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Sequence

_HEADER = re.compile(r"\s*#\s+size\s+count\s+type\b")
_OUT_OF_BOUNDS = re.compile(r"\s*# Out of bounds values : (\d+) (OK|FAILED)")
_AVERAGE = re.compile(r"\s*# Avg bus bandwidth\s*:\s*([\d.eE+-]+)")
_FAILURE = re.compile(r"Test (?:NCCL failure|CUDA failure|failure|timeout) .*|Invalid number of GPUs: .*")
_MIN_COLUMNS = 8  # number of columns up to the first bus bandwidth, plus one; shorter lines are not rows


class SizeResult(NamedTuple):
    """The results for messages of one size."""

    size: int  # bytes
    busbw: float  # bus bandwidth in GB/s; of out-of-place and in-place the lower one
    wrong: Optional[int]  # number of wrong values in both; `None` if they were not checked (`N/A`)


class Measurement(NamedTuple):
    """The results of a run of nccl-tests."""

    busbw: float  # GB/s at the largest message, where latency hardly counts
    average: float  # GB/s over all sizes, as printed by nccl-tests; small messages lower it
    size: int  # bytes of the largest message
    wrong: int  # number of values that are wrong or out of bounds
    checked: bool
    failure: str = ""  # nccl-tests' message about a failure; empty for none


def parse(output: str) -> Optional[Measurement]:
    """The results of nccl-tests' whole output, with a `failure` if any; `None` if it ends before the table."""
    found = rows(output)
    failure = failure_in(output)
    if not found:
        return Measurement(0.0, 0.0, 0, 0, checked=False, failure=failure) if failure else None
    largest = max(found, key=lambda row: row.size)
    printed = _last(_AVERAGE, output)
    bounds = _last(_OUT_OF_BOUNDS, output)
    if printed is None and not failure:
        return None
    wrong = sum(row.wrong or 0 for row in found)
    if bounds and bounds[2] == "FAILED":
        wrong = max(wrong, int(bounds[1]), 1)
    average = float(printed[1]) if printed else sum(row.busbw for row in found) / len(found)
    checked = any(row.wrong is not None for row in found)
    return Measurement(largest.busbw, average, largest.size, wrong, checked, failure)


def rows(output: str) -> List[SizeResult]:
    """The rows below the table's header; none without a header."""
    found: List[SizeResult] = []
    names: List[str] = []
    for line in output.splitlines():
        if _HEADER.match(line):
            names = line.replace("#wrong", "wrong").lstrip(" #").split()
        elif names and not line.lstrip().startswith("#"):
            row = row_of(names, line.split())
            found += [row] if row else []
    return found


def row_of(names: Sequence[str], values: Sequence[str]) -> Optional[SizeResult]:
    """One row of the table; `None` for another line, such as a message in between."""
    if len(values) < _MIN_COLUMNS or not values[0].isdecimal():
        return None
    columns = list(zip(names, values))  # noqa: B905 - zip(strict=) is Python 3.10's
    try:
        speeds = [float(word) for name, word in columns if name == "busbw" and word != "N/A"]
        counts = [int(float(word)) for name, word in columns if name == "wrong" and word != "N/A"]
    except ValueError:
        return None
    if not speeds:
        return None
    return SizeResult(int(values[0]), min(speeds), sum(counts) if counts else None)


def failure_in(output: str) -> str:
    """The first message about a failure, without host name and process id; empty for none."""
    for line in output.splitlines():
        match = _FAILURE.search(line)
        if match:
            return match[0].strip()
    return ""


def _last(pattern: "re.Pattern[str]", output: str) -> "Optional[re.Match[str]]":
    """The last line that matches a pattern."""
    found = None
    for line in output.splitlines():
        found = pattern.match(line) or found
    return found
