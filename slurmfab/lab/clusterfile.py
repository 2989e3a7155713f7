"""The cluster file and the lock that `lab-up` writes for `fab deploy`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.bounded_file import without_waiting
from slurmfab.base.errors import InputError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.lab.spec import CONTROLLER, PACKAGED, SERIES, LabHost, LabSpec
from slurmfab.on_hosts.agent.core import replace

MARK = "# Written by lab-up for the lab"
"""Start of the first line of a lab's cluster file; files without it are never changed or removed."""


def lock_path(cluster_file: Path) -> Path:
    """Path of a cluster file's lock: `lab-x.lock.json` for `lab-x.yaml`."""
    return cluster_file.with_suffix(".lock.json")


def render(spec: LabSpec, addresses: Mapping[str, str], ssh_key: Path) -> str:
    """Render a lab's cluster file."""
    become = "" if spec.ssh_user == "root" else ", become: sudo"
    # YAML reads a text that ends with a colon, as fd53::, as the key of a mapping.
    places = ", ".join(
        f'{name}: "{address}"' if ":" in address else f"{name}: {address}" for name, address in addresses.items()
    )
    slurm = "" if spec.slurm_packages == PACKAGED else _key(spec.slurm_packages, spec.suite)
    return f"""{MARK} {spec.name}; lab-down removes it. Delete this line to keep the file.
cluster: {spec.name}
ssh: {{user: {spec.ssh_user}, key: {ssh_key}{become}}}
{slurm}addresses: {{{places}}}
controllers: [{CONTROLLER}]
nodes:
{_groups(spec)}partitions:
  - {{PartitionName: main, Nodes: ALL, Default: YES, MaxTime: 1-00:00:00}}
"""


def _groups(spec: LabSpec) -> str:
    """The entries of `nodes`, one for each kind of Slurm's packages."""
    by_kind = grouped((spec.kinds[host], host) for host in spec.host_names[1:])
    return "".join(
        f"  - hosts: {fold(hosts)}\n{'' if kind == spec.slurm_packages else f'    {_key(kind, spec.suite)}'}"
        for kind, hosts in by_kind.items()
    )


def _key(kind: str, suite: str) -> str:
    """The line of the key `slurm` for a kind of packages."""
    version = "" if kind == PACKAGED else f', version: "{SERIES[suite]}.*"'
    return f"slurm: {{packages: {kind}{version}}}\n"


def render_lock(hosts: Iterable[LabHost]) -> str:
    """Render the lock with the hosts' SSH keys, which are known because the lab generated them."""
    keys = {host.name: {"host_keys": dict(host.host_keys)} for host in hosts}
    return json.dumps({"version": 1, "hosts": keys}, indent=2) + "\n"


def require_ours(path: Path) -> None:
    """Refuse, by InputError, to overwrite a cluster file of the user, or a lock without cluster file."""
    if path.exists() and not _is_ours(path):
        raise InputError(f"{path} was not written by a lab, so it stays as it is: name another file with --output.")
    if not path.exists() and lock_path(path).exists():
        raise InputError(f"{lock_path(path)} is there without its cluster file: move it away, or use --output.")


def write(path: Path, text: str, lock: str) -> None:
    """Write the cluster file and the lock beside it, each whole or not at all, so that `remove` knows it."""
    atomic_file.write(path, text, new=atomic_file.READABLE_BY_ALL)
    atomic_file.write(lock_path(path), lock, new=atomic_file.READABLE_BY_ALL)


def remove(path: Path) -> None:
    """Remove the cluster file and its lock if a lab wrote the cluster file, and what a kill left of writing them."""
    with suppress(FileNotFoundError), atomic_file.opened(path.parent) as folder:
        names = lock_path(path).name, path.name
        for name in names:
            replace.clear(folder, name)
        if path.exists() and _is_ours(path):
            for name in names:
                folder.unlink(name)


def _is_ours(path: Path) -> bool:
    """Whether a lab wrote this cluster file."""
    with open(path, "rb", opener=without_waiting) as file:
        return file.read(len(MARK)) == MARK.encode()
