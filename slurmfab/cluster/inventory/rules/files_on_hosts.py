"""Rules about the files of the site's own on hosts: nothing that slurmfab writes itself, or that locks people out."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import MUNGE_KEY, PROGRAMS, SLURM_DIRECTORY, SLURM_HOME, UNIT_FILES
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.mounts import Mount, unit_name
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.inventory.storage import mounts_of

_OWN = "slurmfab writes there itself"
_SYSTEM = "only the system has files there"

_CLOSES = "one mistake there closes the host to everybody, slurmfab included"

_DIRECTORIES: Mapping[str, str] = {
    SLURM_DIRECTORY: "files of Slurm's directory go under slurm_files, and scripts around jobs under prolog and epilog",
    MUNGE_KEY.rpartition("/")[0]: f"slurmfab manages the munge key; {FAB} rotate-munge-key changes it",
    PROGRAMS: _OWN,
    SLURM_HOME: _OWN,
    "/var/lib/slurmfab": _OWN,
    **dict.fromkeys(("/boot", "/dev", "/proc", "/run", "/sys", "/tmp", "/var/lib/dpkg", "/var/run"), _SYSTEM),  # noqa: S108
    **dict.fromkeys(("/etc/pam.d", "/etc/ssh/sshd_config.d"), _CLOSES),
    "/etc/sudoers.d": "one mistake there keeps everybody from sudo; users get it by `sudo: true` under users",
}
"""Directories in which the key `files` has none, with the reason."""

_FILES: Mapping[str, str] = {
    **dict.fromkeys(
        ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid"),
        "every host has users of its own there; people go under users",
    ),
    "/etc/ssh/sshd_config": _CLOSES,
    "/etc/hosts": "slurmfab has a block there; set hosts_file: false and name another way for the rest",
    "/etc/sudoers": "one mistake there keeps everybody from sudo; users get it by `sudo: true` under users",
    "/etc/default/slurmd": "slurmfab reads it; slurmd's settings go under slurm_conf",
}
"""Files that the key `files` does not replace, with the reason."""

_UNITS = ("slurmctld", "slurmd", "slurmdbd", "munge", "mariadb")


def files_are_nobody_elses(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """What slurmfab writes, and what a mistake would close to everybody, is no file of the site's own."""
    own = {**_DIRECTORIES, cluster.state_directory: "slurmctld has its state there"}
    for path in cluster.files:
        folders = _folders(path)
        reason = _FILES.get(path) or next((own[folder] for folder in folders if folder in own), "")
        if reason:
            yield ("files", path), reason
        elif posixpath.basename(path).startswith("slurmfab"):
            yield ("files", path), "names that begin with slurmfab are slurmfab's own; choose another one"
        elif set(folders) & cluster.files.keys():
            yield ("files", path), "another file has the path of its directory"
        elif path in own:
            yield ("files", path), "it is a directory"


def files_have_one_content(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A file has either a source or a text, and hosts of the cluster have it."""
    known = frozenset(cluster.hosts)
    for path, one in cluster.files.items():
        if (one.source is None) == (one.text is None):
            yield ("files", path), "it needs either source, a file beside the cluster file, or text"
        strange = [host for host in one.hosts if host not in known]
        if strange:
            yield ("files", path, "hosts"), f'"{fold(strange)}" is no host of this cluster'
        if one.restart and one.restart.removesuffix(".service") in _UNITS:
            yield ("files", path, "restart"), f"slurmfab restarts {one.restart} itself where its files have changed"


def _folders(path: str) -> list[str]:
    """The directories that a path lies in, without the root directory."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: number + 1]) for number in range(len(parts))]


def files_are_not_on_mounts(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Files are written before anything is mounted, and a file on shared storage would be that of all hosts."""
    there = {host: mounts_of(cluster, host) for host in (cluster.hosts if cluster.files else ())}
    for path, one in cluster.files.items():
        mounts = [
            mount for host, some in there.items() if some and one.is_on(host, cluster.roles(host)) for mount in some
        ]
        over = next((mount for mount in mounts if path == mount.path or path.startswith(f"{mount.path}/")), None)
        unit = next((mount for mount in mounts if path in _units(mount)), None)
        if over:
            reason = "so it would be hidden, or shared; put it there by hand"
            yield ("files", path), f"{over.path} is mounted there ({_key(cluster, over)}), {reason}"
        elif unit:
            yield ("files", path), f"slurmfab writes this unit itself for {unit.path} ({_key(cluster, unit)})"


def _key(cluster: Cluster, mount: Mount) -> str:
    """The key of the cluster file that a mount comes from."""
    return "mounts" if mount in cluster.mounts else "exports"


def _units(mount: Mount) -> tuple[str, ...]:
    """The paths of the files that a mount's units may have."""
    return tuple(f"{UNIT_FILES}/{unit_name(mount.path, suffix)}" for suffix in (".mount", ".automount"))


RULES = (files_are_nobody_elses, files_have_one_content, files_are_not_on_mounts)
