"""What squeue and sinfo print in the format that they were asked for, from rows of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slurmfab.on_hosts.agent.slurm.reading import JOB_FIELDS


def printed(rows: Iterable[Sequence[str]], argv: Sequence[str], env: Mapping[str, str]) -> bytes:
    """The output of a command.

    Args:
        rows: the values of each job or node, one for each field that was asked for.
        argv: the command.
        env: its environment, where squeue's format is.
    """
    if argv[0] == "squeue":
        marks = [field.partition(":")[2] for field in env["SQUEUE_FORMAT2"].split(",")]
    else:
        form = next(word for word in argv if word.startswith("--format="))
        marks = re.split("%[A-Za-z]", form)[1:]
    return "".join(
        "".join(value + mark for value, mark in zip(row, marks, strict=True)) + "\n" for row in rows
    ).encode()


def environment(rest: Sequence[Any], more: Mapping[str, Any]) -> Mapping[str, str]:
    """The environment among the arguments of a `Context.run` behind the first one."""
    return more.get("env") or next((one for one in rest if isinstance(one, Mapping)), {})


def job_rows(lines: str | Iterable[str]) -> list[list[str]]:
    """The values of `JOB_FIELDS` but for the account; the name is the last one, and may hold the separator."""
    texts = lines.splitlines() if isinstance(lines, str) else lines
    rows = (line.removesuffix("|").split("|", len(JOB_FIELDS) - 2) for line in texts)
    return [[*row[:-1], "(null)", row[-1]] for row in rows]
