"""Checks of a host's operating system: files that users can read, room on disks, whole packages, python3."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurmfab.base.paths import SLURM_DIRECTORY, SLURM_LOGS, SLURM_SPOOL, SLURMD_LOGS
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.platform import Manager, wanted
from slurmfab.commands.checks.applies import DoesNotApply, Seen, foundation
from slurmfab.commands.checks.hand_made import need_files
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import Remark
from slurmfab.commands.checks.system import DATABASE, Room, munge_socket, room, system
from slurmfab.commands.checks.wanted import deploy, spool_directory, units_of
from slurmfab.core.plan.directories import logs_owner
from slurmfab.on_hosts.agent.core.listing import first_of

MODES = "namei -m -- %s"
CLOSED = re.compile(r"^ *([d-][rwxstST-]{9}) (.+)$", re.MULTILINE)

VERIFIED = re.compile(r"^(missing|unlinked|\S{9})\s+(?:([a-z]) )?\s*(/.*)$", re.MULTILINE)
"""A line of `Manager.verify`: what differs, `c` for a file of settings, the path."""

ANOTHER = "another file, says {lists} --verify"
OTHERWISE = {
    "missing": "missing, says {lists} --verify",
    "unlinked": "missing, the link of update-alternatives to the program",
}
LEFT_OUT = ("/etc/", "/var/", *(f"/usr/share/{name}/" for name in ("doc", "man", "locale", "info", "lintian")))
"""Places of settings, directories whose owner slurmfab sets, and what a site may keep dpkg from unpacking (dpkg(1),
--path-exclude)."""

MOST_FILES = 3
WRITABLE, OPEN = 0o7, 0o1007
"""Everybody may write there, and with the second remove only files of their own (chmod(1), restricted deletion)."""

TMP = "/tmp"  # noqa: S108 - it is the subject, and nothing is written there
ROOM_IN_TMP = f"df --block-size=1 --output=avail,itotal,iavail,target {TMP} | tail -n 1"
READ_FILES = {"files", "compat", "resolve"}
"""The sources that read the host's own files; systemd-resolved reads /etc/hosts (nss-resolve(8))."""

NAME_SOURCES = r"sed -nE 's/#.*//; s/^[[:space:]]*(passwd|group|hosts):/\1:/p' /etc/nsswitch.conf 2>/dev/null; :"
VARIABLES = (
    r"sed -nE 's/^[[:space:]]*(export[[:space:]]+)?((SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SINFO|SACCT|SCANCEL)[A-Z0-9_]*)="
    r"(.*)$/\2=\4/p' /etc/environment 2>/dev/null; :"
)
"""Prints Slurm's variables that pam_env(8) sets for every login."""

SLURM_CONF = f"{SLURM_DIRECTORY}/slurm.conf"

OF_DAEMON = {SLURM_LOGS: "slurmctld", SLURMD_LOGS: "slurmd", SLURM_SPOOL: "slurmd", DATABASE: "mariadb"}
NEEDS = {
    "/run": "systemd, munged and slurmd keep sockets and pids there",
    SLURM_DIRECTORY: "slurm.conf is replaced there",
    SLURM_LOGS: "Slurm's daemons write their logs there, and do not start without",
    SLURMD_LOGS: "slurmd writes its log there",
    DATABASE: "MariaDB keeps Slurm's records there, and takes no more of them",
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
        f"{closed_on_the_way(host, munge_socket(host))}. Repair: {deploy(host.name)}"
    )


@foundation
def test_file_systems_have_room(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the file systems of Slurm's directories have room"""
    roles = cluster.roles(host.name)
    spool = spool_directory(cluster, lock, host.name)
    unused = {SLURM_SPOOL, spool} - ({spool} if "compute" in roles else set())
    needs = {**NEEDS, spool: NEEDS[SLURM_SPOOL]}
    unused |= set() if "controller" in roles else {cluster.state_directory}
    unused |= set() if "mariadb" in units_of(cluster, host.name) else {DATABASE}
    unused |= {SLURM_LOGS} if logs_owner(cluster, host.name) == "root" else set()
    full = {directory: room for directory, room in system(host).rooms if room.is_full and directory not in unused}
    state = "slurmctld writes its jobs and nodes there, and stops if it cannot"
    wrong = [
        f"{room.mount} is full ({amount(room)}): {needs.get(directory, state)}"
        f"{'' if directory == room.mount else f' ({directory})'}"
        for directory, room in full.items()
    ]
    mounts = " ".join(dict.fromkeys(room.mount for room in full.values()))
    if wrong:
        # Which daemons that stops; of several, or of one that all need, all.
        daemons = {**OF_DAEMON, spool: "slurmd", cluster.state_directory: "slurmctld"}
        whose = {daemons.get(directory, "") for directory in full}
        sign = whose.pop() if len(whose) == 1 else ""
        raise Seen(
            sign or "all", f"{'; '.join(wrong)}. Repair: remove what fills it: du -xah {mounts} | sort -h | tail"
        )


def test_packages_are_whole(host: CheckedHost, cluster: Cluster) -> None:
    """the package manager has finished what it began"""
    found, manager = system(host), wanted(cluster, host.name).manager
    wrong = [*found.unfinished[:3], *([f"{manager.lists} was interrupted"] if found.is_interrupted else [])]
    assert not wrong, (
        f"{'; '.join(wrong)}: {manager.unfinished}. Repair: {deploy(host.name)}, or {manager.finish} there"
    )


def test_python_is_there(host: CheckedHost) -> None:
    """python3 is installed"""
    assert host.exists("python3"), f"there is no python3, which slurmfab's agent needs. Repair: {deploy(host.name)}"


def test_package_files_are_there(host: CheckedHost, cluster: Cluster) -> None:
    """the files of Slurm's and munge's packages are as they were installed"""
    manager = wanted(cluster, host.name).manager
    wrong = [
        f"{path} is {OTHERWISE.get(state, ANOTHER).format(lists=manager.lists)}"
        for state, path in changed_files(host, manager)
    ]
    assert not wrong, (
        f"{'; '.join(first_of(wrong, MOST_FILES))}. Repair: {deploy(host.name)} brings missing "
        f"ones back; for another one: {manager.again} there"
    )


def changed_files(host: CheckedHost, manager: Manager) -> list[tuple[str, str]]:
    """How it differs, and its path, of each file that differs from its package's; settings may."""
    found = VERIFIED.findall(host.ask(manager.verify, seconds=60))
    return [(state, path) for state, kind, path in found if not kind and not path.startswith(LEFT_OUT)]


def test_tmp_takes_files_of_all(host: CheckedHost) -> None:
    """all users can write files in /tmp, which has room, and remove nobody else's"""
    mode = host.file(TMP).mode
    is_closed = mode & WRITABLE != WRITABLE
    harm = "programs of users and of jobs fail" if is_closed else "users can remove files of others there"
    assert mode & OPEN == OPEN, f"{TMP} has the mode {mode:o}: {harm}. Repair: chmod 1777 {TMP} on {host.name}"
    _, found = room(f"{host.ask(ROOM_IN_TMP)} {TMP}")
    assert not found.is_full, (
        f"{TMP} is full ({amount(found)}): programs of users and of jobs fail. "
        f"Repair: remove what fills it: du -xah {TMP} | sort -h | tail"
    )


def test_names_are_looked_up_in_files(host: CheckedHost, cluster: Cluster) -> None:
    """users, groups and hosts are looked up in the host's own files, too"""
    sources = dict(line.split(":", 1) for line in host.ask(NAME_SOURCES).splitlines())
    looked = {"passwd": "/etc/passwd", "group": "/etc/group", **({"hosts": "/etc/hosts"} if cluster.hosts_file else {})}
    wrong = [
        f"{name} in /etc/nsswitch.conf ({' '.join(sources[name].split())}) leaves out {path}"
        for name, path in looked.items()
        if name in sources and not READ_FILES & {*sources[name].split()}
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}, where slurm, munge or the names of the cluster stand. "
        f"Repair: write `files` into that line of /etc/nsswitch.conf on {host.name}, as Debian's has it"
    )


def test_no_variable_leads_slurm_elsewhere(host: CheckedHost) -> None:
    """no variable for all logins leads Slurm's commands to another slurm.conf"""
    variables = dict(line.split("=", 1) for line in host.ask(VARIABLES).splitlines())
    conf = variables.pop("SLURM_CONF", SLURM_CONF).strip("'\"")
    is_usual = conf == SLURM_CONF or host.run(f"[ %s -ef {SLURM_CONF} ] && echo same", conf).stdout == "same\n"
    assert is_usual, (
        f"/etc/environment sets SLURM_CONF={conf}, so users' commands there read another file than {SLURM_CONF}. "
        f"Repair: remove that line of /etc/environment on {host.name}"
    )
    if variables:
        raise Remark(
            f"/etc/environment sets {', '.join(sorted(variables))} for all logins; slurmfab does not obey that"
        )


def test_selinux_denies_nothing(host: CheckedHost) -> None:
    """SELinux has denied the cluster's daemons nothing since the last change"""
    selinux = system(host).selinux
    if not selinux.is_on:
        raise DoesNotApply("the kernel has no SELinux")
    denied = [one for one in selinux.found if one.is_enforced]
    told = denied or [*selinux.found]
    text = "; ".join(first_of(map(str, told), MOST_FILES))
    assert not denied, f"{text}. Repair: on {host.name}, {denied[0].repair}"
    if told:
        raise Remark(f"SELinux would deny this if it enforced: {text}; on {host.name}, {told[0].repair}")


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
