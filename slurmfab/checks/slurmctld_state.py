"""slurmctld's state on a controller: whether the slurm user can use it, and whether slurmctld has read it."""

from __future__ import annotations

import shlex

from slurmfab.agent.services.slurmctld_state import LOG_PATTERN
from slurmfab.agent.slurm.state_versions import HEADER_BYTES, refusal, written_by
from slurmfab.checks.hosts import CheckedHost
from slurmfab.paths import SLURM_LOGS

SHOWN = 3
"""How many files a message names."""

AS_SLURM = "setpriv --reuid=slurm --regid=slurm --clear-groups"
"""Runs a program with the rights that slurmctld has; unlike runuser(1) it asks no PAM."""

CLOSED = r"! -type l \( ! -readable -o ! -writable ! \( -type f -user slurm ! -perm -u=w \) -o -type d ! -executable \)"
"""A test of find(1) for what slurmctld cannot use; it may have files, such as keys, that it cannot write."""

LOG_BYTES = 4 << 20
"""Size of the part at the end of slurmctld's log that is searched."""


def unusable_state(host: CheckedHost, directory: str) -> list[str]:
    """What of slurmctld's state the slurm user cannot read and write, with owner and mode; the first few.

    Args:
        host: a controller.
        directory: StateSaveLocation.
    """
    place = shlex.quote(directory)
    command = (
        f"test ! -e {place} || {{ cd / && {AS_SLURM} find {place} \\( -name '.?*' -o -name lost+found \\) -prune -o "
        f"{CLOSED} -printf '%p (of %u, mode %m)\\n' 2>&1 | head -n {SHOWN}; }}"
    )
    lines = host.run(command).stdout.splitlines()
    # find(1) also complains of each directory that it cannot list, which is one of the found ones but for those above.
    return [line for line in lines if not line.startswith("find: ")] or lines


def refused_state(host: CheckedHost, directory: str) -> str:
    """Why the installed Slurm cannot read slurmctld's state, and the way out; empty if it can.

    Args:
        host: a controller.
        directory: StateSaveLocation.
    """
    file = shlex.quote(f"{directory}/job_state")
    shown = host.run(f"slurmctld -V; od -An -v -tx1 -N {HEADER_BYTES} {file} 2>/dev/null").stdout
    version, _, digits = str(shown).partition("\n")
    try:
        header = bytes.fromhex(digits)
    except ValueError:
        return ""
    return refusal(directory, written_by(header), version.rpartition(" ")[2])


def unread_state(host: CheckedHost) -> str:
    """The line of slurmctld's log that tells that it could not read its state when it started; empty if there is none.

    A first start finds no state, which is no such line.
    """
    log = f"{SLURM_LOGS}/slurmctld.log"
    command = (
        f"tail -c {LOG_BYTES} {log} 2>/dev/null | tac | sed '/slurmctld version .* started/q' "
        f"| grep -E {LOG_PATTERN!r} | grep -v 'No such file' | tail -n 1"
    )
    return str(host.run(command).stdout).strip()
