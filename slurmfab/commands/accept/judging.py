"""From a job that has ended to its results: the figures in its output, which any user's program may have written.

Each line is looked at by itself, and only its beginning; a number of other characters than digits is none. A regular
expression may take a very long time on a text that was made for that, so this is done in another process, which has a
time limit.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.commands.accept.queue import Attempt, Queue
from slurmfab.commands.accept.results import FAILED, NO_FIGURE, NOT_STARTED, PASSED, TIMED_OUT, Result
from slurmfab.commands.accept.wanted import WantedFigure, WantedJob
from slurmfab.commands.checks.user_jobs import MOST_OUTPUT

NOT_FOUND = 127  # exit code of a shell for a program that is not installed

NOT_ITS_FAULT = {
    "CANCELLED": "somebody cancelled the job",
    "PREEMPTED": "another job preempted it",
    "BOOT_FAIL": "its node did not boot",
    "REVOKED": "Slurm revoked the job",
}
"""Why a job has no figures for which it is not to blame, by its state."""

ENDS = {
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it ran out of memory",
    "GONE": "Slurm has forgotten the job before its end was seen",
}
"""Why a job failed, by its state."""

LONGEST_LINE = 4096  # characters of a line that are looked at
SECONDS = 10.0  # time limit for one pattern

SEARCH = """
import json, re, sys
pattern, longest, text = json.load(sys.stdin)
pattern, found = re.compile(pattern), None
for line in text.split("\\n"):
    match = pattern.search(line[:longest].rstrip("\\r"))
    if match and match[1] is not None:
        found = match[1]
json.dump(found, sys.stdout)
"""
"""The program of the other process: the group of the last line that matches."""

_FIGURE = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?|[+-]?\.[0-9]{1,30}")


class NoFigure(Exception):
    """The output has no such figure; the text says why."""


def figure_in(output: str, pattern: str) -> float:
    """The figure in the last line of an output that matches a pattern.

    `output`: of a job; only its end is looked at. `pattern`: regular expression with one group. Raises NoFigure if no
    line matches, or what matches is not a number, or the pattern takes too long.
    """
    question = json.dumps([pattern, LONGEST_LINE, output[-MOST_OUTPUT:]])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SEARCH],
            input=question.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise NoFigure(f"looking for the pattern takes more than {SECONDS:.0f} s") from None
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoFigure(f"the pattern could not be looked for: {error}") from None
    found: str | None = json.loads(done.stdout)
    if found is None:
        raise NoFigure("no line of the output matches the pattern")
    text = found.strip()
    value = float(text) if _FIGURE.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise NoFigure(f"{text[:40]!a} is not a number")
    return value


def results_of(queue: Queue, attempt: Attempt, logs: str = "") -> list[Result]:
    """The results of a job that ended or did not start in time; its output goes to `logs`, a local directory."""
    output, trouble = queue.output_of(attempt) if attempt.started is not None else ("", "")
    if logs and attempt.started is not None:
        where = attempt.nodes.replace("/", "_") or "nowhere"
        path = Path(logs) / f"{attempt.run.job.name}-{where[:100]}-{attempt.job_id}.out"
        atomic_file.write(path, output)
    verdict, words = ended_badly(attempt, output)
    if not verdict and trouble:
        verdict, words = NO_FIGURE, f"its output {attempt.output} cannot be read: {trouble}"
    if verdict:
        return [result(attempt, verdict, words=words)]
    return [judged(attempt, figure, output) for figure in attempt.run.job.figures]


def result(
    attempt: Attempt, verdict: str, figure: WantedFigure | None = None, value: float | None = None, words: str = ""
) -> Result:
    """A result of a job; see `Result` for the arguments."""
    seconds = time.monotonic() - attempt.sent
    return Result(attempt.run, verdict, figure, value, words, attempt.nodes, attempt.job_id, seconds)


def ended_badly(attempt: Attempt, output: str) -> tuple[str, str]:
    """The verdict about a job that did not run to its end, and the reason; both empty for one that did."""
    state, code = attempt.job.state, attempt.job.code
    if state in NOT_ITS_FAULT:
        return NOT_STARTED, NOT_ITS_FAULT[state]
    if not attempt.has_ended:
        return NOT_STARTED, attempt.reason
    if state in ("TIMEOUT", "DEADLINE"):
        return TIMED_OUT, f"it did not end within {attempt.run.job.minutes} min; {last_line(output)}"
    if state in ENDS:
        return FAILED, ENDS[state]
    if (state, code) == ("COMPLETED", "0:0"):
        return "", ""
    words = f"it ended with exit code {code.removesuffix(':0')}: {last_line(output)}"
    return FAILED, words + (missing(attempt.run.job) if code.partition(":")[0] == str(NOT_FOUND) else "")


def missing(job: WantedJob) -> str:
    """Which packages bring the program of a shipped job; empty for other jobs."""
    names = ", ".join(job.shipped.packages)
    return f" Repair: packages: {{compute: [{names}]}} in the cluster file" if names else ""


def last_line(output: str) -> str:
    """The last line of an output that is not empty."""
    lines = [line.strip() for line in output[-4096:].splitlines() if line.strip()]
    return f"“{lines[-1][:200]}”" if lines else "it printed nothing"


def judged(attempt: Attempt, figure: WantedFigure, output: str) -> Result:
    """The result of a figure of a job that ran to its end. `figure`: what is looked for."""
    try:
        value = figure_in(output, figure.pattern)
    except NoFigure as error:
        return result(attempt, NO_FIGURE, figure, words=f"{error}; {last_line(output)}")
    return result(attempt, PASSED if figure.is_met(value) else FAILED, figure, value)
