"""The lines in the journal of some units, or of the kernel, from a period."""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, List, NamedTuple, Sequence

from slurmfab.on_hosts.agent.core.resource import Context

MOST_BYTES = 8 << 20  # how much of journalctl's output is read: the end

MOST_LINES = 20000
SECONDS = 20.0
FIELDS = "MESSAGE,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER"
OF_KERNEL = ("_TRANSPORT=kernel",)


class Entry(NamedTuple):
    """One line of the journal."""

    time: float  # in seconds since 1970
    unit: str  # that it is from or about, without `.service`; empty for the kernel's
    text: str  # the message; what systemd says about a unit begins with `systemd: `


def read(context: Context, matches: Sequence[str], since: float, until: float) -> List[Entry]:
    """The last lines of a period by journalctl's arguments; ResourceFailed if it is missing or slow."""
    argv = ["journalctl", *matches, "--since=@%.6f" % since, "--until=@%.6f" % until, "--lines=%d" % MOST_LINES,
            "--output=json", "--output-fields=" + FIELDS, "--no-pager", "--quiet"]  # fmt: skip
    # The agent would keep all of the output in memory; tail(1) keeps its end.
    command = ["sh", "-c", '"$@" 2>/dev/null | tail -c %d' % MOST_BYTES, "sh", *argv]
    shown = context.run(command, seconds=SECONDS).stdout.decode(errors="replace")
    return [entry for line in shown.split("\n") for entry in parsed(line)]


def parsed(line: str) -> Iterator[Entry]:
    """The lines of one message in journalctl's JSON; none if it is cut off, or its message is too long for JSON."""
    try:
        found = json.loads(line)
        seconds = int(found["__REALTIME_TIMESTAMP"]) / 1e6
        message, who = text_of(found.get("MESSAGE")), found.get("SYSLOG_IDENTIFIER") or ""
        unit = found.get("UNIT") or found.get("_SYSTEMD_UNIT") or ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    lead = "systemd: " if who == "systemd" else ""
    for part in filter(None, message.split("\n")):
        yield Entry(seconds, re.sub(r"\.service$", "", str(unit)), lead + part)


def text_of(message: Any) -> str:
    """A message as text; systemd writes one that is no UTF-8 as the numbers of its bytes (journal export formats)."""
    return bytes(message).decode(errors="replace") if isinstance(message, list) else str(message or "")
