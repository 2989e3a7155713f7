"""The lines of a host's logs from a period, bounded in bytes, lines and time, without secrets."""

from __future__ import annotations

import re
import time
from typing import Callable, Iterator, List, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.logs import journal_lines, line_times
from slurmfab.on_hosts.agent.logs.log_file import Part, read_part
from slurmfab.on_hosts.agent.logs.secret_texts import without_secrets
from slurmfab.on_hosts.agent.services.daemon_log import log_file

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
        asked.append((journal_lines.OF_KERNEL, lambda _: "kernel"))
    lines: List[LogLine] = []
    for matches, source_of in asked:
        try:
            entries = journal_lines.read(context, matches, since, until)
        except ResourceFailed as error:
            notes.append("the journal was not read: %s" % error)
            continue
        if len(entries) >= journal_lines.MOST_LINES:
            notes.append("of the journal only the last %d lines of the period were read" % journal_lines.MOST_LINES)
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
    if words.isprintable():
        return words
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words)
