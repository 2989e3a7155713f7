"""What nccl-tests prints, such as all_reduce_perf: columns by their names, and what it says at its end and of failures.

The columns have changed over the versions (without `root` and with `error` before 2.11, `#wrong` since; a time stamp
behind them on request), so they are found by the names in the header. All three kinds of judgement count: the values
that are wrong, the line `Out of bounds values`, and failures of CUDA or NCCL. The source is src/common.cu and
src/util.cu of nccl-tests.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Sequence

_HEADER = re.compile(r"\s*#\s+size\s+count\s+type\b")
_OUT_OF_BOUNDS = re.compile(r"\s*# Out of bounds values : (\d+) (OK|FAILED)")
_AVERAGE = re.compile(r"\s*# Avg bus bandwidth\s*:\s*([\d.eE+-]+)")
_FAILURE = re.compile(r"Test (?:NCCL failure|CUDA failure|failure|timeout) .*")
_SHORTEST_ROW = 8
"""Columns up to the first bus bandwidth, and one more; a line of fewer is no row."""


class Row(NamedTuple):
    """The figures for messages of one size.

    Args:
        size: bytes.
        busbw: bus bandwidth in GB/s, the lower of out-of-place and in-place where both are measured.
        wrong: values that are wrong, in both; `None` where they were not looked at (`N/A`).
    """

    size: int
    busbw: float
    wrong: Optional[int]


class Measurement(NamedTuple):
    """What a run of nccl-tests has found.

    Args:
        busbw: GB/s at the largest message: what the links give once the beginning of each message counts for nothing.
        average: GB/s over all sizes, as nccl-tests says it; small messages drag it down.
        size: bytes of the largest message.
        wrong: values that are wrong, or out of bounds.
        checked: whether values were looked at.
        failure: what failed, in nccl-tests' words; empty when nothing did.
    """

    busbw: float
    average: float
    size: int
    wrong: int
    checked: bool
    failure: str = ""


def parse(output: str) -> Optional[Measurement]:
    """What a run has found; `None` where the output is none of nccl-tests', or ends before its figures.

    A run that fails has a `failure` and such figures as it had come to.

    Args:
        output: all that it printed, errors included.
    """
    found = rows(output)
    failure = failure_in(output)
    if not found:
        return Measurement(0.0, 0.0, 0, 0, checked=False, failure=failure) if failure else None
    largest = max(found, key=lambda row: row.size)
    said = _last(_AVERAGE, output)
    bounds = _last(_OUT_OF_BOUNDS, output)
    if said is None and not failure:
        return None
    wrong = sum(row.wrong or 0 for row in found)
    if bounds and bounds[2] == "FAILED":
        wrong = max(wrong, int(bounds[1]), 1)
    average = float(said[1]) if said else sum(row.busbw for row in found) / len(found)
    checked = any(row.wrong is not None for row in found)
    return Measurement(largest.busbw, average, largest.size, wrong, checked, failure)


def rows(output: str) -> List[Row]:
    """The rows of figures below a header; none where there is no header."""
    found: List[Row] = []
    names: List[str] = []
    for line in output.splitlines():
        if _HEADER.match(line):
            names = line.replace("#wrong", "wrong").lstrip(" #").split()
        elif names and not line.lstrip().startswith("#"):
            row = row_of(names, line.split())
            found += [row] if row else []
    return found


def row_of(names: Sequence[str], words: Sequence[str]) -> Optional[Row]:
    """One row by the header's names; `None` for a line of something else, such as a message in between.

    Args:
        names: of the columns.
        words: of the line.
    """
    if len(words) < _SHORTEST_ROW or not words[0].isdigit():
        return None
    columns = list(zip(names, words))  # noqa: B905 - zip(strict=) is Python 3.10's
    try:
        speeds = [float(word) for name, word in columns if name == "busbw" and word != "N/A"]
        counts = [int(float(word)) for name, word in columns if name == "wrong" and word != "N/A"]
    except ValueError:
        return None
    if not speeds:
        return None
    return Row(int(words[0]), min(speeds), sum(counts) if counts else None)


def failure_in(output: str) -> str:
    """What failed, in the first line that says so, without the host's name and process number; empty for nothing."""
    for line in output.splitlines():
        match = _FAILURE.search(line)
        if match:
            return match[0].strip()
    return ""


def _last(pattern: "re.Pattern[str]", output: str) -> "Optional[re.Match[str]]":
    """The last line that a pattern fits."""
    found = None
    for line in output.splitlines():
        found = pattern.match(line) or found
    return found
