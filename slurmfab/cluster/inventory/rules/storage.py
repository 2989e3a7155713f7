"""Rules about file systems: exports, mounts, quotas, scratch, and directories of daemons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.hostlist import fold
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
from slurmfab.cluster.inventory.mounts import Mount, covering, needs_network
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place
from slurmfab.cluster.inventory.storage import mounts_of, named_mounts, places
from slurmfab.cluster.slurm.gres import SCRATCH, gres_value, parsed


def servers_are_known_hosts(cluster: Cluster) -> Complaints:
    """slurmfab makes a host of the cluster a server, and no other one."""
    for number, export in enumerate(cluster.exports):
        if export.host not in cluster.hosts:
            yield (
                ("exports", number, "host"),
                f'"{export.host}" is no host of this cluster; what another server has is mounted by the key mounts',
            )


def exports_hold_nothing_of_the_system(cluster: Cluster) -> Complaints:
    """Other hosts must not read keys and passwords, or write what a daemon reads."""
    for number, export in enumerate(cluster.exports):
        used = used_by_others(export.path)
        if is_systems(export.path):
            yield ("exports", number, "path"), f'"{export.path}" is a directory of the system'
        elif used:
            yield ("exports", number, "path"), f'"{export.path}" has files of {used}, which only its host may read'


def each_directory_is_exported_once(cluster: Cluster) -> Complaints:
    """Of two entries for one directory, the options of only one would hold."""
    first: dict[tuple[str, str], int] = {}
    for number, export in enumerate(cluster.exports):
        other = first.setdefault((export.host, export.path), number)
        if other != number:
            yield ("exports", number, "path"), f'"{export.path}" of {export.host} is already exports[{other}]'


def exports_are_not_inside_of_their_mounts(cluster: Cluster) -> Complaints:
    """On the server, the one would hide the other, or contain itself."""
    for number, export in enumerate(cluster.exports):
        path, mount = f"{export.path}/", f"{export.mount or export.path}/"
        if path != mount and (path.startswith(mount) or mount.startswith(path)):
            yield (
                ("exports", number, "mount"),
                f'"{export.mount}" and the directory "{export.path}" lie one in the other; mount it elsewhere, such as '
                f"at {export.path} itself",
            )


def exports_are_on_no_network_mount(cluster: Cluster) -> Complaints:
    """The kernel does not serve again what it has from another server (exports(5))."""
    for number, export in enumerate(cluster.exports):
        there = covering(mounts_of(cluster, export.host), export.path) if export.host in cluster.hosts else None
        if there is not None and there.is_network:
            yield (
                ("exports", number, "path"),
                f'"{export.path}" is on {there.path}, which {export.host} has from {there.source}; mount that on the '
                "other hosts as well",
            )


WITH_FILES = ("/etc", "/usr", "/var", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/var/run", "/var/lock")
"""Directories with files that a host needs to work, which a mount would hide; below them there may be mounts."""


def mounts_hide_nothing_of_the_system(cluster: Cluster) -> Complaints:
    """A file system that is mounted over these directories would keep a host or its daemons from working."""
    for place, mount in dict(named_mounts(cluster)).items():
        used = used_by_others(mount.path)
        if is_systems(mount.path):
            yield place, f'"{mount.path}" is a directory of the system'
        elif used:
            yield place, f'"{mount.path}" would hide {used}, which slurmfab or a daemon uses'


def mounts_are_on_known_hosts(cluster: Cluster) -> Complaints:
    """A mount on a host that the cluster does not have is a typing mistake."""
    for number, mount in enumerate(cluster.mounts):
        unknown = [host for host in mount.hosts or () if host not in cluster.hosts]
        if unknown:
            yield ("mounts", number, "hosts"), f'"{fold(unknown)}" is no host of this cluster'


def each_path_is_mounted_once(cluster: Cluster) -> Complaints:
    """Of two mounts at one path, the second would hide the first."""
    places = {id(mount): place for place, mount in named_mounts(cluster)}
    if len({mount.path for _, mount in named_mounts(cluster)}) == len(set(places.values())):
        return
    order = list(dict.fromkeys(places.values()))
    first: dict[tuple[str, str], Place] = {}
    told: set[Place] = set()
    for host in cluster.hosts:
        there = {places[id(mount)]: mount.path for mount in mounts_of(cluster, host)}
        for place in sorted(there, key=order.index):
            path = there[place]
            other = first.setdefault((host, path), place)
            if other != place and place not in told:
                told.add(place)
                yield place, f'"{path}" is already mounted on {host} by {other[0]}[{other[1]}]'


def homes_are_shared(cluster: Cluster) -> Complaints:
    """A job writes its output where it was submitted: in the home of its user, which is to be the same everywhere."""
    homes = cluster.homes
    if homes is None:
        return
    served = {(export.host, export.path) for export in cluster.exports}
    lacking = [
        host
        for host in cluster.workplaces
        if covering(mounts_of(cluster, host), homes) is None
        and not any(host == server and f"{homes}/".startswith(f"{path}/") for server, path in served)
    ]
    if lacking:
        yield (
            ("homes",),
            f'"{homes}" is on no mount of {fold(lacking)}, where users work: name the file system there under mounts, '
            "or a host that serves it under exports",
        )


def is_systems(path: str) -> bool:
    """Whether a directory has files that a host needs to work."""
    return path in WITH_FILES or any(f"{path}/".startswith(f"{one}/") for one in SYSTEM)


def used_by_others(path: str) -> str:
    """The directory of slurmfab's or of a daemon that contains a directory or lies in it; empty for none."""
    return next((one for one in USED if overlap(one, path)), "")


def quotas_are_set_by_hosts_of_the_cluster(cluster: Cluster) -> Complaints:
    """Only the host that has a file system can limit users there."""
    if cluster.quota is None or places(cluster):
        return
    path = cluster.quota.path
    there = next((one for host in cluster.hosts if (one := covering(mounts_of(cluster, host), path))), None)
    if there is None:
        yield ("quota", "path"), f'"{path}" is on no mount and no export of the cluster file'
    else:
        yield (
            ("quota", "path"),
            f'"{path}" is from {there.source}, which is no host of this cluster; set quotas there',
        )


def users_have_quotas_of_something(cluster: Cluster) -> Complaints:
    """A user's own limits are for the file system that `quota` names."""
    for number, user in enumerate(cluster.users if cluster.quota is None else ()):
        if user.quota is not None:
            yield ("users", number, "quota"), "it needs the key quota, which names the file system"


PATH = ("scratch", "path")


def scratch_is_on_known_nodes(cluster: Cluster) -> Complaints:
    """Only compute nodes run jobs."""
    known = frozenset(cluster.compute_nodes)
    for number, group in enumerate(cluster.scratch.groups if cluster.scratch else ()):
        strange = [host for host in group.hosts if host not in known]
        if strange:
            yield ("scratch", "groups", number, "hosts"), f'"{fold(strange)}" is not a compute node'


def scratch_is_counted_once(cluster: Cluster) -> Complaints:
    """slurmfab adds `scratch` to the Gres of nodes, and to GresTypes unless the user writes that."""
    if cluster.scratch is None:
        return
    for number, group in enumerate(cluster.nodes):
        names = {device.name for device in map(parsed, (gres_value(group.settings) or "").split(",")) if device}
        if SCRATCH in names:
            key = next(key for key in group.settings if key.lower() == "gres")
            yield ("nodes", number, "settings", key), "the key scratch at the top adds scratch itself; remove it here"
    for key, value in cluster.slurm_conf.items():
        if key.lower() == "grestypes" and SCRATCH not in {name.strip() for name in (value or "").split(",")}:
            yield ("slurm_conf", key), "the key scratch at the top needs scratch among these names"


def scratch_has_its_variables(cluster: Cluster) -> Complaints:
    """A variable has one value."""
    if cluster.scratch is None or cluster.job_environment is None:
        return
    environment = cluster.job_environment
    lists: list[tuple[Place, Mapping[str, str]]] = [(("all",), environment.all)]
    lists += [(("groups", number, "variables"), group.variables) for number, group in enumerate(environment.groups)]
    for place, variables in lists:
        for name in cluster.scratch.variables:
            if name in variables:
                yield ("job_environment", *place, name), "the key scratch sets this variable; remove one of the two"


def scratch_is_a_directory_of_its_own(cluster: Cluster) -> Complaints:
    """Only directories of jobs are there: what else has the name of a job would be removed."""
    if cluster.scratch is None:
        return
    path = cluster.scratch.path
    others = {directory: ".".join(map(str, place)) for place, directory in named(cluster) if place != PATH}
    others |= {user.home_directory: f"the home of {user.name}" for user in cluster.users}
    others |= {cluster.homes: "the directory of homes"} if cluster.homes else {}
    private = cluster.private_tmp.directories if cluster.private_tmp else ()
    others |= dict.fromkeys(private, "private_tmp, of which each job sees another one")
    for directory, what in others.items():
        if overlap(path, directory):
            yield PATH, f'"{path}" contains or is inside {directory}, which is {what}'


def scratch_is_on_a_disk_of_the_node(cluster: Cluster) -> Complaints:
    """Nodes that share a directory would remove each other's; and nothing else is mounted among those of jobs."""
    if cluster.scratch is None:
        return
    told = set[str]()
    for node in cluster.compute_nodes if cluster.mounts or cluster.served else ():
        reason = wrong_mount(cluster.scratch.path, mounts_of(cluster, node)) if cluster.scratch.of_node(node) else ""
        if reason and reason not in told:
            told.add(reason)
            yield PATH, reason


def wrong_mount(path: str, mounts: tuple[Mount, ...]) -> str:
    """Why a directory of jobs cannot be where the mounts of a node put it; empty if it can."""
    inside = next((one for one in mounts if one.path.startswith(f"{path}/")), None)
    if inside is not None:
        return f"{inside.path} is mounted inside of it; only directories of jobs can be there"
    below = covering(mounts, path)
    if below is not None and needs_network(below, mounts):
        return f'"{path}" is on {below.path} ({below.type}), which nodes share; each needs a disk of its own for it'
    if below is not None and below.is_read_only:
        return f'"{path}" is on {below.path}, which is mounted read-only'
    return ""


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


CLOSED: tuple[Place, ...] = (("state_directory",), ("backup", "directory"), ("registry", "directory"))
"""The keys of directories that only the user of one daemon may enter."""


def directories_have_one_purpose(cluster: Cluster) -> Complaints:
    """A directory of the system, or with the files of others, would be given away or closed to everybody else."""
    homes = {user.home_directory: user.name for user in cluster.users}
    for place, path in named(cluster):
        why = taken(path) or (f"is the home of {homes[path]}" if path in homes else "") or in_home(place, path, homes)
        if why:
            yield place, f'"{path}" {why}; name a directory for this purpose alone, such as /srv/slurm'


def closed_directories_hold_nothing_of_others(cluster: Cluster) -> Complaints:
    """Nobody else gets to what is below a directory that only its daemon may enter; both keys are named."""
    others: list[tuple[str, str]] = [("homes", cluster.homes)] if cluster.homes else []
    others += [(f"the home of {user.name}", user.home_directory) for user in cluster.users]
    others += [(f"{place[0]}[{place[1]}]", mount.path) for place, mount in named_mounts(cluster)]
    others += [(f"exports[{number}]", export.path) for number, export in enumerate(cluster.exports)]
    for place, path in named(cluster):
        if place not in CLOSED:
            continue
        state = [] if place == CLOSED[0] else [("state_directory", f"{cluster.state_directory}/")]
        # State and backups may be on a file system of their own, which is mounted there.
        inside = next((one for one in (*others, *state) if one[1].startswith(f"{path}/")), None)
        if inside is not None:
            what, where = inside[0], inside[1].rstrip("/")
            yield place, f'"{path}" is closed to others, and contains {where}, which is {what}; name another one'


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


def private_tmp_is_no_other_directory(cluster: Cluster) -> Complaints:
    """Jobs have directories below it, and everybody may enter it, so it holds neither state nor backups."""
    if cluster.private_tmp is None:
        return
    base = cluster.private_tmp.base
    for place, path in named(cluster):
        if place[0] != "private_tmp" and overlap(base, path):
            key = ".".join(map(str, place))
            yield ("private_tmp", "BasePath"), f'"{base}" contains or is inside {path}, which is {key}'


def shared_files_are_roots(cluster: Cluster) -> Complaints:
    """The shared directory of Slurm's files is root's and open to all; configless nodes have no files to share."""
    shared, place = cluster.slurm_conf_directory, ("slurm_conf_directory",)
    if shared is None:
        return
    if cluster.configless:
        yield place, "configless nodes fetch Slurm's files from slurmctld; remove one of the two keys"
    for (key, *_), path in named(cluster):
        if key != place[0] and overlap(shared, path):
            yield place, f'"{shared}" contains or is inside {path}, which is {key}'


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
