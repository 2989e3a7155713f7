"""A Slurm cluster as a user of pyinfra would write it: packages, one munge key, one configuration, daemons.

pyinfra -y --data munge_key=munge.key inventory.py deploy.py
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from pyinfra import host, inventory
from pyinfra.facts.hardware import Cpus, Memory
from pyinfra.operations import apt, files, server, systemd

HERE = Path(__file__).parent
IS_CONTROLLER = "controller" in host.groups
PACKAGES = ["munge", "openssh-client", "slurm-client", "slurmctld" if IS_CONTROLLER else "slurmd"]
DAEMON = "slurmctld" if IS_CONTROLLER else "slurmd"
POLICY = "#!/bin/sh\n[ -e /etc/slurm/slurm.conf ] || exit 101\n"
NAMES = "".join(f"{one.data.address} {one.name}\n" for one in inventory)
NODES = [
    {"name": one.name, "cpus": one.get_fact(Cpus), "memory": int(one.get_fact(Memory) * 0.95)}
    for one in inventory.get_group("compute")
]
DIRECTORIES = {
    "/etc/slurm": ("root", "755"),
    "/var/log/slurm": ("slurm", "755"),
    "/var/lib/slurm/slurmctld": ("slurm", "700"),
    "/var/lib/slurm/slurmd": ("root", "755"),
}

files.block(
    name="Names and addresses of all hosts",
    path="/etc/hosts",
    content=NAMES,
    marker="# {mark} slurm cluster",
)
files.put(
    name="No daemon starts before it is configured", src=StringIO(POLICY), dest="/usr/sbin/policy-rc.d", mode="755"
)
apt.packages(name="Packages", packages=PACKAGES, no_recommends=True, update=True, cache_time=86400)
key = files.put(
    name="munge key",
    src=host.data.munge_key,
    dest="/etc/munge/munge.key",
    user="munge",
    group="munge",
    mode="400",
)
for path, (owner, mode) in DIRECTORIES.items():
    files.directory(name=f"Directory {path}", path=path, user=owner, group=owner, mode=mode)
slurm_conf = files.template(
    name="slurm.conf",
    src=str(HERE / "templates" / "slurm.conf.j2"),
    dest="/etc/slurm/slurm.conf",
    user="root",
    group="root",
    mode="644",
    controller=inventory.get_group("controller")[0].name,
    slurmd_timeout=host.data.get("slurmd_timeout", 300),
    nodes=NODES,
)
cgroup_conf = files.put(
    name="cgroup.conf", src=StringIO("CgroupPlugin=disabled\n"), dest="/etc/slurm/cgroup.conf", mode="644"
)
systemd.service(name="munge runs", service="munge", running=True, enabled=True)
systemd.service(name="munge runs with the key", service="munge", running=True, restarted=True, _if=key.did_change)
systemd.service(name=f"{DAEMON} runs", service=DAEMON, running=True, enabled=True)
systemd.service(
    name=f"{DAEMON} runs with the files",
    service=DAEMON,
    running=True,
    restarted=True,
    _if=lambda: slurm_conf.did_change() or cgroup_conf.did_change(),
)
if IS_CONTROLLER:
    server.shell(
        name="Every compute node is idle",
        commands=[
            f"for try in $(seq 600); do "
            f'[ "$(sinfo --noheader --states=idle --Node --format=%N | wc -l)" = {len(NODES)} ] && exit; sleep 0.1; '
            "done; exit 1"
        ],
    )
