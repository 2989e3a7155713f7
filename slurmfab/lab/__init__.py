"""The lab: systemd hosts in containers on this machine, for tests of all that slurmfab does.

A lab host is a systemd-nspawn container that boots systemd as PID 1 with its own root file system, network namespace,
address, sshd and package manager. Over SSH it looks like a bare machine.

>>> lab = up(LabSpec(name="demo", nodes=2))     # doctest: +SKIP
>>> run(lab, "n1", ["systemctl", "is-system-running"]).stdout     # doctest: +SKIP
'running'
>>> down("demo")     # doctest: +SKIP
"""

from slurmfab.lab.base import remove_cache
from slurmfab.lab.command import obstacle
from slurmfab.lab.disks import remove as remove_disks
from slurmfab.lab.labs import (
    down,
    keep_disks,
    kill_host,
    load,
    names,
    plug_in_host,
    reinstall_host,
    run,
    start_host,
    status,
    unplug_host,
    up,
)
from slurmfab.lab.spec import SUITES, Lab, LabHost, LabSpec

__all__ = [
    "SUITES",
    "Lab",
    "LabHost",
    "LabSpec",
    "down",
    "keep_disks",
    "kill_host",
    "load",
    "names",
    "obstacle",
    "plug_in_host",
    "reinstall_host",
    "remove_cache",
    "remove_disks",
    "run",
    "start_host",
    "status",
    "unplug_host",
    "up",
]
