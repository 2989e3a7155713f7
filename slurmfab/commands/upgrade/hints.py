"""What an upgrade would change or hurt: keys and plugins that go, jobs, held packages, and silent hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.scratch import unknown_to
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.gres import KEYS_OF_GRES_CONF
from slurmfab.cluster.slurm.versions import SlurmVersion, complaints
from slurmfab.commands.upgrade.asked import Asked, HostState
from slurmfab.commands.upgrade.plan import HostVersions
from slurmfab.on_hosts.agent.core.listing import listed

PLUGIN_VALUE = re.compile(r"\b([a-z_]+)/([a-z0-9_]+)\b")
PLUGIN_KEYS = {"jobsubmitplugins": "job_submit", "clifilterplugins": "cli_filter", "mpidefault": "mpi"}
"""Keys of slurm.conf whose values are plugins without their kind in front."""

RENAMED: Mapping[str, str] = {
    "job_container_tmpfs": "namespace_tmpfs",
    "topology_3d_torus": "topology_torus3d",
    "topology_default": "topology_flat",
}
"""Plugins with another name in newer versions; slurmfab writes the new one where it writes the line."""

MOST_NAMED = 8  # the most names in a sentence


def key_refusals(asked: Asked, to: SlurmVersion) -> Iterator[str]:
    """Yield the settings with which the new daemons would not start, and those that they would ignore."""
    cluster = asked.cluster
    found = complaints(
        to,
        cluster.slurm_conf,
        cluster.cgroup_conf,
        cluster.node_keys - {*KEYS_OF_GRES_CONF},
        {key for partition in cluster.partitions for key in partition.settings},
        slurmdbd_conf=cluster.slurmdbd_conf,
    )
    for complaint in (*found, *unknown_to(cluster.private_tmp, to)):
        yield f"{complaint}. Change that in the cluster file first."
    if asked.is_hand_made:
        yield from hand_made_keys(asked, to)


def hand_made_keys(asked: Asked, to: SlurmVersion) -> Iterator[str]:
    """Yield the same of the files that somebody made by hand."""
    conf, cgroups = parse(asked.slurm_conf), parse(asked.cgroup_conf)
    own = {"nodename", "partitionname", "include", "nodeset", "downnodes", "slurmctldhost"}
    settings = {conf.spelled.get(key, key): value for key, value in conf.settings.items() if key not in own}
    named = {cgroups.spelled.get(key, key): value for key, value in cgroups.settings.items()}
    nodes = {key for line in conf.node_lines for key in line.settings}
    partitions = {key for partition in conf.partitions.values() for key in partition}
    known_now = set(complaints(asked_series(asked) or to, settings, named, nodes, partitions))
    for complaint in complaints(to, settings, named, nodes, partitions):
        if complaint not in known_now:
            yield f"{complaint.replace('slurm_conf.', 'slurm.conf: ', 1)}. Change that in the controller's file first."


def asked_series(asked: Asked) -> SlurmVersion | None:
    """The series that the controller has now, if slurmfab knows its keys."""
    programs = asked.hosts.get(asked.cluster.controller, HostState("")).programs
    text = programs.get("slurmctld", "")
    return SlurmVersion.parse(text) if text else None


def plugin_refusals(asked: Asked) -> Iterator[str]:
    """Yield the plugins that slurm.conf names and that would not be there, or not be loaded, after the upgrade."""
    mpi = asked.cluster.mpi
    named = {**plugins_named(asked.slurm_conf), **({f"mpi_{mpi.kind}": "mpi"} if mpi else {})}
    for release, some in grouped((asked.hosts[host].release, host) for host in asked.offers).items():
        states = [asked.hosts[host] for host in some]
        foreign = {name for state in states for name in state.foreign}
        there = {name for state in states for name in state.plugins} - foreign
        offered = {name for host in some for name in asked.offers[host].plugins}
        is_new = any(asked.offers[host].versions or asked.offers[host].others for host in some)
        for name, key in named.items():
            if name in foreign and is_new:
                yield (
                    f"{key} needs the plugin {name}, which no package of Slurm's has: it was built for the Slurm of "
                    "now, and the new one would not start with it. Leave it out, and add it again when it is built for "
                    "the new one."
                )
            is_renamed = RENAMED.get(name) in offered and not asked.is_hand_made
            if offered and name in there and name not in offered and not is_renamed:
                yield (
                    f"{key} needs the plugin {name}, which the new packages for {release} do not have. Slurm would not "
                    "work with it: leave it out of the cluster file first."
                )


def plugins_named(slurm_conf: str) -> dict[str, str]:
    """The key that names each plugin in a slurm.conf, by the plugin's name, such as `mpi_pmix`."""
    conf = parse(slurm_conf)
    found: dict[str, str] = {}
    for key, value in conf.settings.items():
        spelled = conf.spelled.get(key, key)
        if kind := PLUGIN_KEYS.get(key):
            words = [word.strip() for word in value.split(",")]
            found.update({f"{kind}_{word}": spelled for word in words if re.fullmatch(r"[a-z0-9_]+", word)})
        elif key.endswith(("type", "plugin", "plugins")):
            found.update({f"{kind}_{word}": spelled for kind, word in PLUGIN_VALUE.findall(value)})
    return found


def warnings(asked: Asked, hosts: Mapping[str, HostVersions]) -> Iterator[str]:
    """Yield what people should know before the upgrade begins."""
    yield from of_plugins(asked)
    yield from of_jobs(asked)
    yield from of_packages(asked)
    yield from of_daemons(hosts)
    yield from of_users(hosts)
    for line in fold_lines(asked.out_of_service.items()):
        yield f"{line}. Its slurmd gets the new Slurm, too; no job proves it, and it stays out of service."
    for line in fold_lines((host, f"did not answer: {reason.rstrip('.')}") for host, reason in asked.silent.items()):
        yield f"{line}. It keeps its Slurm; upgrade it when it answers."


def of_plugins(asked: Asked) -> Iterator[str]:
    """Yield plugins that no package of Slurm's renews: they have to be built for the new version."""
    foreign: dict[str, list[str]] = {}
    required: dict[str, list[str]] = {}
    optional: dict[str, list[str]] = {}
    for host, state in asked.hosts.items():
        if not (asked.offer(host).versions or asked.offer(host).others):
            continue
        loaded = {one.path.rpartition("/")[2].removesuffix(".so") for one in state.spank}
        for name in state.foreign:
            if name not in loaded:
                foreign.setdefault(name, []).append(host)
        for one in state.spank:
            if not one.is_slurms:
                (required if one.is_required else optional).setdefault(one.path, []).append(host)
    for name, some in list(foreign.items())[:MOST_NAMED]:
        yield (
            f"{fold(some)}: the plugin {name} belongs to no package of Slurm's. Slurm loads only plugins of exactly "
            "its own version: build it for the new one."
        )
    for path, some in required.items():
        yield (
            f"{fold(some)}: plugstack.conf requires the SPANK plugin {path}, which has to be of Slurm's own series: "
            "until it is built for the new one, every srun there fails. Have it ready, or write optional instead of "
            "required for the time of the upgrade."
        )
    for path, some in optional.items():
        yield (
            f"{fold(some)}: the SPANK plugin {path} has to be of Slurm's own series: Slurm leaves it out until it is "
            "built for the new one."
        )


def of_jobs(asked: Asked) -> Iterator[str]:
    """Yield what runs and waits, and the jobs for which somebody waits on a terminal."""
    state = asked.hosts.get(asked.cluster.controller)
    if state is None or state.jobs is None:
        if state is not None and state.no_jobs:
            yield f"slurmctld could not tell its jobs: {state.no_jobs}"
        return
    waiting = [job for job in state.jobs if job[3] == "0" and job[2] in ("RUNNING", "PENDING", "CONFIGURING")]
    if waiting:
        names = listed((f"{job} of {user}" for job, user, *_ in waiting), MOST_NAMED)
        yield (
            f"srun or salloc waits for {names}. These jobs go on; what their users begin there waits while "
            "slurmctld or the node's slurmd restarts. Tell these users."
        )


def of_packages(asked: Asked) -> Iterator[str]:
    """Yield held packages, and packages that would come along."""
    held: dict[str, list[str]] = {}
    for host, state in asked.hosts.items():
        for name in state.held:
            if name in asked.offer(host).versions:
                held.setdefault(name, []).append(host)
    for name, some in held.items():
        yield f"{fold(some)}: {name} is held. The upgrade changes it all the same; the hold stays."
    others = ((tuple(sorted(offer.others.items())), host) for host, offer in asked.offers.items() if offer.others)
    for packages, some in grouped(others).items():
        names = [f"{name} {version}" for name, version in packages]
        yield f"{fold(some)}: these packages come along: {listed(names, MOST_NAMED)}."


def of_daemons(hosts: Mapping[str, HostVersions]) -> Iterator[str]:
    """Yield daemons that run an older program than the one on the disk."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for host, versions in hosts.items():
        for daemon, running in versions.running.items():
            new = versions.programs.get(daemon, running)
            if new != running:
                found.setdefault((daemon, running, new), []).append(host)
    for (daemon, running, new), some in found.items():
        yield (
            f"{fold(some)}: {daemon} still runs version {running}, although {new} is installed, as after an upgrade "
            f"with apt by hand. The upgrade starts it anew in its turn ({FAB} check-cluster tells more)."
        )


def of_users(hosts: Mapping[str, HostVersions]) -> Iterator[str]:
    """Yield processes that go on with the old files, since no service can be restarted for them."""
    lines: list[tuple[str, str]] = []
    for host, versions in hosts.items():
        those = [one for one in versions.users if not one.unit and (one.is_old or versions.offered)]
        some = Counter(f"{one.program} of {one.user}" for one in those)
        if some:
            told = (name + (f" ({count} processes)" if count > 1 else "") for name, count in some.most_common())
            why = "no service, so this keeps Slurm's old files until it ends."
            lines.append((host, f"{listed(told, MOST_NAMED)}: {why}"))
    yield from fold_lines(lines)
