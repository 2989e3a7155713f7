"""Rules about slurm_conf, about keys at the top that write its lines, and about files that a site brings."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import MUNGE_KEY, PROGRAMS, SLURM_DIRECTORY, SLURM_HOME, UNIT_FILES
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import LINES_OF, Cluster
from slurmfab.cluster.inventory.mounts import Mount, unit_name
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.preemption import preempts_by_partition, preempts_by_qos
from slurmfab.cluster.slurm.site_files import OCI, TOPOLOGY
from slurmfab.on_hosts.agent.client.amounts import seconds_of

_WRITTEN: Mapping[str, str] = {
    "slurm.conf": "slurmfab writes it; its further keys go under slurm_conf",
    "gres.conf": "slurmfab writes it from Gres, File and AutoDetect of nodes",
    "cgroup.conf": "slurmfab writes it; its further keys go under cgroup_conf",
    "slurmdbd.conf": "slurmfab writes it for database; its further keys go under slurmdbd_conf",
}
"""Files that slurmfab writes in every cluster, or from keys of their own."""

_SECRET = (".key", ".jwks", ".pem")
_PLUGIN = "TopologyPlugin"
_WITH_FILE = ("topology/tree", "topology/block")
_TOPOLOGY_FILES = (TOPOLOGY, "topology.yaml")


def each_file_has_one_source(cluster: Cluster) -> Complaints:
    """A file that slurmfab writes from other keys cannot be the site's as well."""
    written = {
        **_WRITTEN,
        **({"job_container.conf": "slurmfab writes it for private_tmp"} if cluster.private_tmp else {}),
        **({TOPOLOGY: "slurmfab writes it from the key topology"} if cluster.topology else {}),
        **({OCI: "slurmfab writes it for containers: [oci]"} if cluster.uses_oci else {}),
    }
    kinds = [one for one in ("prolog", "epilog") if cluster.has_own_scripts or getattr(cluster, one) is not None]
    directories = {f"{kind}.d" for kind in kinds}
    for name in cluster.slurm_files:
        if name in written:
            yield ("slurm_files", name), f"{written[name]}; remove one of the two"
        elif name.endswith(_SECRET):
            yield ("slurm_files", name), "every user can read the files of Slurm's directory, so it may not be a secret"
        elif posixpath.dirname(name) in directories:
            yield ("slurm_files", name), f"slurmfab fills {posixpath.dirname(name)} from its key at the top"
        elif any(other.startswith(f"{name}/") for other in cluster.slurm_files):
            yield ("slurm_files", name), "another name uses it as a directory"


def topology_has_its_plugin(cluster: Cluster) -> Complaints:
    """Only topology/tree reads switches (topology.conf(5))."""
    for key, value in cluster.slurm_conf.items() if cluster.topology else ():
        if key.lower() == _PLUGIN.lower() and value != "topology/tree":
            yield ("slurm_conf", key), "the key topology at the top needs topology/tree; remove one of the two"


def topology_has_its_file(cluster: Cluster) -> Complaints:
    """slurmctld does not start with topology/tree or topology/block without a file (topology.conf(5))."""
    has_file = cluster.topology or any(name in cluster.slurm_files for name in _TOPOLOGY_FILES)
    for key, value in cluster.slurm_conf.items() if not has_file else ():
        if key.lower() == _PLUGIN.lower() and value in _WITH_FILE:
            switches = "name the switches under topology, or " if value == "topology/tree" else ""
            yield (
                ("slurm_conf", key),
                f"{value} needs {TOPOLOGY}, without which slurmctld does not start: {switches}name that file under "
                "slurm_files",
            )


def switches_are_a_tree(cluster: Cluster) -> Complaints:
    """Each switch has nodes or switches, and each of these is known and connected to one switch alone."""
    names = [switch.name for switch in cluster.topology]
    known = {"Nodes": frozenset(cluster.named_nodes), "Switches": frozenset(names)}
    taken: dict[tuple[str, str], str] = {}
    for number, switch in enumerate(cluster.topology):
        place: Place = ("topology", number)
        if names.index(switch.name) != number:
            yield (*place, "SwitchName"), f'"{switch.name}" is already the name of another switch'
        if {"nodes", "switches"} <= switch.model_fields_set or not {"nodes", "switches"} & switch.model_fields_set:
            yield place, f'switch "{switch.name}" needs either Nodes or Switches'
        for key, members in (("Nodes", switch.nodes), ("Switches", switch.switches)):
            strange = [one for one in members if one not in known[key]]
            twice = [one for one in members if taken.setdefault((key, one), switch.name) != switch.name]
            if strange:
                what = "a compute node" if key == "Nodes" else "a switch of this list"
                yield (*place, key), f'"{fold(strange)}" is not {what}'
            if twice:
                yield (*place, key), f'"{fold(twice)}" is already connected to another switch'
    yield from _cut_off(cluster)


def _cut_off(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Yield nodes without a switch, which would get no jobs, and switches that are connected in a circle."""
    if not cluster.topology:
        return
    connected = {node for switch in cluster.topology for node in switch.nodes}
    if missing := [node for node in cluster.named_nodes if node not in connected]:
        yield ("topology",), f"{fold(missing)} is connected to no switch, so Slurm would start no job there"
    below = {switch.name: switch.switches for switch in cluster.topology}
    for number, switch in enumerate(cluster.topology):
        seen: set[str] = set()
        reached = set(switch.switches)
        while reached - seen:
            seen |= reached
            reached = {one for name in reached for one in below.get(name, ())}
        if switch.name in seen:
            yield ("topology", number, "Switches"), f'switch "{switch.name}" is connected to itself'


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


def files_are_nobody_elses(cluster: Cluster) -> Complaints:
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


def files_have_one_content(cluster: Cluster) -> Complaints:
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


def files_are_not_on_mounts(cluster: Cluster) -> Complaints:
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


CONFIGLESS_OPTION = "enable_configless"
"""The option of SlurmctldParameters with which slurmctld serves its files (slurm.conf(5))."""

_TWICE = "slurmfab writes {} itself: it comes from the key {} at the top; remove one of the two"


def each_key_is_set_once(cluster: Cluster) -> Complaints:
    """A key in slurm_conf or slurmdbd_conf would replace the line that slurmfab writes for a key at the top."""
    spelled = {key.lower(): key for key in cluster.slurm_conf}
    for name, keys in LINES_OF.items():
        for key in keys if getattr(cluster, name) not in (None, {}, (), False) else ():
            if key.lower() in spelled:
                yield ("slurm_conf", spelled[key.lower()]), _TWICE.format(key, name)
    for key in cluster.slurmdbd_conf if cluster.private_data else ():
        if key.lower() == "privatedata":
            yield ("slurmdbd_conf", key), _TWICE.format("PrivateData", "private_data")


def private_tmp_has_job_containers(cluster: Cluster) -> Complaints:
    """slurmd does not start with job_container/tmpfs but without PrologFlags=Contain (slurm.conf(5), PrologFlags)."""
    for key, value in cluster.slurm_conf.items() if cluster.private_tmp else ():
        flags = {flag.strip().lower() for flag in (value or "").split(",")}
        if key.lower() == "prologflags" and not {"contain", "x11"} & flags:
            yield ("slurm_conf", key), "private_tmp needs Contain among the flags, or slurmd does not start"


def a_node_fetches_files(cluster: Cluster) -> Complaints:
    """A controller reads its own files, even where it is also a compute node."""
    if cluster.configless and not any(map(cluster.fetches, cluster.compute_nodes)):
        yield (
            ("configless",),
            "every compute node is also a controller, which has its own files: no host would fetch any",
        )


def configless_keeps_its_settings(cluster: Cluster) -> Complaints:
    """Settings with which slurmctld serves no files, or slurmd does not find its spool directory."""
    for key, value in cluster.slurm_conf.items() if cluster.configless else ():
        if key.lower() == "slurmctldparameters" and value is None:
            reason = f"null leaves the line out, and configless needs {CONFIGLESS_OPTION} in it; remove this key"
            yield ("slurm_conf", key), reason
        if key.lower() == "slurmdspooldir" and "%n" in (value or ""):
            yield (
                ("slurm_conf", key),
                "configless does not allow %n here: slurmd reads its NodeName from the files in this directory",
            )


def configless_option_comes_from_its_key(cluster: Cluster) -> Complaints:
    """If slurmctld serves files while slurmd has its own, the only effect is error messages in their logs."""
    for key, value in cluster.slurm_conf.items() if not cluster.configless else ():
        options = {word.strip().lower() for word in (value or "").split(",")}
        if key.lower() == "slurmctldparameters" and CONFIGLESS_OPTION in options:
            yield (
                ("slurm_conf", key),
                f"with {CONFIGLESS_OPTION} alone no node fetches files; set configless: true at the top",
            )


def one_way_to_preempt(cluster: Cluster) -> Complaints:
    """A cluster has one PreemptType (slurm.conf(5)): either partitions or QOS decide whose jobs are preempted."""
    if any(key.lower() == "preempttype" for key in cluster.slurm_conf):
        return
    if preempts_by_partition([one.settings for one in cluster.partitions]):
        for number, qos in enumerate(cluster.qos):
            if preempts_by_qos([qos.settings]):
                yield (
                    ("qos", number),
                    (
                        f'"{qos.name}" preempts by Preempt, and partitions preempt by PriorityTier and PreemptMode; '
                        "Slurm supports one of the two. Remove one, or choose by slurm_conf: {PreemptType: …}"
                    ),
                )


def daemons_have_ports_of_their_own(cluster: Cluster) -> Complaints:
    """Where both daemons run, each needs its own port."""
    ports = {key.lower(): (key, value) for key, value in cluster.slurm_conf.items() if value and key.lower() in _PORTS}
    both = [host for host in cluster.controllers if host in cluster.compute_nodes]
    values = [ports.get(name, ("", default))[1] for name, default in _PORTS.items()]
    if ports and both and values[0] == values[1]:
        reason = f"slurmctld and slurmd on {both[0]} cannot both listen at port {values[0]}"
        yield ("slurm_conf", next(iter(ports.values()))[0]), reason


def partitions_let_jobs_run(cluster: Cluster) -> Complaints:
    """With a least number of nodes above the greatest, or above all, no job runs; with such times none without one."""
    for number, partition in enumerate(cluster.partitions):
        found = {key.lower(): (key, value.strip()) for key, value in partition.settings.items()}
        for (low, high), amount in _LIMITS.items():
            (key, least), (other, most) = found.get(low, ("", "")), found.get(high, ("", ""))
            floor, ceiling = amount(least), amount(most)
            if floor is not None and ceiling is not None and floor > ceiling:
                yield ("partitions", number, "settings", key), f'"{least}" is more than {other}, "{most}"'
        key, least = found.get("minnodes", ("", ""))
        size = len(cluster.named_nodes if partition.nodes == "ALL" else partition.nodes)
        if size and (whole_number(least) or 0) > size:
            reason = f'"{least}" is more than the {size} nodes of the partition, so no job could run there'
            yield ("partitions", number, "settings", key), reason


def whole_number(text: str) -> int | None:
    """The number in a text; `None` for other texts, such as UNLIMITED."""
    return int(text) if text.isdecimal() else None


_PORTS = {"slurmctldport": "6817", "slurmdport": "6818"}
_LIMITS: Mapping[tuple[str, str], Callable[[str], int | None]] = {
    ("minnodes", "maxnodes"): whole_number,
    ("defaulttime", "maxtime"): seconds_of,
}
