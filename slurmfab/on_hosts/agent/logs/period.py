"""The lines of a host's logs from a period, bounded in bytes, lines and time, without secrets."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, BinaryIO, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core import differences
from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_file
from slurmfab.on_hosts.agent.logs import line_times
from slurmfab.on_hosts.agent.logs.secret_detectors import without_secrets
from slurmfab.on_hosts.agent.services.daemon_log import log_file

PART_BYTES = 16 << 20  # the most bytes that are read of one file; of a larger part the end
NEAR_BYTES = 4096  # how near to a time the search in a file ends
LOOK_BYTES = 65536  # how far a line with a time is looked for; longer than any line of Slurm's


class Part(NamedTuple):
    """A part of a file."""

    text: str = ""  # whole lines; the first and the last ones may be of shortly before or after the period
    reaches_back: bool = False  # whether the period may have begun before this file
    is_cut: bool = False  # whether the period has more lines before these


def read_part(path: str, since: float, until: float, most: int = PART_BYTES) -> Optional[Part]:
    """The lines of a log file from a period; `None` if there is no such file.

    `most`: how many bytes are read at most. Raises ResourceFailed if it is no regular file, or may be a hard link to
    another file; or on the way there is a link that somebody else than root can change. Raises OSError if it cannot be
    read.
    """
    opened = open_file(path)
    if opened is None:
        return None
    descriptor, others = opened
    with open(descriptor, "rb") as file:
        if others and os.fstat(descriptor).st_nlink > 1:
            raise UnsafePath("%s has another name, which %s may have made; it is not read" % (path, others))
        size = file.seek(0, 2)
        first, last = search(file, size, since)[0], min(size, search(file, size, until)[1] + LOOK_BYTES)
        start = max(first, last - most)
        file.seek(start)
        data = file.read(last - start)
    if start > first:
        data = data.partition(b"\n")[2]
    return Part(data.decode(errors="replace"), first == 0, start > first)


def search(file: BinaryIO, size: int, wanted: float) -> Tuple[int, int]:
    """Two places in a log of increasing times: lines before the first are older, after the second are not."""
    low, high = 0, size
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        found = next_time(file, middle)
        if found is not None and found[1] < wanted:
            low = max(found[0], middle)
        else:
            high = middle
    return low, high


def next_time(file: BinaryIO, place: int) -> Optional[Tuple[int, float]]:
    """The first line with a time that begins behind a place: where it begins, and the time; `None` if none is near."""
    file.seek(place)
    lines: List[bytes] = file.read(LOOK_BYTES).split(b"\n")
    at = place
    for number, line in enumerate(lines):
        found = line_times.begin(line[:64].decode("ascii", "replace"))[0] if number else None
        if found is not None:
            return at, found
        at += len(line) + 1
    return None


MOST_BYTES = 8 << 20  # how much of journalctl's output is read: the end

MOST_LINES = 20000
JOURNAL_SECONDS = 20.0
FIELDS = "MESSAGE,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER"
OF_KERNEL = ("_TRANSPORT=kernel",)


class Entry(NamedTuple):
    """One line of the journal."""

    time: float  # in seconds since 1970
    unit: str  # that it is from or about, without `.service`; empty for the kernel's
    text: str  # the message; what systemd says about a unit begins with `systemd: `


def read_journal(context: Context, matches: Sequence[str], since: float, until: float) -> List[Entry]:
    """The last lines of a period by journalctl's arguments; ResourceFailed if it is missing or slow."""
    argv = ["journalctl", *matches, "--since=@%.6f" % since, "--until=@%.6f" % until, "--lines=%d" % MOST_LINES,
            "--output=json", "--output-fields=" + FIELDS, "--no-pager", "--quiet"]  # fmt: skip
    # The agent would keep all of the output in memory; tail(1) keeps its end.
    command = ["sh", "-c", '"$@" 2>/dev/null | tail -c %d' % MOST_BYTES, "sh", *argv]
    shown = context.run(command, seconds=JOURNAL_SECONDS).stdout.decode(errors="replace")
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


SOURCES = ("slurmctld", "slurmdbd", "slurmd", "munge", "kernel")  # the daemons by their units, and the kernel
SECONDS = 60.0  # after this time no further file or journal is read
MOST_CHARACTERS = 1000  # of a line; longer ones lose their end

PREFIX = re.compile(r"^(?:slurm\w+|munged): +")
"""What a daemon's line in the journal begins with, and its line in the file does not."""

Keep = Callable[[str, str], bool]  # whether a line is kept, given its source and its text


class LogLine(NamedTuple):
    """A line of a log."""

    time: float  # in seconds since 1970, by the host's clock
    source: str  # one of `SOURCES`
    text: str  # without its time; one line of printable text


class Gathered(NamedTuple):
    """The lines of a period."""

    lines: List[LogLine]  # in the order of their times
    notes: List[str]  # what could not be read, or not all of it, one sentence each without a full stop


def gather(
    context: Context,
    since: float,
    until: float,
    sources: Sequence[str] = SOURCES,
    keep: Keep = lambda source, text: True,  # noqa: ARG005
) -> Gathered:
    """Read those lines of a period that `keep` takes from Slurm's log files and journal, of `SOURCES`."""
    lines: List[LogLine] = []
    notes: List[str] = []
    deadline = time.monotonic() + SECONDS
    for source in sources:
        if time.monotonic() > deadline:
            notes.append("reading the logs took longer than %.0f s, so %s was left out" % (SECONDS, source))
        elif source != "kernel":
            lines += [one for one in of_files(context, source, since, until, notes) if keep(source, one.text)]
    journal = of_journal(context, sources, since, until, notes) if time.monotonic() <= deadline else []
    written = {(one.source, one.text, round(one.time) + shift) for one in lines for shift in (-1, 0, 1)}
    lines += [
        one for one in journal if keep(one.source, one.text) and (one.source, one.text, round(one.time)) not in written
    ]
    return Gathered(sorted(lines, key=lambda one: one.time), notes)


def of_files(context: Context, source: str, since: float, until: float, notes: List[str]) -> Iterator[LogLine]:
    """The lines of a daemon's log file, and of the one before it where the period began earlier."""
    path = log_file(context, source)
    if not path.startswith("/"):
        return
    now = part_of(context, path, since, until, notes)
    before = part_of(context, path + ".1", since, until, notes) if now.reaches_back else Part()
    for name, part in ((path + ".1", before), (path, now)):
        if part.is_cut:
            notes.append("of %s only the last %d MiB of the period were read" % (name, len(part.text) >> 20))
        yield from timed(source, part.text, since, until)


def part_of(context: Context, path: str, since: float, until: float, notes: List[str]) -> Part:
    """The part of a file from a period; an empty one where there is no file, or where it cannot be read."""
    try:
        return read_part(context.path(path), since, until) or Part(reaches_back=True)
    except (ResourceFailed, OSError) as error:
        notes.append(one_line(reason(error)).rstrip("."))
        return Part()


def timed(source: str, text: str, since: float, until: float) -> Iterator[LogLine]:
    """The lines of a text that are of a period; a line without a time has that of the line before it."""
    last = 0.0
    for line in text.split("\n"):
        found, rest = line_times.begin(line)
        last = last if found is None else found
        if rest.strip() and since <= last <= until:
            yield LogLine(last, source, printable_line(rest))


def of_journal(context: Context, sources: Sequence[str], since: float, until: float, notes: List[str]) -> List[LogLine]:
    """The lines of the journal, those of daemons and of the kernel."""
    units = [source for source in sources if source != "kernel"]
    asked: List[Tuple[Sequence[str], Callable[[str], str]]] = []
    if units:
        asked.append((["--unit=" + unit for unit in units], lambda unit: unit if unit in units else ""))
    if "kernel" in sources:
        asked.append((OF_KERNEL, lambda _: "kernel"))
    lines: List[LogLine] = []
    for matches, source_of in asked:
        try:
            entries = read_journal(context, matches, since, until)
        except ResourceFailed as error:
            notes.append("the journal was not read: %s" % error)
            continue
        if len(entries) >= MOST_LINES:
            notes.append("of the journal only the last %d lines of the period were read" % MOST_LINES)
        for entry in entries:
            source, text = source_of(entry.unit), entry.text
            if source and source != "kernel":  # with --systemd a daemon writes its file's times into the journal, too
                text = line_times.begin(PREFIX.sub("", text))[1]
            lines += [LogLine(entry.time, source, printable_line(PREFIX.sub("", text)))] if source else []
    return lines


def printable_line(text: str) -> str:
    """A line as it is shown: printable, without secrets, of bounded length."""
    text = without_secrets(one_line(text[: 2 * MOST_CHARACTERS]))
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def one_line(text: str) -> str:
    """A text with single spaces, and with escapes in the place of what is not printable."""
    words = " ".join(text.split())
    return words if words.isprintable() else differences.one_line(words)
