"""The clusters on which sentences of checks are made false, each with as much of what is checked as goes together."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import container_standins
import directory_server
from lab_cluster import DeployedLab
from stand_ins import MPS, NFS_SERVER

from slurmfab.lab import slurm_repository

NODES = 3
HOSTS = ("ctl", *(f"n{number}" for number in range(1, NODES + 1)))

USUAL_KEYS = """\
login: [n3]
database: {host: ctl}
slurm_ssh: both
homes: /home
mounts: [{path: /home, source: /srv/homes, type: bind}]
users:
- name: ada
  uid: 3000
  accounts: physics
  keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"]
- {name: bob, uid: 3001, accounts: physics, shell: /bin/rbash}
accounts: [{name: physics}]
health: {interval: 20}
slurm_conf: {SlurmdTimeout: 30}
backup: {directory: /var/backups/slurm, when: daily}
user_tools: true
private_tmp: true
node_logins: with_job
login_limits: {memory: 300M, tasks: 100}
user_ssh: hostbased
motd: true
x11: true
scratch: {size: 1G}
modules: {system: environment-modules, path: [/sw/modules]}
mpi: pmix
containers: [podman]
files: {/etc/site.conf: {text: "ours\\n"}}
packages: {compute: [hello]}
"""

SHARED_KEYS = """\
database: {host: ctl}
slurm_ssh: none
users: [{name: ada, uid: 3000, accounts: physics}]
accounts: [{name: physics}]
slurm_conf: {AccountingStorageEnforce: null, MailProg: /usr/local/bin/mailer, SlurmdTimeout: 30}
slurm_files: {plugstack.conf: plugstack.conf}
mounts:
  - {path: /data, source: "root@ADDRESS:/srv/brick", type: sshfs, options: [OPTIONS]}
exports: [{path: /srv/data, host: n2}]
quota: {path: /srv/data, soft: 1G}
power:
  nodes: n2
  suspend_after: 20d
  suspend_timeout: 4s
  how: {command: {suspend: /usr/bin/true, resume: /usr/bin/true}}
mps_daemon: true
monitoring: {every: 10, prometheus: {host: ctl, every: 10}}
firewall: managed
gpu_checks: {when: daily, min_busbw: 1, mpi: none}
idle_gpus: {mail: user}
"""
SHARED_GRES = """\
  - {hosts: n1, Gres: "gpu:2,shard:4"}
  - {hosts: n2, Gres: "gpu:2,mps:200"}
"""
SHARED_PLACES = """\
controllers: [ctl, n3]
state_directory: /shared/slurm/state
slurm_conf_directory: /shared/slurm/etc
"""
SSH_KEY = "/shared/key"
SSH_OPTIONS = f"allow_other, IdentityFile={SSH_KEY}, StrictHostKeyChecking=accept-new"
SERVES = (
    f"mkdir -p /srv/brick /root/.ssh; ssh-keygen -q -t ed25519 -N '' -f {SSH_KEY}; "
    f"cat {SSH_KEY}.pub >>/root/.ssh/authorized_keys; "
    "printf '#!/bin/sh\\ncat >/dev/null\\n' >/usr/local/bin/mailer; chmod 755 /usr/local/bin/mailer"
)

LIMITS = "/srv/limits"
"""What a stand-in for repquota prints: kernels of labs have no quotas."""

HAS_QUOTAS = (
    "dpkg-divert --quiet --local --rename --add /usr/sbin/repquota; "
    f"printf '#!/bin/sh\\ncat {LIMITS}\\n' >/usr/sbin/repquota; chmod 755 /usr/sbin/repquota; "
    f"echo 3000,ok,ok,0,1048576,0,,1,0,0, >{LIMITS}"
)

NEWER_ON = ("trixie",)
"""The suites on which the Slurm of Debian sid can be installed."""

NEWER_SOURCE = f'{{uris: "file:{slurm_repository.PLACE}", suites: {slurm_repository.SUITE}, key: slurm.asc}}'
NEWER_NODES = "  - {hosts: n1, mig: [3g.20gb, 2g.10gb]}\n"
NEWER_KEYS = f'slurm: {{version: "26.05.*", source: {NEWER_SOURCE}}}\n'

CONTAINERS_KEYS = """\
users: [{{name: ann, uid: 3000}}]
packages: {{all: [{packages}]}}
containers: {{use: [enroot, apptainer, docker], docker: {{users: [ann]}}}}
registry: {{host: ctl, directory: /srv/images}}
rest: ctl
jupyter: ctl
mpi: {{type: pmix, packages: openmpi}}
"""
HTPASSWD = "perl -e 'print crypt(q(in-no-dictionary), q($2y$05$) . q(abcdefghijklmnopqrstuu))'"


@dataclass(frozen=True)
class Scene:
    """A cluster; slurmctld asks nodes every 10 s (a third of SlurmdTimeout), so that they are soon back.

    Args:
        wanted: the arguments of `Stock.copy` for its hosts.
        prepare: makes the hosts of a suite ready for the first deployment, and returns the text of the cluster file.
    """

    wanted: Mapping[str, object]
    prepare: Callable[[DeployedLab, str], str]


def usual(hosts: DeployedLab, suite: str) -> str:  # noqa: ARG001 - as the others
    """Much of what a cluster of one controller, two compute nodes and a login host can have."""
    for host in HOSTS:
        hosts.on(host, "mkdir -p /sw/modules /srv/homes")
    return hosts.inventory_path.read_text().replace("hosts: n[1-3]", "hosts: n[1-2]") + USUAL_KEYS


def shared(hosts: DeployedLab, suite: str) -> str:  # noqa: ARG001
    """What is on a directory that hosts share, with a second controller, and what goes with neither that nor others."""
    hosts.on("ctl", SERVES)
    hosts.on("n2", f"{MPS}{NFS_SERVER}{HAS_QUOTAS}")
    hosts.inventory_path.with_name("plugstack.conf").write_text("# the site's own\n")
    keys = SHARED_KEYS.replace("ADDRESS", hosts.lab.host("ctl").address).replace("OPTIONS", SSH_OPTIONS)
    text = hosts.inventory_path.read_text().replace("controllers: [ctl]\n", SHARED_PLACES)
    return text.replace("  - hosts: n[1-3]\n", SHARED_GRES) + keys


def containers(hosts: DeployedLab, suite: str) -> str:
    """What runs containers, with images of the cluster's own."""
    beside = hosts.inventory_path.parent
    made = (
        container_standins.enroot(beside),
        container_standins.pyxis(beside, suite),
        container_standins.apptainer(beside),
    )
    passwords = beside / "registry.htpasswd"
    passwords.write_text(f"ann:{hosts.on('ctl', HTPASSWD)}\n")
    passwords.chmod(0o600)
    packages = ", ".join(f"./{path.name}" for path in made)
    return hosts.inventory_path.read_text() + CONTAINERS_KEYS.format(packages=packages)


def newer(hosts: DeployedLab, suite: str) -> str:
    """A Slurm that is newer than that of the suites, and a GPU that is divided."""
    key = slurm_repository.ensure(suite, print) / slurm_repository.KEY
    shutil.copy(key, hosts.inventory_path.with_name("slurm.asc"))
    text = hosts.inventory_path.read_text().replace("  - hosts: n1\n", NEWER_NODES)
    return text + NEWER_KEYS


def from_a_directory(hosts: DeployedLab, suite: str) -> str:  # noqa: ARG001
    """Users of a directory on n3, which is no host of the cluster."""
    directory_server.serve(hosts, "n3")
    text = hosts.inventory_path.read_text().replace("hosts: n[1-3]", "hosts: n[1-2]")
    return text.replace(f", n3: {hosts.lab.host('n3').address}", "") + directory_server.keys()


SCENES: Mapping[str, Scene] = {
    "": Scene({"database": True, "nodes": NODES, "gpus": ("n1:3",)}, usual),
    "shared": Scene({"database": True, "nodes": NODES, "gpus": ("n1:2", "n2:2"), "shared": ("/shared",)}, shared),
    "containers": Scene({"nodes": 1, "gpus": ("n1:2",)}, containers),
    "directory": Scene({"nodes": NODES, "bare": ("n3",)}, from_a_directory),
    "newer": Scene({"nodes": 1, "newer_slurm": True, "bare": ("ctl", "n1"), "gpus": ("n1:1:A100-SXM4-40GB",)}, newer),
}
"""The clusters by name; most rows are on the first one."""
