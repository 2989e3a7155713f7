"""What a daemon itself wrote about its end: the errors in its own log, in its file or in the journal."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import List, NamedTuple

from slurmfab.agent.core.reading import read_text
from slurmfab.agent.core.resource import Context, ResourceFailed
from slurmfab.agent.core.safe_paths import read_end

CONFS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")
"""Slurm's file, and the one that a configless slurmd has fetched."""

SETTINGS = {
    "slurmctld": (CONFS, "SlurmctldLogFile"),
    "slurmd": (CONFS, "SlurmdLogFile"),
    "slurmdbd": (("/etc/slurm/slurmdbd.conf",), "LogFile"),
}
"""The files and the key that name a daemon's log."""

DEFAULTS = {"munge": "/var/log/munge/munged.log", "mariadb": ""}
"""Logs of daemons that are not Slurm's; empty for the journal alone."""

LOG_BYTES = 1 << 20
"""The size of the part of a daemon's log that is searched for errors."""

JOURNAL_LINES = "40"

MOST = 3
"""How many lines are reported."""

ERROR = re.compile(r"\b(?:fatal|error)\b", re.IGNORECASE)
PREFIX = re.compile(r"^(?:\d{4}-\d\d-\d\d [\d:]+ \S+\s+|\[[^\]]*\] |slurm\w+: )+")
"""What a line begins with: the time, or the daemon's name."""


class Position(NamedTuple):
    """How far a daemon's log was written at some time.

    Args:
        path: path of the log on this host; empty for none.
        size: in bytes.
    """

    path: str
    size: int


def position(context: Context, unit: str) -> Position:
    """Where a daemon's log ends now."""
    path = log_file(context, unit)
    path = context.path(path) if path else ""
    return Position(path, os.path.getsize(path) if os.path.exists(path) else 0)


def log_file(context: Context, unit: str) -> str:
    """The path of a daemon's log by its configuration; empty if it logs to the journal alone."""
    if unit not in SETTINGS:
        return DEFAULTS.get(unit, "")
    files, key = SETTINGS[unit]
    for file in files:
        text = read_text(context.path(file))
        found = re.findall(r"^[ \t]*%s[ \t]*=[ \t]*\"?([^\s\"#]+)" % key, text, re.IGNORECASE | re.MULTILINE)
        if found:
            hostname = os.uname().nodename.partition(".")[0]
            return str(found[-1].replace("%h", hostname).replace("%n", hostname))
    return "/var/log/slurm/%s.log" % unit


def written_since(start: Position) -> str:
    """The end of a log that was written since a position.

    Raises:
        ResourceFailed, OSError: the log cannot be read.
    """
    now = os.path.getsize(start.path)
    # A log that is smaller now was replaced meanwhile.
    new = read_end(start.path, min(now - start.size if start.size <= now else now, LOG_BYTES))
    return (new or b"").decode(errors="replace")


def last_words(context: Context, unit: str, start: Position) -> List[str]:
    """The last errors that a daemon wrote itself since a position; what systemd says of it, where it wrote none.

    Args:
        context: the request's context.
        unit: the daemon's unit.
        start: where its log ended before it was started.

    Returns:
        At least one line, each once and without its time.
    """
    lines: List[str] = []
    with suppress(OSError, ResourceFailed):
        lines += error_lines(written_since(start)) if start.path else []
    # Before a daemon knows its log, it writes to the journal, as slurmctld does about a slurm.conf that it refuses.
    lines += error_lines(journal(context, "_SYSTEMD_UNIT=%s.service" % unit, JOURNAL_LINES)) if not lines else []
    said = last_errors(lines) or journal(context, "--unit=" + unit, "5").splitlines()
    return list(dict.fromkeys(said)) or ["it left no message; see: systemctl status %s" % unit]


def journal(context: Context, match: str, lines: str) -> str:
    """The last lines in the journal that match, from this boot."""
    argv = ["journalctl", match, "--boot", "--lines=" + lines, "--output=cat", "--no-pager", "--quiet"]
    return context.run(argv).stdout.decode(errors="replace").strip()


def error_lines(log: str) -> List[str]:
    """The lines of a daemon's log that report errors."""
    return [line for line in log.splitlines() if ERROR.search(line)]


def last_errors(lines: List[str]) -> List[str]:
    """The last errors of all, up to the last fatal one if there is any, each once and without its time."""
    bare = list(dict.fromkeys(PREFIX.sub("", line.strip()) for line in lines))
    fatal = [number for number, line in enumerate(bare, 1) if line.startswith("fatal")]
    return bare[: fatal[-1] if fatal else None][-MOST:]
