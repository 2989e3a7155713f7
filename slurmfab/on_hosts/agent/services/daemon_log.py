"""What a daemon itself wrote about its end since its start, and what a site has changed of its unit."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.core.host_paths import OUR_DROP_INS
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import read_end
from slurmfab.on_hosts.agent.services.sockets import holders

STARTS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    (r"error:\s+mpi/pmix_v\d+: init: .* can not load PMIx library$", ("22.05",)),
    (r"error: Couldn't load specified plugin name for mpi/pmix\w*: Plugin init\(\) callback failed$", ("22.05",)),
    (r"error: MPI: Cannot create context for mpi/pmix\w*$", ("22.05",)),
    (r"error: WARNING: Even though we are collecting accounting information you have asked for it not", ("22.05",)),
    (r"warning: Even though we are collecting accounting information you have asked for it not", ("24.11",)),
    (r"error: Job accounting information gathered, but not stored$", ("22.05", "24.11")),
    (r"error: High latency for \d+ calls to gettimeofday\(\): \d+ microseconds$", ("22.05",)),
    (r"Not running as root\. Can't drop supplementary groups$", ("22.05", "24.11")),
    (r"error: We can't find assoc \d+ on cluster \S+$", ("24.11",)),
    (r"error: No clusters defined\?  How could there be accts\?$", ("22.05",)),
    (
        r"error: _conn_readable: persistent connection for fd \d+ experienced error\[104\]: Connection reset by",
        ("22.05",),
    ),
)
"""Patterns of lines without times, with the releases of Slurm in which lab hosts wrote them in a healthy start."""

WITHOUT_STATE = (
    (r"error: Could not open [a-z ]*state (?:save )?file \S+: No such file or directory$", ("22.05", "24.11")),
    (r"error: NOTE: Trying backup state save file\. ", ("22.05", "24.11")),
)
"""Likewise of a first start, which finds no state; in a later one, the state is lost."""

BESIDES = (
    (r"error: Detected \d+ oom[-_]kill event(?:\(s\))? in StepId=", ("22.05", "24.11")),
    (r"stepd_cleanup: done with step \(", ("24.11",)),
    (r"error: slurm_send_node_msg: .*\(msg_type=SRUN_\w+\) failed: Connection reset by peer", ("24.11",)),
    (r"error: (?:slurm|service)_\w+.*: Zero Bytes were transmitted or received", ("22.05", "24.11")),
)
"""Likewise of daemons that are well: a job has exceeded its memory, srun has ended before it is told that its job has,
and somebody has tried its port, as checks do."""

HEALTHY = (*STARTS, *WITHOUT_STATE, *BESIDES)
"""The starts were the first one, which finds no state, and later ones, with and without a database, and without the
library of PMIx, on a busy machine too (latency). Four are slurmdbd's, some of them when a command of Slurm's has got
its answer and ends. Slurm 26.05 wrote no error. Each pattern counts for every release: in none does such a line end a
daemon."""

LINE = re.compile("|".join(pattern for pattern, _ in HEALTHY))


def is_healthy(line: str) -> bool:
    """Whether daemons write such a line when they start well, too. `line`: without its time and the daemon's name."""
    return bool(LINE.match(line))


def normal_at(line: str) -> str:
    """At which start a daemon that is well writes such a line: `a start` or `the first start`; empty for neither."""
    tables = {"a start": STARTS, "the first start": WITHOUT_STATE}
    return next((when for when, table in tables.items() if any(re.match(one, line) for one, _ in table)), "")


QUESTION = ("systemctl", "show", "--property=FragmentPath,DropInPaths")
PACKAGED = ("/usr/lib/", "/lib/", "/run/systemd/generator")
"""Where packages have units, and generators of the system write theirs."""

SETTING = re.compile(r"^\s*([A-Z]\w*)\s*=\s*(.*?)\s*$", re.MULTILINE)
SECRET = re.compile(r"Environment|Credential|^Exec|Description|Documentation")
"""Settings whose values are left out, because they may hold a secret, or say nothing."""

MOST_FILES, MOST_SETTINGS, MOST_CHARACTERS = 3, 6, 80


def change_sentences(context: Context, unit: str) -> List[str]:
    """Sentences that name the changes of a unit with their settings; empty if it is as its package has it."""
    shown = context.run([*QUESTION, unit]).stdout.decode(errors="replace")
    return sentences(shown, lambda path: read_text(context.path(path)))


def sentences(shown: str, read: Callable[[str], str]) -> List[str]:
    """The sentences of `change_sentences`. `shown`: the output of `QUESTION` about a unit."""
    values: Dict[str, str] = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    own = values.get("FragmentPath", "")
    hiding = "its unit is %s, which hides the package's; to do without it: mv %s /root/ && systemctl daemon-reload"
    lines = [hiding % (own, own)] if own and not own.startswith(PACKAGED) else []
    drop_ins = [path for path in values.get("DropInPaths", "").split() if is_sites(path)]
    return lines + ["changed by %s%s" % (path, settings(read(path))) for path in drop_ins[:MOST_FILES]]


def is_sites(path: str) -> bool:
    """Whether a drop-in is neither a package's nor slurmfab's."""
    return not path.startswith(PACKAGED) and not os.path.basename(path).startswith(OUR_DROP_INS)


def settings(text: str) -> str:
    """The settings of a drop-in, such as ` (User=nobody, ExecStart)`."""
    found = SETTING.findall(text)[:MOST_SETTINGS]
    words = [key if SECRET.search(key) else "%s=%s" % (key, value[:MOST_CHARACTERS]) for key, value in found]
    return " (%s)" % ", ".join(dict.fromkeys(words)) if words else ""


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

LOG_BYTES = 1 << 20  # the size of the part of a daemon's log that is searched for errors

JOURNAL_LINES = "200"

MOST = 3  # how many lines are reported

ERROR = re.compile(r"\b(?:fatal|error)\b", re.IGNORECASE)
REFUSED = re.compile(r"\b(?:unable to|cannot|can't|could not|failed|denied)\b", re.IGNORECASE)
"""How lines of trouble read that no level marks, such as slurmd's about a log that it cannot open."""

PASSING = re.compile(
    r"[Cc]onnect|PersistInit|persist_conn|not respond|slurm_(?:send|receive|msg|unpack)|Failure sending|agent"
    r"|[Nn]odes? \S+ |JobId|StepId|fed_mgr|default partition not set|pam_slurm_adopt|slurmdbd|slurm_rpc"
)
"""What slurmctld logs as an error about other hosts and jobs, or of what sites want, such as no default partition."""

FOLLOWS = re.compile(
    r"error: (?:Couldn't load specified plugin name for .*: Plugin init\(\) callback f|cannot create .* context f)"
)
"""What Slurm writes after the error of a plugin, such as that of slurmdbd's database, and tells no cause."""

TABLES = re.compile(r"mysql_query failed: (?:1050|1146|1194|1195|1813|1932) ")
"""A table that is there for InnoDB alone, is missing, has crashed, or has no file (MariaDB's error codes)."""

PREFIX = re.compile(r"^(?:\d{4}-\d\d-\d\d [\d:]+ \S+\s+|\[[^\]]*\] |slurm\w+: |\(null\): |_\w+: )+")
"""What a line begins with: the time, or the daemon's or the function's name."""

STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
"""The time of a line in Slurm's default format, and in munged's."""


TAKEN = re.compile(r"\((\d+)\): Address already in use")
"""The end of slurmd's line about a port on which another process listens."""


class Position(NamedTuple):
    """How far a daemon's log was written at some time."""

    path: str  # path of the log on this host; empty for none
    size: int  # in bytes
    since: float  # that time, in seconds since 1970


def position(context: Context, unit: str) -> Position:
    """Where a daemon's log ends now."""
    path = log_file(context, unit)
    path = context.path(path) if path else ""
    return Position(path, os.path.getsize(path) if os.path.exists(path) else 0, time.time())


def last_start(context: Context, unit: str) -> Position:
    """Where a daemon's log was at the last start of its unit; at its beginning if systemd knows of none."""
    shown = context.run(["systemctl", "show", "--property=InactiveExitTimestampMonotonic", "--value", unit])
    microseconds = shown.stdout.strip()
    known = microseconds.isdigit() and microseconds != b"0"
    since = time.time() - time.monotonic() + int(microseconds) / 1e6 if known else 0.0
    return Position(position(context, unit).path, 0, since)


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
    """The end of a log that was written since a position. Raises ResourceFailed, OSError if the log cannot be read."""
    now = os.path.getsize(start.path)
    # A log that is smaller now was replaced meanwhile.
    size = start.size if start.size <= now else 0
    new = (read_end(start.path, min(now - size, LOG_BYTES)) or b"").decode(errors="replace")
    begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(start.since))
    return new if size else "\n".join(line for line in new.splitlines() if stamp(line) >= begun)


def stamp(line: str) -> str:
    """When a line was written, such as `2026-01-31 12:00:00`; later than all times where it does not say."""
    found = STAMP.match(line)
    return "%s %s" % found.groups() if found else "~"


def last_words(context: Context, unit: str, start: Position) -> List[str]:
    """What a daemon said of its end since a position, and what else bears on it; what systemd says, if it said nothing.

    `unit`: the daemon's unit. `start`: where its log ended before it was started. Returns at least one line, each once
    and without its time; the last ones name the site's own changes of the unit.
    """
    of_systemd: List[str] = []
    with suppress(ResourceFailed):
        of_systemd += journal(context, "--unit=" + unit, "5", start.since).splitlines()
    said = own_errors(context, unit, start) or list(dict.fromkeys(of_systemd))
    taken = [port for line in said for port in TAKEN.findall(line)]
    return [
        *(said or ["it left no message; see: systemctl status %s" % unit]),
        *advice(said),
        *("%s has port %s" % (process, port) for port in taken[:1] for process in holders(int(port))),
        *change_sentences(context, unit),
    ]


def own_errors(context: Context, unit: str, start: Position) -> List[str]:
    """The errors that a daemon wrote itself since a position; empty if it wrote none."""
    in_file: List[str] = []
    with suppress(OSError, ResourceFailed):
        in_file += written_since(start).splitlines() if start.path else []
    in_journal: List[str] = []
    with suppress(ResourceFailed):
        # Before a daemon knows its log, or where it cannot open it, it writes to the journal alone.
        in_journal += journal(context, "_SYSTEMD_UNIT=%s.service" % unit, JOURNAL_LINES, start.since).splitlines()
    return causes([*in_journal, *in_file])


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """The `errors` that the daemon of the request's `unit` wrote since its start."""
    return {"errors": own_errors(context, request["unit"], last_start(context, request["unit"]))}


def journal(context: Context, match: str, lines: str, since: float = 0.0) -> str:
    """The last lines of a match of journalctl(1) in this boot, since seconds of 1970, or 0 for all."""
    begun = ["--since=@%.3f" % since] if since else []
    argv = ["journalctl", match, "--boot", *begun, "--lines=" + lines, "--output=cat", "--no-pager", "--quiet"]
    if since:
        # journald may be some seconds late where much is written.
        context.run(["journalctl", "--sync"])
    return context.run(argv).stdout.decode(errors="replace").strip()


def complaints(start: Position) -> List[str]:
    """The errors, each once, that a daemon wrote since a position about the files that it reads."""
    try:
        lines = error_lines(written_since(start)) if start.path else []
    except (OSError, ResourceFailed):
        return []
    return list(dict.fromkeys(bare(line) for line in lines if not PASSING.search(line)))[:MOST]


def causes(lines: Sequence[str]) -> List[str]:
    """The last lines of a log that may tell why a daemon ended, those without a level first; or empty."""
    unhealthy = [line for line in whole(lines) if not is_healthy(bare(line))]
    errors = last_errors([line for line in unhealthy if ERROR.search(line)])
    early = [bare(line) for line in unhealthy if REFUSED.search(line) and not ERROR.search(line)]
    return list(dict.fromkeys([*early[:1], *errors])) if errors else list(dict.fromkeys(early))[-MOST:]


def advice(said: Sequence[str]) -> List[str]:
    """What to do about errors which say that tables of slurmdbd's database are gone or damaged."""
    if not any(TABLES.search(line) for line in said):
        return []
    text = (
        "tables of its database are gone or damaged; journalctl -u mariadb says more, and a backup brings them back: %s"
    )
    return [text % (FAB + " restore BACKUP")]


def whole(lines: Sequence[str]) -> List[str]:
    """The lines of a log, with those behind a fatal error in its line, where Slurm writes one over several lines."""
    found: List[str] = []
    for line in lines:
        is_more = found and "fatal: " in found[-1] and not (PREFIX.match(line) or ERROR.search(line))
        if is_more and line.strip():
            found[-1] = "%s %s" % (found[-1].rstrip(), line.strip())
        elif line.strip():
            found.append(line)
    return found


def bare(line: str) -> str:
    """A line without its time."""
    return PREFIX.sub("", line.strip())


def error_lines(log: str) -> List[str]:
    """The lines of a daemon's log that report errors, without those that a healthy start writes, too."""
    return [line for line in log.splitlines() if ERROR.search(line) and not is_healthy(bare(line))]


def last_errors(lines: List[str]) -> List[str]:
    """The last errors of all, up to the last fatal one if there is any, each once and without its time."""
    # One that stands in the journal and in the file counts where it is last, after those that led to it.
    found = list(dict.fromkeys(bare(line) for line in reversed(lines)))[::-1]
    found = [line for line in found if not FOLLOWS.match(line)] or found
    fatal = [number for number, line in enumerate(found, 1) if line.startswith("fatal")]
    return found[: fatal[-1] if fatal else None][-MOST:]
