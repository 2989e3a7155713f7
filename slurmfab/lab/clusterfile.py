"""The cluster file and its lock that `lab-up` writes, ready for `fab deploy`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from slurmfab.errors import InputError
from slurmfab.lab.spec import CONTROLLER, LabHost, LabSpec

MARK = "# Written by lab-up for the lab"
"""How the first line of our cluster files begins; a file without it is never touched."""


def lock_path(cluster_file: Path) -> Path:
    """The lock beside a cluster file: `lab-x.yaml` has `lab-x.lock.json`."""
    return cluster_file.with_suffix(".lock.json")


def render(spec: LabSpec, addresses: Mapping[str, str], ssh_key: Path) -> str:
    """The text of the cluster file."""
    become = "" if spec.ssh_user == "root" else ", become: sudo"
    nodes = "n1" if spec.nodes == 1 else f"n[1-{spec.nodes}]"
    places = ", ".join(f"{name}: {address}" for name, address in addresses.items())
    return f"""{MARK} {spec.name}; lab-down removes it. Delete this line to keep the file.
cluster: {spec.name}
ssh: {{user: {spec.ssh_user}, key: {ssh_key}{become}}}
addresses: {{{places}}}
controllers: [{CONTROLLER}]
nodes:
  - hosts: {nodes}
partitions:
  - {{PartitionName: main, Nodes: ALL, Default: YES, MaxTime: 1-00:00:00}}
"""


def render_lock(hosts: Iterable[LabHost]) -> str:
    """The text of the lock: the host keys, which the lab knows because it made them."""
    keys = {host.name: {"host_keys": dict(host.host_keys)} for host in hosts}
    return json.dumps({"version": 1, "hosts": keys}, indent=2) + "\n"


def require_ours(path: Path) -> None:
    """Make sure that writing there loses nothing of the user's.

    Raises:
        InputError: there is a cluster file or a lock that no lab has written.
    """
    if path.exists() and not _is_ours(path):
        raise InputError(f"{path} was not written by a lab, so it stays as it is: name another file with --output.")
    if not path.exists() and lock_path(path).exists():
        raise InputError(f"{lock_path(path)} is there without its cluster file: move it away, or use --output.")


def write(path: Path, text: str, lock: str) -> None:
    """Write both files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    lock_path(path).write_text(lock)


def remove(path: Path) -> None:
    """Remove both files, if they are the lab's own."""
    if path.exists() and _is_ours(path):
        lock_path(path).unlink(missing_ok=True)
        path.unlink()


def _is_ours(path: Path) -> bool:
    """Whether a lab has written this cluster file."""
    return path.read_text().startswith(MARK)
