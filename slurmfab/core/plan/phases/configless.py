"""Nodes that fetch Slurm's files from slurmctld (`configless`): the drop-in of slurmd's unit, and both changes of mode.

Local to configless: the node gets the new local files first; when slurmctld serves them, slurmd is restarted and
fetches them, and then the local files are removed. So Slurm's commands on the node always find files. Configless to
local: the node gets local files, and slurmd reads them, before slurmctld stops serving files. The state of each step
can be read from the host, so the next run continues an interrupted one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.rules.slurm_conf import CONFIGLESS_OPTION
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.site_files import is_served
from slurmfab.cluster.slurm.versions import SlurmVersion, reconfigure_renews_daemons
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.impact.slurm_diff import DEVICES, NODE_LINE, SETTING, Difference
from slurmfab.core.plan.phases import restarts, site_files
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.phases.slurm_conf import (
    JOB_CONTAINER,
    WATCHED,
    is_about_to_fetch,
    port,
    read_by_slurmd,
    site_servers,
)
from slurmfab.core.plan.plan_input import PlanInput, digest
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded
from slurmfab.on_hosts.agent.slurm.carried_files import CarriedFiles
from slurmfab.on_hosts.agent.slurm.fetched_files import FetchedFiles

OURS = ("slurm.conf", "gres.conf", "cgroup.conf", JOB_CONTAINER)  # the files that slurmfab writes itself

GIVEN_UP = "# slurmd reads files of its own again, once it has been restarted; then slurmfab removes this.\n"
"""The text of the drop-in between the first and the last step back to local files."""


BY_SLURMCTLD = (Requirement.NOTHING, Requirement.RECONFIGURE, Requirement.RESTART_SLURMCTLD)
"""The requirements that slurmfab meets on the controllers alone."""

MORE_ON_NODES = (
    "Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "HealthCheckInterval", "JobContainerType",
    "NamespaceType", "SlurmdLogFile", "SlurmdPidFile", "SlurmdSpoolDir", "SlurmctldPort", "SlurmctldHost",
)  # fmt: skip
"""Settings that also change programs, directories or slurmd's command line on the nodes."""

OF_SLURMCTLD = ("Weight", "Feature", "Features", "State", "Reason")
"""Keys of a node line that only slurmctld uses; nothing on the node depends on them (slurm.conf(5))."""


def slurmd(plan_input: PlanInput, host: str, local: Service, *, carried: bool) -> tuple[Resource, ...]:
    """slurmd that fetches its files, and the removal of local files; the site's own way of fetching them stays.

    Args:
        host: a node that fetches its files according to the cluster file.
        local: the service of slurmd with local files.
    """
    own = site_servers(plan_input, host)
    running = Service("slurmd", watches=restarts.watched(plan_input, host))
    if own:
        return (FetchedFiles(own, digests(plan_input), carried), running, *site_files.fetched(plan_input))
    is_turning = is_about_to_fetch(plan_input, host)
    return (
        *((local,) if is_turning else ()),
        Directory(posixpath.dirname(CONFIGLESS_DROP_IN), "root", "root", 0o755),
        File(CONFIGLESS_DROP_IN, drop_in(plan_input, *started(plan_input, host))),
        FetchedFiles(servers(plan_input), digests(plan_input), carried and not is_turning),
        *(() if is_turning else (running,)),
        # Without private_tmp, a job_container.conf is not listed here: slurmfab may not have written it.
        *(Absent(path) for path in read_by_slurmd(plan_input)),
        *site_files.fetched(plan_input),
    )


@once
def digests(plan_input: PlanInput) -> tuple[tuple[str, str], ...]:
    """Name and SHA-256 (hexadecimal) of each of Slurm's files that slurmctld serves."""
    version = plan_input.slurm_version
    texts = {**dict(plan_input.files), **{file.name: file.text for file in site_files.served(plan_input)}}
    return tuple((name, digest(text)) for name, text in texts.items() if name in OURS or is_served(name, version))


@once
def drop_in(plan_input: PlanInput, program: str, mode: str) -> str:
    """The text of the drop-in of slurmd's unit on hosts with this path of slurmd and these options."""
    return fill("slurmd-configless.conf", {"program": program, "mode": mode, "servers": servers(plan_input)})


def started(plan_input: PlanInput, host: str) -> tuple[str, str]:
    """The path of slurmd on a host, and its options, by the packages and the version there."""
    platform = plan_input.platform_of(host)
    return platform.program("slurmd"), platform.slurmd_mode(plan_input.slurm_of(host))


@once
def servers(plan_input: PlanInput) -> str:
    """The value of slurmd's `--conf-server`: the controllers with their port, the primary first (slurmd(8))."""
    places = [(name, plan_input.address(name)) for name in plan_input.cluster.controllers if name in plan_input.members]
    # slurmd would take a colon in an IPv6 address for the one before the port.
    return ",".join(f"{name if ':' in address else address}:{port(plan_input)}" for name, address in places)


def given_up(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmd with local files again, before slurmctld stops serving files; an earlier phase has written them.

    The drop-in is removed last, because it shows a later run that the node still fetches its files.
    """
    if not stops_fetching(plan_input, host):
        return ()
    loaded = UnitsLoaded("configless", ("slurmd.service",))
    return (File(CONFIGLESS_DROP_IN, GIVEN_UP), Service("slurmd", watches=WATCHED), Absent(CONFIGLESS_DROP_IN), loaded)


def stops_fetching(plan_input: PlanInput, host: str) -> bool:
    """Whether a node fetches its files now and has local files according to the cluster file."""
    fetches = host in plan_input.facts and plan_input.facts[host].fetches
    return fetches and plan_input.is_compute_node(host) and not plan_input.cluster.fetches(host)


def carried(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The resource by which slurmctld sends its files to all configless nodes but new ones, also outside the run."""
    if host != plan_input.cluster.controller or not plan_input.cluster.configless:
        return ()
    nodes = tuple(
        name
        for name in plan_input.compute_nodes
        if plan_input.cluster.fetches(name) and not plan_input.is_on_trial(name)
    )
    if not nodes:
        return ()
    log = plan_input.conf_wanted.settings.get("slurmctldlogfile", "")
    watches = tuple(f"{SLURM_DIRECTORY}/{name}" for name, _ in plan_input.files)
    return (CarriedFiles(nodes, watches, log, reconfigure_renews_daemons(plan_input.slurm_version)),)


def obstacles(plan_input: PlanInput, hosts: Collection[str]) -> tuple[str, ...]:
    """Reasons why slurmctld cannot send a change to the nodes outside a run, a clause each; empty if it can."""
    cluster = plan_input.cluster
    if not cluster.configless:
        return ("slurm.conf has to be the same on all hosts",)
    left = [host for host in cluster.hosts if host not in hosts and not cluster.fetches(host)]
    found = [f"Slurm's files on {fold(left)} change too, so --hosts has to name {fold(left)} as well"] if left else []
    if CONFIGLESS_OPTION not in plan_input.setting_before("SlurmctldParameters").lower():
        found.append("the nodes do not fetch their files from slurmctld yet")
    return (*found, *needs_of_nodes(plan_input.differences, plan_input.oldest_slurm))


def refusal(plan_input: PlanInput, hosts: Collection[str]) -> str:
    """The message that refuses a change of Slurm's files by a run on some of the hosts; empty if it is allowed."""
    found = obstacles(plan_input, hosts)
    if not found:
        return ""
    return (
        f"slurm.conf on {plan_input.cluster.controller} does not match the cluster file, and a run on only some of the "
        f"hosts cannot change it: {'; '.join(found)}. First, without --hosts or --retry-failed: {FAB} deploy. Nothing "
        "was changed."
    )


def needs_of_nodes(differences: Collection[Difference], version: SlurmVersion) -> Iterator[str]:
    """Yield a clause for each difference that needs an action on the nodes."""
    for difference in differences:
        needed = need(difference, version)
        is_read_once = difference.file == "cgroup.conf" and not reconfigure_renews_daemons(version)
        if needed not in BY_SLURMCTLD or is_read_once:
            yield f"{difference} needs {Requirement.RESTART_SLURMD.value if is_read_once else needed.value}"
        elif changes_nodes(difference):
            yield f"{difference} needs more on the nodes than Slurm's files"


def changes_nodes(difference: Difference) -> bool:
    """Whether a difference changes more on the nodes than the files that slurmd fetches."""
    if difference.kind == NODE_LINE:
        return difference.key not in OF_SLURMCTLD
    is_of_jobs = difference.file == "job_container.conf"
    return is_of_jobs or difference.kind == DEVICES or (difference.kind == SETTING and difference.name in MORE_ON_NODES)
