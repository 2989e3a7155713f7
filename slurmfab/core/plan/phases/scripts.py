"""Programs on compute nodes that slurm.conf names: prolog and epilog scripts, health check, variables, directories.

They are installed before the slurm.conf that names them, and removed after it no longer does, because Slurm drains a
node whose prolog is missing.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping

from slurmfab.base.hostlist import expand, expand_files
from slurmfab.base.paths import HEALTH_CHECK, HEALTH_PROGRAM, HEALTH_SETTINGS, PROGRAMS, SLURM_SPOOL
from slurmfab.cluster.inventory.health import Health, directory_of
from slurmfab.cluster.inventory.job_scripts import key_of
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.node_lines import node_settings
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.directories import spool_directory
from slurmfab.core.plan.phases import idle_gpus, oci, podman, scratch, site_files
from slurmfab.core.plan.phases.capability import program_files
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.phases.slurm_conf import has_own_files
from slurmfab.core.plan.plan_input import PlanInput, node_programs
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.files.scripts import Scripts

KINDS = ("prolog", "epilog")
SCRIPTS = "/etc/slurm/{}.d"
MPS_SCRIPTS = {"prolog": "00-slurmfab-mps", "epilog": "zz-slurmfab-mps"}
HEALTH = "health"
TASK_PROLOG = f"{PROGRAMS}/task-prolog"  # what slurm.conf names as TaskProlog


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The scripts, the health check and the variables of jobs of a compute node; empty for other hosts."""
    kinds, health = wanted(plan_input, host)
    variables = task_prolog(plan_input, host)
    if not kinds and health is None and not variables:
        return ()
    return (
        Directory(PROGRAMS),
        *scratch.resources(plan_input, host),
        *(resource for kind in kinds for resource in around_jobs(plan_input, host, kind)),
        *(health_check(plan_input, host, health) if health is not None else ()),
        *variables,
    )


def wanted(plan_input: PlanInput, host: str) -> tuple[tuple[str, ...], Health | None]:
    """The kinds of scripts (`prolog`, `epilog`) and the health check that a host gets; none if no compute node."""
    if not plan_input.is_compute_node(host):
        return (), None
    programs_of_nodes = node_programs(plan_input.cluster)
    has = {"prolog": programs_of_nodes.has_prolog, "epilog": programs_of_nodes.has_epilog}
    return tuple(kind for kind in KINDS if has[kind]), plan_input.cluster.health


def task_prolog(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The program that gives jobs on a compute node their variables; empty without any."""
    environment, directories = plan_input.cluster.job_environment, plan_input.cluster.scratch
    if not node_programs(plan_input.cluster).has_task_prolog or not plan_input.is_compute_node(host):
        return ()
    # PMIx 5, as in Debian 13, has memory in files of /tmp for the programs that it serves, and they fail without.
    variables = {
        **({"PMIX_MCA_gds": "hash"} if plan_input.cluster.hides_pmix else {}),
        **(environment.of_node(host) if environment else {}),
    }
    place = (directories.path, directories.variable, directories.tmpdir) if directories else None
    has_apptainer = uses(plan_input, host, "apptainer")
    return (File(TASK_PROLOG, task_prolog_text(tuple(variables.items()), place, has_apptainer), mode=0o755),)


@functools.cache
def task_prolog_text(
    variables: tuple[tuple[str, str], ...],
    directories: tuple[str, str, bool] | None = None,
    has_apptainer: bool = False,
) -> str:
    """The text of that program, cached because it is the same on many nodes.

    `directories`: the variable that tells jobs their own directory, and whether TMPDIR is it, too; `None` without such.
    """
    place = dict(zip(("path", "variable", "tmpdir"), directories, strict=True)) if directories else None
    return fill("task-prolog", {"variables": variables, "scratch": place, "apptainer": has_apptainer})


def around_jobs(plan_input: PlanInput, host: str, kind: str) -> tuple[Resource, ...]:
    """A compute node's directory of scripts, perhaps empty, and the program that runs them by name."""
    directory = SCRIPTS.format(kind)
    scripts = plan_input.cluster.prolog if kind == "prolog" else plan_input.cluster.epilog
    key = key_of(kind, scripts, directory_of(scripts, host))
    return (
        Scripts(directory, (*plan_input.scripts.get(key, ()), *own_scripts(plan_input, host, kind))),
        File(f"{PROGRAMS}/{kind}", filled(kind, directory=directory), mode=0o755),
    )


def own_scripts(plan_input: PlanInput, host: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Name and text of slurmfab's own scripts of a kind on a compute node."""
    return (
        *scratch.script(plan_input, host, kind),
        *idle_gpus.script(plan_input, host, kind),
        *podman.script(plan_input, host, kind),
        *(((MPS_SCRIPTS[kind], filled("mps", kind=kind)),) if plan_input.cluster.mps_daemon else ()),
    )


def health_check(plan_input: PlanInput, host: str, health: Health) -> tuple[Resource, ...]:
    """The health check's program, its settings, and the script that slurmd starts."""
    return (
        Program(HEALTH_PROGRAM, program_files("programs.health.main")),
        File(HEALTH_SETTINGS, settings(plan_input, host, health)),
        File(HEALTH_CHECK, filled("health-check", program=HEALTH_PROGRAM, settings=HEALTH_SETTINGS), mode=0o755),
    )


@functools.cache
def filled(name: str, **context: str) -> str:
    """The text of the template `name` (without `.j2`) with these values, cached: it is the same on all nodes."""
    return fill(name, context)


def settings(plan_input: PlanInput, host: str, health: Health) -> str:
    """The settings of the health check on one node as JSON text."""
    line = node_settings(plan_input.node(host), plan_input.cluster.memory_margin)
    promised = {key.lower(): str(value) for key, value in line.items()}
    # The default is about slurmd's directory, wherever that is; a path that the user wrote is meant.
    spool = SLURM_SPOOL if "disk" in health.model_fields_set else spool_directory(plan_input, host)
    memory, gres = promised.get("realmemory", ""), promised.get("gres", "")
    found = {
        "node": host,
        "interval": health.interval,
        "mounts": list(mount_points(plan_input, host, health)),
        "disk": {spool if path == SLURM_SPOOL else path: least for path, least in health.disk.items()},
        "memory": int(memory) if health.memory and memory.isdecimal() else 0,
        "gpus": list(gpu_files(plan_input, host)) if health.gpus and "gpu" in gres else [],
        "clock": health.clock,
        "daemons": list(health.daemons),
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def mount_points(plan_input: PlanInput, host: str, health: Health) -> tuple[str, ...]:
    """The mount points that the health check of a node looks at: those that `health` names, or else all `mounts`."""
    if "mounts" in health.model_fields_set:
        return health.mounts
    return tuple(one.path for one in mounts_of(plan_input.cluster, host))


def gpu_files(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The device files of a node's GPUs: from gres.conf, or from the lock if gres.conf lists none (AutoDetect)."""
    files = files_by_node(plan_input.rendered.get("gres.conf", "")).get(host, ())
    return files or tuple(gpu.file for gpu in plan_input.host(host).gpus if gpu.file)


@functools.lru_cache(maxsize=2)
def files_by_node(gres_conf: str) -> Mapping[str, tuple[str, ...]]:
    """The device files of GPUs by node, from the text of a gres.conf (gres.conf(5))."""
    found: dict[str, tuple[str, ...]] = {}
    for line in gres_conf.splitlines():
        settings = dict(re.findall(r"(\w+)=(\S+)", line.partition("#")[0]))
        named = settings.get("File") or settings.get("MultipleFiles")
        if settings.get("Name") == "gpu" and named and "NodeName" in settings:
            files = expand_files(named)
            for node in expand(settings["NodeName"]):
                found[node] = tuple(dict.fromkeys((*found.get(node, ()), *files)))
    return found


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of programs and files of the site's; the program that facts tell goes last, for the next run."""
    kinds, health = wanted(plan_input, host)
    there = plan_input.facts[host].programs
    former = [kind for kind in KINDS if kind in there and kind not in kinds]
    return (
        *(one for kind in former for one in (Scripts(SCRIPTS.format(kind), ()), Absent(f"{PROGRAMS}/{kind}"))),
        *((Absent(TASK_PROLOG),) if "task-prolog" in there and not task_prolog(plan_input, host) else ()),
        *(health_gone() if health is None and {"health-check", HEALTH} & set(there) else ()),
        *scratch.gone(plan_input, host),
        *site_files.former(plan_input, host, has_own_files=has_own_files(plan_input, host), read_by_daemons=False),
        *oci.gone(plan_input, host),
    )


def health_gone() -> tuple[Resource, ...]:
    """The removal of the health check."""
    return Absent(HEALTH_SETTINGS), Absent(HEALTH_CHECK), Program(HEALTH_PROGRAM, ())
