"""Rules about directories that a cluster file names: hosts give each an owner and a mode, so it has one purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.paths import (
    FORMER_SPOOL,
    MUNGE_KEY,
    PROGRAMS,
    SLURM_DIRECTORY,
    SLURM_HOME,
    SLURM_LOGS,
    SLURM_SPOOL,
    SLURMD_LOGS,
)
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place

SYSTEM = ("/bin", "/boot", "/dev", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys")
"""Directories in and below which only the system has files (hier(7)); /root is a home."""

STANDARD = (
    *("/etc", "/home", "/lost+found", "/media", "/mnt", "/nix", "/opt", "/snap", "/srv", "/usr", "/var"),
    *("/etc/ssh", "/etc/systemd", "/tmp", "/var/lib/slurm", "/var/spool/cron"),  # noqa: S108 - they are refused
    *(f"/usr/{name}" for name in ("bin", "games", "include", "lib", "libexec", "local", "sbin", "share", "src")),
    *(f"/usr/local/{name}" for name in ("bin", "etc", "games", "include", "lib", "man", "sbin", "share", "src")),
    *(f"/var/{name}" for name in ("backups", "cache", "crash", "lib", "local", "lock", "log", "mail", "opt", "run")),
    *(f"/var/{name}" for name in ("spool", "tmp", "www")),
)  # fmt: skip
"""Directories of which each host has one, for the files of many programs (hier(7))."""

USED = (
    *(
        SLURM_DIRECTORY,
        SLURM_HOME,
        SLURM_LOGS,
        SLURMD_LOGS,
        SLURM_SPOOL,
        FORMER_SPOOL,
        PROGRAMS,
        MUNGE_KEY.rpartition("/")[0],
    ),
    *("/var/lib/slurmfab", "/var/lib/munge", "/var/lib/mysql"),
)
"""Directories that slurmfab, munge and MariaDB use otherwise."""

_HOMES = "/home/"


def directories_have_one_purpose(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A directory of the system, or with the files of others, would be given away or closed to everybody else."""
    homes = {user.home_directory: user.name for user in cluster.users}
    for place, path in named(cluster):
        why = taken(path) or (f"is the home of {homes[path]}" if path in homes else "") or in_home(place, path, homes)
        if why:
            yield place, f'"{path}" {why}; name a directory for this purpose alone, such as /srv/slurm'


def in_home(place: Place, path: str, homes: Mapping[str, str]) -> str:
    """Whose home a directory is in, as a part of a sentence: that user could put another one in its place.

    Args:
        place: of the key. The state directory is the slurm user's own, the others are root's.
        homes: users by their homes.
    """
    users = {f"/home/{path.split('/')[2]}": path.split("/")[2]} if path.startswith(_HOMES) else {}
    found = next((user for home, user in {**users, **homes}.items() if path.startswith(f"{home}/")), "")
    is_own = place == ("state_directory",) and found == "slurm"
    return f"is in the home of {found}, who could put another one in its place" if found and not is_own else ""


def private_tmp_is_no_other_directory(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Jobs have directories below it, and everybody may enter it, so it holds neither state nor backups."""
    if cluster.private_tmp is None:
        return
    base = cluster.private_tmp.base
    for place, path in named(cluster):
        if place[0] != "private_tmp" and overlap(base, path):
            key = ".".join(map(str, place))
            yield ("private_tmp", "BasePath"), f'"{base}" contains or is inside {path}, which is {key}'


def shared_files_are_roots(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """The shared directory of Slurm's files is root's and open to all; configless nodes have no files to share."""
    shared, place = cluster.slurm_conf_directory, ("slurm_conf_directory",)
    if shared is None:
        return
    if cluster.configless:
        yield place, "configless nodes fetch Slurm's files from slurmctld; remove one of the two keys"
    for (key, *_), path in named(cluster):
        if key != place[0] and overlap(shared, path):
            yield place, f'"{shared}" contains or is inside {path}, which is {key}'


RULES = (directories_have_one_purpose, private_tmp_is_no_other_directory, shared_files_are_roots)


def named(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """The directories that the cluster file names and hosts make, each with its place in the file."""
    yield ("state_directory",), cluster.state_directory
    if cluster.slurm_conf_directory is not None:
        yield ("slurm_conf_directory",), cluster.slurm_conf_directory
    if cluster.backup is not None:
        yield ("backup", "directory"), cluster.backup.directory
    if cluster.private_tmp is not None:
        yield ("private_tmp", "BasePath"), cluster.private_tmp.base
    if cluster.scratch is not None:
        yield ("scratch", "path"), cluster.scratch.path
    if cluster.containers is not None:
        for way in cluster.containers.use:
            storage = getattr(getattr(cluster.containers, way, None), "storage", None)
            if storage is not None:
                yield ("containers", way, "storage"), storage
    if cluster.registry is not None:
        yield ("registry", "directory"), cluster.registry.directory


def overlap(one: str, other: str) -> bool:
    """Whether two directories are the same, or one is inside of the other.

    >>> overlap("/srv", "/srv/slurm"), overlap("/srv/slurm", "/srv/slurm2")
    (True, False)
    """
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def taken(path: str) -> str:
    """What else a directory is used for, as a part of a sentence; empty if nothing is known.

    >>> taken("/etc")
    'is a directory of the system'
    """
    if path in STANDARD or any(f"{path}/".startswith(f"{one}/") for one in SYSTEM):
        return "is a directory of the system"
    if path.startswith(_HOMES) and path.count("/") == _HOMES.count("/"):
        return "is the place of a home"
    other = next((one for one in USED if f"{one}/".startswith(f"{path}/")), "")
    return f"is or contains {other}, which is used for something else" if other else ""
