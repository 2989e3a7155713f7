"""Programs that hosts have told of, on a twin: stand-ins that succeed and note that they were called; pure functions.

Programs, scripts of Lua and lines of systemd units run with `--with-programs` alone, after their text was shown.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.commands.import_cluster.found import FoundFile

NOTE = "slurmfab-stand-in"  # as what stand-ins write to the journal
CALLS = f"journalctl --quiet --output=cat --identifier={NOTE}"  # prints which stand-ins were called, one a line
LOG = "/usr/bin/logger"

STAND_IN = f'#!/bin/sh\n[ ! -x {LOG} ] || {LOG} -t {NOTE} -- "$0"\nexit 0\n'
FUNCTIONS = (
    "slurm_job_submit", "slurm_job_modify", "slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit",
    "slurm_jobcomp_log_record", "slurm_bb_job_process", "slurm_bb_pools", "slurm_bb_job_teardown", "slurm_bb_setup",
    "slurm_bb_data_in", "slurm_bb_test_data_in", "slurm_bb_real_size", "slurm_bb_paths", "slurm_bb_pre_run",
    "slurm_bb_post_run", "slurm_bb_test_post_run", "slurm_bb_data_out", "slurm_bb_test_data_out", "slurm_bb_get_status",
)  # fmt: skip
"""What Slurm calls in scripts of Lua, whatever their plugin."""

LUA = "".join(
    f"function {name}() os.execute('{LOG} -t {NOTE} {name} 2>/dev/null') return 0 end\n" for name in FUNCTIONS
)
"""A script of Lua that does nothing, in place of one of the site's."""

UNIT = re.compile(r"/(?:etc|run)/systemd/system(?:\.control)?/(?:slurm\w*|munge)\.service(?:\.d/[\w.-]+\.conf)?")
"""The paths of a site's files about Slurm's units."""

OF_SLURM = ("etc", "home", "var")  # directories in which one of Slurm's own may be, such as /etc/slurm
ELSEWHERE = (*OF_SLURM, "bin", "boot", "dev", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "tmp",
             "usr")  # fmt: skip
"""Directories of the distribution and of users, in which a file that nobody thought of has a meaning of its own."""

OF_SITE = [["usr", "local", name] for name in ("bin", "etc", "libexec", "sbin")]
"""Directories of the site's in which programs of Slurm's configuration are, which a twin has as stand-ins."""

_OPTION = (
    r"(?:-[DFbcirsv]+|-R|--systemd|--foreground|--force|--syslog|--num-threads[= ]\d+|-n ?-?\d+|-N ?[\w.-]+"
    r"|--conf-server[= ][\w.:,-]+|\$\{?(?:SLURM(?:D|CTLD|DBD)_)?OPTIONS\}?)"
)
"""An option of a daemon that names neither a file to read nor one to write."""

_UNITS = r"(?:[\w.-]+\.(?:service|target|mount|socket)(?: |$))*"
_PLAIN = r"[\w ./:,()@=+%-]*"

LINES = {
    r"After|Before|Wants|Requires|Requisite|BindsTo|PartOf": _UNITS,
    r"Description|Documentation|RequiresMountsFor|Condition\w+": _PLAIN,
    r"WantedBy": r"multi-user\.target",
    r"Type|PIDFile|User|Group|UMask|Nice|Restart|RestartSec|Timeout(?:Start|Stop|Abort)?Sec|Slice|Delegate|KillMode"
    r"|StartLimit(?:Burst|Interval|IntervalSec)|Limit[A-Z]+|Tasks\w+|Memory\w+|CPU\w+|IO\w+|OOM\w+"
    r"|(?:Runtime|State|Logs)Directory(?:Mode)?": _PLAIN,
    r"Environment": rf"(?:SLURM(?:D|CTLD|DBD)_OPTIONS={_OPTION}"
    rf"|\"SLURM(?:D|CTLD|DBD)_OPTIONS={_OPTION}(?: {_OPTION})*\")?",
    r"EnvironmentFile": r"(?:-?/etc/(?:default|sysconfig)/(?:slurm\w*|munge))?",
    r"ExecStart": rf"(?:/usr/sbin/(?:slurm(?:d|ctld|dbd)|munged)(?: +{_OPTION})*)?",
    r"ExecReload": r"(?:/bin/kill -HUP \$MAINPID)?",
    r"Exec\w+": r"",
}
"""What a twin keeps of a unit: keys, and their values, which run nothing but Slurm's own daemons."""

_SECTION = re.compile(r"\[(?:Unit|Service|Install)\]")
_LINE = re.compile("|".join(f"(?:(?:{key}) *= *(?:{value}))" for key, value in LINES.items()), re.ASCII)
_UNCLEAR = re.compile(r"[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f]|\\[ \t]*$", re.MULTILINE)
"""What systemd and this program might read as other lines: control characters, and lines that go on."""


CONFIGURATION = (".conf", ".yaml", ".key")  # how the names of files end that are no programs, whatever is in them


def names(file: FoundFile) -> tuple[str, ...]:
    """The paths of a file: its own, and where it leads as a link."""
    return (file.path, file.link) if file.link else (file.path,)


def is_script(file: FoundFile) -> bool:
    """Whether a file is a script of Lua."""
    return any(name.endswith(".lua") for name in names(file))


def is_unit(file: FoundFile) -> bool:
    """Whether a file is about a unit of systemd."""
    return any(map(UNIT.fullmatch, names(file)))


def is_program(file: FoundFile) -> bool:
    """Whether a file is a program or a script, and no configuration."""
    if all(name.endswith(CONFIGURATION) for name in names(file)):
        return False
    return is_script(file) or bool(file.mode & 0o111) or file.text.startswith("#!")


def is_plain(path: str) -> bool:
    """Whether a path is one from the root on that leads nowhere but where it says, and can be printed."""
    return path == posixpath.normpath(path) and path.startswith("/") and path.isprintable()


def require_possible(host: str, file: FoundFile) -> None:
    """Refuse, by InputError, a file of which a host tells, and that is none of Slurm's: by its place, or no text.

    In directories of programs of the site are stand-ins and configuration alone: others would run what is there.
    """
    for path in names(file):
        parts = path.partition("/")[2].split("/")
        of_slurm = any(part.startswith("slurm") for part in parts[1:-1]) and "systemd" not in parts
        is_there = of_slurm if parts[0] in OF_SLURM else not is_elsewhere(parts[0])
        if parts[:3] in OF_SITE:
            is_there = parts[2] == "etc" or is_program(file)
        is_there = is_there and not any(part.startswith(".") for part in parts)
        if not is_plain(path) or not (UNIT.fullmatch(path) or is_there) or "\0" in file.text:
            raise InputError(
                f"The import cannot be rehearsed: {host} tells of {path!a} as a file of Slurm's. A twin has such files "
                "as texts, in directories of Slurm's own, such as /etc/slurm. Nothing was started."
            )


def is_elsewhere(top: str) -> bool:
    """Whether a directory right below the root is one of the distribution's or of users."""
    return top in ELSEWHERE or top.startswith("lib")


def require_log(host: str, path: str) -> None:
    """Refuse, by InputError, a place for a twin's daemons to write to where others would run what they write."""
    parts = path.partition("/")[2].split("/")
    is_hidden = any(part.startswith(".") for part in parts)
    of_slurm = parts[0] == "var" and any(part.startswith("slurm") for part in parts)
    is_there = path.startswith(("/var/log/", "/var/run/", "/run/")) or of_slurm or not is_elsewhere(parts[0])
    if is_hidden or not (is_plain(path) and is_there):
        raise InputError(
            f"The import cannot be rehearsed: a daemon of {host} writes to {path!a}. On a twin, daemons write to "
            "/var/log, /run and directories of Slurm's own in /var. Nothing was started."
        )


def harmless(file: FoundFile) -> FoundFile:
    """A file as a twin has it that runs nothing of its host's: a stand-in, or a unit without lines of its own."""
    if is_script(file):
        return replace(file, text=LUA)
    if is_unit(file):
        return replace(file, text="".join(f"{line}\n" for line in kept(file.text)))
    return replace(file, text=STAND_IN) if is_program(file) else file


def kept(unit: str) -> Iterator[str]:
    """Yield lines for a unit that run nothing but Slurm's daemons: none of a unit whose lines may be read otherwise."""
    if _UNCLEAR.search(unit):
        return
    lines = [re.sub(r"[ \t]*=[ \t]*", "=", line.strip(" \t"), count=1) for line in unit.split("\n")]
    lines = [line for line in lines if _SECTION.fullmatch(line) or _LINE.fullmatch(line)]
    starts = any(re.match(r"ExecStart=\S", line) for line in lines)
    yield from (line for line in lines if starts or not line.startswith("ExecStart="))  # the package's line stays


def shown(files: Iterable[tuple[str, FoundFile]]) -> str:
    """All texts of hosts that a twin gets, as a text for people; empty if none of them is a program's or a unit's.

    A program may read any of them as a script, whatever its name. Their lines are indented, and headings alone are not.
    """
    by_text: dict[tuple[str, str], list[str]] = {}
    runs = False
    for host, file in files:
        runs = runs or harmless(file).text != file.text
        path = f"{file.path} -> {file.link}" if file.link else file.path
        by_text.setdefault((path, file.text), []).append(host)
    if not runs:
        return ""
    every = [(path, fold(hosts), text.rstrip()) for (path, text), hosts in sorted(by_text.items())]
    return "\n".join(f"--- {path} of {hosts}:\n{indent(text, '    ')}\n" for path, hosts, text in every)


def indent(text: str, by: str) -> str:
    """A text whose every line, also what a terminal takes for one, is indented."""
    return "\n".join(f"{by}{line}" for line in text.splitlines())


def left_out(files: Iterable[tuple[str, FoundFile]]) -> tuple[str, ...]:
    """What the rehearsal cannot tell because these files are not on the twin as they are on their hosts."""
    names = sorted({file.path for _, file in files if harmless(file).text != file.text})
    return (f"what programs and units of the site do (--with-programs): {', '.join(names)}",) if names else ()


def told(calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """What to tell of the stand-ins that were called, each with its host."""
    counts, hosts = Counter(name for _, name in calls), dict[str, dict[str, None]]()
    for host, name in calls:
        hosts.setdefault(name, {})[host] = None
    if not counts:
        return ()
    named = ", ".join(f"{name} ({count} times, on {fold(hosts[name])})" for name, count in sorted(counts.items()))
    return (f"Programs of the cluster did nothing on the twin, and were called: {named}. See --with-programs.",)
