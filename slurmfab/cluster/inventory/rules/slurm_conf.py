"""Rules about slurm_conf in a cluster file, and about the keys at the top that write lines of slurm.conf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.slurm.preemption import preempts_by_partition, preempts_by_qos
from slurmfab.on_hosts.programs.user_tools.amounts import seconds_of

CONFIGLESS_OPTION = "enable_configless"
"""The option of SlurmctldParameters with which slurmctld serves its files (slurm.conf(5))."""

_WRITTEN_FOR: Mapping[str, tuple[str, ...]] = {
    "database": ("AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort"),
    "licenses": ("Licenses",),
    "private_tmp": ("JobContainerType", "NamespaceType"),
    "prolog": ("Prolog",),
    "epilog": ("Epilog",),
    "health": ("HealthCheckProgram", "HealthCheckInterval"),
    "mps_daemon": ("Prolog", "Epilog"),
    "scratch": ("Prolog", "Epilog", "TaskProlog"),
    "power": (
        "SuspendProgram",
        "ResumeProgram",
        "SuspendTime",
        "SuspendTimeout",
        "ResumeTimeout",
        "SuspendRate",
        "ResumeRate",
        "SuspendExcNodes",
    ),
    "mail": ("MailProg",),
    "mpi": ("MpiDefault",),
    "private_data": ("PrivateData",),
    "rest": ("AuthAltTypes", "AuthAltParameters"),
}
"""By key at the top of the cluster file, the keys of slurm.conf that slurmfab writes because of it."""

_TWICE = "slurmfab writes {} itself: it comes from the key {} at the top; remove one of the two"


def each_key_is_set_once(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A key in slurm_conf or slurmdbd_conf would replace the line that slurmfab writes for a key at the top."""
    spelled = {key.lower(): key for key in cluster.slurm_conf}
    for name, keys in _WRITTEN_FOR.items():
        for key in keys if getattr(cluster, name) not in (None, {}, (), False) else ():
            if key.lower() in spelled:
                yield ("slurm_conf", spelled[key.lower()]), _TWICE.format(key, name)
    for key in cluster.slurmdbd_conf if cluster.private_data else ():
        if key.lower() == "privatedata":
            yield ("slurmdbd_conf", key), _TWICE.format("PrivateData", "private_data")


def private_tmp_has_job_containers(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmd does not start with job_container/tmpfs but without PrologFlags=Contain (slurm.conf(5), PrologFlags)."""
    for key, value in cluster.slurm_conf.items() if cluster.private_tmp else ():
        flags = {flag.strip().lower() for flag in (value or "").split(",")}
        if key.lower() == "prologflags" and not {"contain", "x11"} & flags:
            yield ("slurm_conf", key), "private_tmp needs Contain among the flags, or slurmd does not start"


def a_node_fetches_files(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A controller reads its own files, even where it is also a compute node."""
    if cluster.configless and not any(map(cluster.fetches, cluster.compute_nodes)):
        yield (
            ("configless",),
            "every compute node is also a controller, which has its own files: no host would fetch any",
        )


def configless_keeps_its_settings(cluster: Cluster) -> Iterator[tuple[Place, str]]:
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


def configless_option_comes_from_its_key(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """If slurmctld serves files while slurmd has its own, the only effect is error messages in their logs."""
    for key, value in cluster.slurm_conf.items() if not cluster.configless else ():
        options = {word.strip().lower() for word in (value or "").split(",")}
        if key.lower() == "slurmctldparameters" and CONFIGLESS_OPTION in options:
            yield (
                ("slurm_conf", key),
                f"with {CONFIGLESS_OPTION} alone no node fetches files; set configless: true at the top",
            )


def one_way_to_preempt(cluster: Cluster) -> Iterator[tuple[Place, str]]:
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


def ports_are_ports(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Slurm 24.11 takes port 70000 and listens at 4464; and where both daemons run, each needs its own port."""
    ports = {key.lower(): (key, value) for key, value in cluster.slurm_conf.items() if value and key.lower() in _PORTS}
    for key, value in ports.values():
        if not all(part.isdecimal() and 0 < int(part[:10]) <= HIGHEST_PORT for part in value.split("-")):
            yield ("slurm_conf", key), f'"{value}" is not a port; write a number from 1 to {HIGHEST_PORT}'
    both = [host for host in cluster.controllers if host in cluster.compute_nodes]
    values = [ports.get(name, ("", default))[1] for name, default in _PORTS.items()]
    if ports and both and values[0] == values[1]:
        reason = f"slurmctld and slurmd on {both[0]} cannot both listen at port {values[0]}"
        yield ("slurm_conf", next(iter(ports.values()))[0]), reason


def partitions_let_jobs_run(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """With a least number of nodes above the greatest, or above all, no job runs; with such times none without one."""
    for number, partition in enumerate(cluster.partitions):
        found = {key.lower(): (key, value.strip()) for key, value in partition.settings.items()}
        for (low, high), amount in _LIMITS.items():
            (key, least), (other, most) = found.get(low, ("", "")), found.get(high, ("", ""))
            floor, ceiling = amount(least), amount(most)
            if floor is not None and ceiling is not None and floor > ceiling:
                yield ("partitions", number, "settings", key), f'"{least}" is more than {other}, "{most}"'
        key, least = found.get("minnodes", ("", ""))
        size = len(cluster.compute_nodes if partition.nodes == "ALL" else partition.nodes)
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

RULES = (
    each_key_is_set_once,
    private_tmp_has_job_containers,
    a_node_fetches_files,
    configless_keeps_its_settings,
    configless_option_comes_from_its_key,
    one_way_to_preempt,
    ports_are_ports,
    partitions_let_jobs_run,
)
