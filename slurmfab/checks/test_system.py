"""Checks of a host's operating system: files that users can read, room on disks, whole packages, python3."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurmfab.checks.daemons import system
from slurmfab.checks.foundation import foundation
from slurmfab.checks.hand_made import need_files
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.system import Room
from slurmfab.checks.wanted import deploy, spool_directory
from slurmfab.inventory.cluster import Cluster
from slurmfab.inventory.lock import Lock
from slurmfab.paths import MUNGE_SOCKET, SLURM_DIRECTORY, SLURM_LOGS, SLURM_SPOOL, SLURMD_LOGS
from slurmfab.plan.directories import logs_owner

MODES = "namei -m -- %s"
CLOSED = re.compile(r"^ *([d-][rwxstST-]{9}) (.+)$", re.MULTILINE)

NEEDS = {
    "/run": "systemd, munged and slurmd keep sockets and pids there",
    SLURM_DIRECTORY: "slurm.conf is replaced there",
    SLURM_LOGS: "Slurm's daemons write their logs there, and do not start without",
    SLURMD_LOGS: "slurmd writes its log there",
    SLURM_SPOOL: "slurmd writes each job's script and credential there, and drains the node if it cannot",
}
"""What the directories of Slurm are for; another one is slurmctld's state."""


def test_users_can_read_slurm_conf(
    host: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """an ordinary user can read slurm.conf"""
    need_files(host, others, cluster, lock)
    found = system(host)
    if found.reads:
        return
    path = re.search(r"'([^']+)'", found.complaint("head"))
    closed = closed_on_the_way(host, path[1]) if path else ""
    raise AssertionError(
        f"no user but root can run Slurm's commands: {found.complaint('head')}{closed}. Repair: {deploy(host.name)}"
    )


def test_users_get_credentials(host: CheckedHost) -> None:
    """an ordinary user gets a credential of munge"""
    found = system(host)
    assert found.encodes, (
        f"no user but root and munge can run Slurm's commands: {found.complaint('munge')}"
        f"{closed_on_the_way(host, MUNGE_SOCKET)}. Repair: {deploy(host.name)}"
    )


@foundation
def test_file_systems_have_room(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the file systems of Slurm's directories have room"""
    roles = cluster.roles(host.name)
    spool = spool_directory(cluster, lock, host.name)
    unused = {SLURM_SPOOL, spool} - ({spool} if "compute" in roles else set())
    needs = {**NEEDS, spool: NEEDS[SLURM_SPOOL]}
    unused |= set() if "controller" in roles else {cluster.state_directory}
    unused |= {SLURM_LOGS} if logs_owner(cluster, host.name) == "root" else set()
    full = {directory: room for directory, room in system(host).rooms if room.is_full and directory not in unused}
    state = "slurmctld writes its jobs and nodes there, and stops if it cannot"
    wrong = [
        f"{room.mount} is full ({amount(room)}): {needs.get(directory, state)}"
        f"{'' if directory == room.mount else f' ({directory})'}"
        for directory, room in full.items()
    ]
    mounts = " ".join(dict.fromkeys(room.mount for room in full.values()))
    assert not wrong, f"{'; '.join(wrong)}. Repair: remove what fills it: du -xah {mounts} | sort -h | tail"


def test_packages_are_whole(host: CheckedHost) -> None:
    """dpkg has finished what it began"""
    found = system(host)
    wrong = [*found.unfinished[:3], *(["dpkg was interrupted"] if found.is_interrupted else [])]
    assert not wrong, f"{'; '.join(wrong)}: no package can be installed or upgraded there. Repair: dpkg --configure -a"


def test_python_is_there(host: CheckedHost) -> None:
    """python3 is installed"""
    assert system(host).has_python, f"there is no python3, which slurmfab's agent needs. Repair: {deploy(host.name)}"


def closed_on_the_way(host: CheckedHost, path: str) -> str:
    """The first name on the way to a file that others may not pass or read, as ` (/etc/slurm has the mode …)`."""
    walked = ""
    for mode, name in CLOSED.findall(str(host.run(MODES, path).stdout)):
        walked = "/" if name == "/" else f"{walked.rstrip('/')}/{name}"
        if mode[-1] not in "xt" if mode.startswith("d") else mode[-3] != "r":
            return f" ({walked} has the mode {mode})"
    return ""


def amount(room: Room) -> str:
    """What is left on a file system, such as `0 KiB left`."""
    return "no inodes left" if room.free_files == 0 else f"{room.free_bytes >> 10} KiB left"
