"""slurmctld's state on a controller: whether the slurm user can use it, and slurmctld has read it and saves it."""

from __future__ import annotations

import math
import re
import shlex

from slurmfab.base.paths import SLURM_LOGS
from slurmfab.commands.checks.daemons import start_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.on_hosts.agent.services import slurmctld_state
from slurmfab.on_hosts.agent.services.daemon_log import stamp
from slurmfab.on_hosts.agent.services.slurmctld_state import LOADED, LOG_PATTERN, STARTED
from slurmfab.on_hosts.agent.slurm.state_versions import HEADER_BYTES, refusal, written_by

SHOWN = 3  # how many files a message names

AS_SLURM = "setpriv --reuid={user} --regid=$(id -g {user}) --clear-groups"
"""Runs a program with the rights that slurmctld has; unlike runuser(1) it asks no PAM."""

CLOSED = (
    r"! -type l \( ! -readable -o ! -writable ! \( -type f -user {user} ! -perm -u=w \) -o -type d ! -executable \)"
)
"""A test of find(1) for what slurmctld cannot use; it may have files, such as keys, that it cannot write."""

LOG_BYTES = 4 << 20  # size of the part at the end of slurmctld's log that is searched

UNSAVED = "Can't save state|error (writing|on) .* state save file|Error (creating|writing) file"
"""slurmctld's errors when it cannot save its state, as a regular expression, also of grep -E."""

TELLING = f"{STARTED}|{LOADED}|{LOG_PATTERN}|{UNSAVED}"
FILE = re.compile(r"(/[^\s:,]+?)(?:\.new)?(?=[\s:,]|$)")
"""The file in such a line; slurmctld writes a new one beside it first."""


def unusable_state(host: CheckedHost, directory: str, user: str) -> list[str]:
    """What of slurmctld's state the slurm user cannot read and write, with owner and mode; the first few."""
    place, as_slurm, closed = shlex.quote(directory), AS_SLURM.format(user=user), CLOSED.format(user=user)
    command = (
        f"test ! -e {place} || {{ cd / && {as_slurm} find {place} \\( -name '.?*' -o -name lost+found \\) -prune -o "
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
