"""Daemons that run with programs or libraries that a package has replaced (proc(5), maps); those that may restart."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Set, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.services import systemctl

DELETED = " (deleted)"
_MAPPING = r"^[0-9a-f]+-[0-9a-f]+ ..x\S* \S+ \S+ \S+ +(/\S.*) \(deleted\)$"
"""A mapping with code whose file is no longer there under its name."""

FOLDERS = ("/usr/", "/lib", "/bin/", "/sbin/", "/opt/")
"""Where packages have programs and libraries; files elsewhere may be deleted for any reason."""

_SERVICE = r"/system\.slice/(?:[^\n]*/)?([^/\n]+)\.service(?:/|$)"
INIT = "init"  # the name for systemd itself, process 1
STEP = "slurmstepd"  # a job's step, which is a process of slurmd's unit, and goes on until the job ends

FILES_SHOWN = 4


def users(context: Context) -> Dict[str, List[str]]:
    """Units whose main process uses replaced files, with the names of these files; sessions of users are left out."""
    found: Dict[str, Dict[int, Set[str]]] = {}
    for pid, unit, files in stale_processes(context):
        found.setdefault(unit, {})[pid] = files
    main = main_processes(context, [unit for unit in found if unit != INIT])
    answer = {}
    for unit, processes in sorted(found.items()):
        # Sessions that an earlier sshd began, ours among them, are processes of its unit, too.
        counted = [main[unit]] if main.get(unit) else list(processes)
        used = sorted({file for pid in counted for file in processes.get(pid, ())})
        if used:
            answer[unit] = used[:FILES_SHOWN]
    return answer


def stale_processes(context: Context) -> Iterator[Tuple[int, str, Set[str]]]:
    """Yield the daemons' processes that use replaced files: PID, unit, and names of the files."""
    folder = context.path("/proc")
    for name in names(folder):
        if not name.isdecimal():
            continue
        place = "%s/%s" % (folder, name)
        files = replaced(place)
        unit = unit_of(name, read_text(place + "/cgroup")) if files else ""
        if unit and read_text(place + "/comm") != STEP:
            yield int(name), unit, files


def replaced(place: str) -> Set[str]:
    """The names of the replaced files with code that a process uses, its program included."""
    text = read_text(place + "/maps")
    paths = re.findall(_MAPPING, text, re.M) if DELETED in text else []
    return {os.path.basename(path) for path in paths if path.startswith(FOLDERS)}


def unit_of(pid: str, cgroups: str) -> str:
    """The service of a process by its file `cgroup` (cgroups(7)); empty for users and containers."""
    if pid == "1":
        return INIT
    found = re.search(_SERVICE, cgroups, re.M)
    return found[1] if found else ""


def main_processes(context: Context, units: List[str]) -> Dict[str, int]:
    """The PIDs of main processes by unit; 0 for a unit without one."""
    if not units:
        return {}
    shown = context.run(systemctl.show_command(units, ("MainPID",))).stdout.decode(errors="replace")
    return {
        unit: int(properties.get("MainPID", "0") or 0)
        for unit, properties in systemctl.parse_show(units, shown).items()
    }


IN_ORDER = ("munge", "mariadb", "slurmdbd", "slurmctld", "sackd", "slurmd", "slurmrestd")
"""Slurm's daemons and what they need, in the order of their restarts."""

OTHERS = frozenset({
    "ssh", "sshd", "cron", "atd", "rsyslog", "chrony", "ntpsec", "systemd-timesyncd", "systemd-journald",
    "unattended-upgrades", "prometheus", "prometheus-alertmanager", "prometheus-node-exporter", "smartmontools",
    "mdmonitor", "postfix", "exim4", "nullmailer", "nscd", "nslcd", "sssd", "irqbalance", "polkit", "packagekit",
})  # fmt: skip
"""Other daemons that lose nothing. Not here: D-Bus, logind, network daemons, NFS, container engines, displays."""


def is_restartable(unit: str) -> bool:
    """Whether a daemon is restarted when it uses replaced files."""
    return unit in IN_ORDER or unit in OTHERS
