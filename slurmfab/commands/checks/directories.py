"""The directories of Slurm's daemons on a host, and slurmctld's state in one: whose they are, and who can use them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping

from slurmfab.base.paths import FORMER_SPOOL, SLURM_HOME, SLURM_LOGS, SLURM_SPOOL
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.daemons import start_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.core.plan.directories import logs_owner
from slurmfab.on_hosts.agent.identities.ways import parents
from slurmfab.on_hosts.agent.munge import directories as munge_directories
from slurmfab.on_hosts.agent.services import slurmctld_state
from slurmfab.on_hosts.agent.services.daemon_log import stamp
from slurmfab.on_hosts.agent.services.slurmctld_state import LOADED, LOG_PATTERN, STARTED
from slurmfab.on_hosts.agent.slurm.state_versions import HEADER_BYTES, refusal, written_by

ABSENT = " - No such file or directory"  # what namei(1) shows behind a name that does not exist

ACCESS_LIST = "+"
"""The end of the mode of a directory with an access control list (acl(5)), which may let further users pass."""

OUR_SPOOLS = (SLURM_SPOOL, FORMER_SPOOL)
"""slurmd's directory where slurmfab has it, and where it is in clusters that had it there before."""

LINK = "leads through a symbolic link"

MUNGE_DIRECTORIES = tuple(directory for directory in munge_directories.MODES if directory != munge_directories.SOCKETS)
"""Directories of munged that are there whether it runs or not."""

STICKY, ROOTS_DIRECTORY = re.compile(r"d.{8}[tT]"), re.compile(r"d\S* root ")
"""A mode, and a line of namei(1)."""

_WRITABLE = (5, 8)  # indices in a mode such as `drwxr-xr-x` that tell whether the group and others may write

SHOWN = 3  # how many files a message names

AS_SLURM = "setpriv --reuid={user} --regid=$(id -g {user}) --clear-groups"
"""Runs a program with the rights that slurmctld has; unlike runuser(1) it asks no PAM."""

CLOSED = (
    r"! -type l \( ! -readable -o ! -writable ! \( -type f -user {user} ! -perm -u=w \) -o -type d ! -executable \)"
)
"""A test of find(1) for what slurmctld cannot use; it may have files, such as keys, that it cannot write."""

NOT_STATE = " -o ".join(
    f"-name '{name}'"
    for name in (".?*", "lost+found", "cred_state*", "job[0-9]*", "*_[0-9]*.[0-9]*", "hwloc_topo*", "conf-cache",
                 "*.log*", "*.pid")
)  # fmt: skip
"""Tests of find(1) for what is not slurmctld's in its directory (`slurmctld_state.IGNORED`)."""

LOG_BYTES = 4 << 20  # size of the part at the end of slurmctld's log that is searched

UNSAVED = "Can't save state|error (writing|on) .* state save file|Error (creating|writing) file"
"""slurmctld's errors when it cannot save its state, as a regular expression, also of grep -E."""

TELLING = f"{STARTED}|{LOADED}|{LOG_PATTERN}|{UNSAVED}"

FILE = re.compile(r"(/[^\s:,]+?)(?:\.new)?(?=[\s:,]|$)")
"""The file in such a line; slurmctld writes a new one beside it first."""


def owners(cluster: Cluster, host: str, spool: str = SLURM_SPOOL) -> dict[str, str]:
    """The directories of a host's daemons (`spool`: slurmd's), each with its user; the site's have any owner."""
    roles = cluster.roles(host)
    return {
        SLURM_LOGS: logs_owner(cluster, host),
        **({SLURM_HOME: "slurm"} if cluster.slurm_ssh.logins != "none" else {}),
        **dict.fromkeys(MUNGE_DIRECTORIES, "munge"),
        **({cluster.state_directory: cluster.slurm_user} if "controller" in roles else {}),
        **({spool: "root"} if "compute" in roles and spool in OUR_SPOOLS else {}),
    }


def wrong_directories(host: CheckedHost, wanted: Mapping[str, str]) -> list[str]:
    """What is wrong with directories of a host, one sentence for each. `wanted`: owner by path."""
    ways = ways_to(host, wanted)
    return [wrong for path, owner in wanted.items() if (wrong := wrong_way(path, ways.get(path, []), owner))]


def ways_to(host: CheckedHost, paths: Iterable[str]) -> dict[str, list[str]]:
    """The names on the way to each path, as namei(1) shows them: `MODE OWNER GROUP NAME`; empty without namei."""
    shown = str(host.run(f"LC_ALL=C namei -l -- {' '.join(map(shlex.quote, paths))}").stdout)
    found = (block.partition("\n") for block in shown.removeprefix("f: ").split("\nf: "))
    return {path: text.splitlines() for path, _, text in found}


def replaceable(host: CheckedHost, paths: Mapping[str, str]) -> list[str]:
    """A sentence for each path of a daemon of root's (by name, such as `SlurmdLogFile`) that others can replace."""
    ways = ways_to(host, paths)
    return [f"{what} {path} {who}" for path, what in paths.items() if (who := changer(ways.get(path, []), path))]


def changer(lines: list[str], path: str) -> str:
    """Who can change a name on the way to a path, as the end of a sentence; empty if only root can.

    `lines`: the names on the way to it, from `ways_to`; behind a link, those on the way to its target.
    """
    for line, after in zip(lines, (*lines[1:], ""), strict=False):
        mode, user, _, name = (*line.split(maxsplit=3), "", "", "", "")[:4]
        # In a sticky directory, as /var/log is on Ubuntu, only root renames root's directory. A log itself others could
        # make there, so that is not enough where the next name is no directory.
        if user == "root" and STICKY.match(mode) and ROOTS_DIRECTORY.match(after):
            continue
        where, is_itself = place(name, path), place(name, path) == path
        if mode.startswith(("d", "l")) and user not in ("root", "") and not line.endswith(ABSENT):
            if mode.startswith("l"):
                return f"{LINK} of {user}, {name}"
            return f"is {user}'s" if is_itself else f"is in {where}, which is {user}'s"
        if mode.startswith("d") and any(mode[index] == "w" for index in _WRITABLE):
            it = "is a directory" if is_itself else f"is in {where},"
            return f"{it} in which others than root may write ({mode})"
    return ""


def place(name: str, path: str) -> str:
    """The path of a name on the way to a path; the name alone if a link leads elsewhere."""
    whole, found, _ = f"{path}/".partition(f"/{name}/")
    return f"{whole}/{name}" if found else name


def wrong_way(path: str, lines: list[str], owner: str) -> str:
    """What is wrong with the way to a directory; empty if nothing is, or if namei(1) is not there.

    `lines`: the names on the way as namei(1) shows them with `-l`, `MODE OWNER GROUP NAME`, with the names on the way
    of each link below it. `owner`: the user that it has to belong to.
    """
    others = ""
    last = ""
    for line in lines:
        mode, _, rest = line.partition(" ")
        fields = rest.split()
        if line.endswith(ABSENT):
            return f"there is no {path}"
        if not mode or len(fields) < 3:
            return ""
        last, name = fields[0], " ".join(fields[2:])
        if mode.startswith("l") and (others or last != "root"):
            changed = others if last == "root" else last
            return f"{path} {LINK} of {last}, {name}, which {changed} can change"
        if last != "root":
            others = others or last
        elif any(mode[index] == "w" for index in _WRITABLE) and not mode.endswith(("t", "T")):
            others = others or "others than root"
    if lines and last != owner:
        return f"{path} belongs to {last}, not to {owner}"
    return wrong_mode(path, [tuple(line.split()[:3]) for line in lines], owner)


def wrong_mode(path: str, way: list[tuple[str, ...]], owner: str) -> str:
    """Whom a directory, or one above it, by its way from the top, keeps out or lets write; empty if right."""
    above = [*parents(path), path]
    is_linked = len(way) != len(above)
    for name, (mode, user, group) in zip(above[:-1], way, strict=False) if not is_linked else ():
        place = 3 if user == owner else 6 if group == owner else 9
        if owner != "root" and mode[place] not in "xst" and not mode.endswith(ACCESS_LIST):
            return f"{owner} cannot pass {name} ({mode} of {user}:{group})"
    mode = way[-1][0] if way else ""
    if any(mode[index : index + 1] == "w" for index in _WRITABLE):
        return f"others than {owner} may write to {path} ({mode})"
    if path in OUR_SPOOLS and mode and mode[9] not in "xt":
        return f"jobs cannot read their scripts in {path} ({mode})"
    return ""


def unusable_state(host: CheckedHost, directory: str, user: str) -> list[str]:
    """What of slurmctld's state the slurm user cannot read and write, with owner and mode; the first few."""
    place, as_slurm, closed = shlex.quote(directory), AS_SLURM.format(user=user), CLOSED.format(user=user)
    command = (
        f"test ! -e {place} || {{ cd / && {as_slurm} find {place} \\( {NOT_STATE} \\) -prune -o "
        f"{closed} -printf '%p (of %u, mode %m)\\n' 2>&1 | head -n {SHOWN}; }}"
    )
    lines = host.run(command).stdout.splitlines()
    # find(1) also complains of each directory that it cannot list, which is one of the found ones but for those above.
    return [line for line in lines if not line.startswith("find: ")] or lines


def refused_state(host: CheckedHost, directory: str) -> str:
    """Why the installed Slurm cannot read slurmctld's state, and the way out; empty if it can."""
    file = shlex.quote(f"{directory}/job_state")
    shown = host.run(f"slurmctld -V; od -An -v -tx1 -N {HEADER_BYTES} {file} 2>/dev/null").stdout
    version, _, digits = str(shown).partition("\n")
    try:
        header = bytes.fromhex(digits)
    except ValueError:
        return ""
    return refusal(directory, written_by(header), version.rpartition(" ")[2])


def told_of_state(host: CheckedHost) -> str:
    """What slurmctld's log tells of its state since its process began; empty if it does not run."""
    begun = start_of(host, "slurmctld")
    if begun is None:
        return ""
    log = f"{SLURM_LOGS}/slurmctld.log"
    command = (
        f"date --date=@{math.floor(begun)} '+%F %T'; tail -c {LOG_BYTES} {log} 2>/dev/null "
        f"| grep -E {shlex.quote(TELLING)} | tail -n 1000"
    )
    since, *lines = str(host.as_found.run(command).stdout).splitlines() or [""]
    return "\n".join(line for line in lines if stamp(line) >= since)


def unread_state(host: CheckedHost) -> str:
    """The line of slurmctld's log about state that it could not read at its start; empty if there is none."""
    return slurmctld_state.unread_state(told_of_state(host))


def unsaved_state(host: CheckedHost, directory: str) -> str:
    """The line of slurmctld's log that tells of a part of its state that it has not saved; empty once it has."""
    lines = slurmctld_state.since_loading(told_of_state(host))
    failed = [line for line in lines if re.search(UNSAVED, line)]
    if not failed:
        return ""
    times = host.run(f"cd / && stat --format='%y %n' {shlex.quote(directory)}/* 2>/dev/null")
    saved = {path: when[:19] for when, path in (row.rsplit(" ", 1) for row in str(times.stdout).splitlines())}
    return next((line.strip() for line in reversed(failed) if is_unsaved(line, saved, directory)), "")


def is_unsaved(line: str, saved: dict[str, str], directory: str) -> bool:
    """Whether the file that slurmctld could not save has not been saved since.

    Args:
        line: of slurmctld's log; one that names no file is about the jobs.
        saved: when each file of the state was written, such as `2026-01-31 12:00:00`, by path.
    """
    named = FILE.search(line)
    path = named[1] if named else f"{directory}/job_state"
    return path.startswith(f"{directory}/") and saved.get(path, "") < stamp(line)
