"""What slurm.conf names and daemons run: prolog and epilog scripts, the health check, private directories of jobs.

It is there before the slurm.conf that names it, and goes when nothing names it any more: a node whose prolog is missing
would be taken out of service.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping

from slurmfab.agent.absent import Absent
from slurmfab.agent.directory import Directory
from slurmfab.agent.file import File
from slurmfab.agent.program import Program
from slurmfab.agent.resource import Resource
from slurmfab.agent.scripts import Scripts
from slurmfab.clusterfile.health import Health
from slurmfab.hostlist import expand
from slurmfab.phases import programs
from slurmfab.situation import Situation
from slurmfab.slurm.node_lines import node_settings
from slurmfab.slurm.node_programs import PROGRAMS
from slurmfab.slurm.render import fill

KINDS = ("prolog", "epilog")
SCRIPTS = "/etc/slurm/{}.d"
HEALTH = "health"
HEALTH_PROGRAM = f"{PROGRAMS}/{HEALTH}"
HEALTH_CHECK = f"{PROGRAMS}/health-check"
HEALTH_SETTINGS = "/etc/slurmfab-health.json"

HEALTH_MODULES = (
    *(f"agent.{name}" for name in ("differences", "node_states", "reasons", "record", "resource")),
    *(f"programs.{name}" for name in ("health", "health_gpus", "health_looks", "health_node", "health_probe")),
)
"""The modules that the health check takes."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """All of it that the host needs."""
    kinds, health = wanted(situation, host)
    if not kinds and health is None:
        return ()
    return (
        Directory(PROGRAMS),
        *(resource for kind in kinds for resource in around_jobs(situation, kind)),
        *(health_check(situation, host, health) if health is not None else ()),
    )


def wanted(situation: Situation, host: str) -> tuple[tuple[str, ...], Health | None]:
    """Which scripts a host runs around jobs, and what it looks at; a host without jobs nothing of it."""
    if not situation.is_compute_node(host):
        return (), None
    cluster = situation.cluster
    said = {"prolog": cluster.prolog, "epilog": cluster.epilog}
    return tuple(kind for kind in KINDS if said[kind] is not None), cluster.health


def around_jobs(situation: Situation, kind: str) -> tuple[Resource, ...]:
    """A directory of scripts, and what runs them in order."""
    directory = SCRIPTS.format(kind)
    return (
        Scripts(directory, situation.scripts.get(kind, ())),
        File(f"{PROGRAMS}/{kind}", filled(kind, directory=directory), mode=0o755),
    )


def health_check(situation: Situation, host: str, health: Health) -> tuple[Resource, ...]:
    """The program, what it is told, and what slurmd starts."""
    return (
        Program(HEALTH_PROGRAM, programs.files("programs.health", HEALTH_MODULES)),
        File(HEALTH_SETTINGS, settings(situation, host, health)),
        File(HEALTH_CHECK, filled("health-check", program=HEALTH_PROGRAM, settings=HEALTH_SETTINGS), mode=0o755),
    )


@functools.cache
def filled(name: str, **context: str) -> str:
    """The text of a file that is the same on all nodes, however many there are."""
    return fill(name, context)


def settings(situation: Situation, host: str, health: Health) -> str:
    """What the program is told: the node's name, and what it must have."""
    line = node_settings(situation.node(host), situation.cluster.memory_margin)
    promised = {key.lower(): str(value) for key, value in line.items()}
    memory, gres = promised.get("realmemory", ""), promised.get("gres", "")
    found = {
        "node": host,
        "interval": health.interval,
        "mounts": list(health.mounts),
        "disk": dict(health.disk),
        "memory": int(memory) if health.memory and memory.isdigit() else 0,
        "gpus": list(gpu_files(situation, host)) if health.gpus and "gpu" in gres else [],
        "clock": health.clock,
        "daemons": list(health.daemons),
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def gpu_files(situation: Situation, host: str) -> tuple[str, ...]:
    """The device files of a node's GPUs: those of gres.conf, or where Slurm finds them by itself those of the lock."""
    said = files_by_node(dict(situation.files).get("gres.conf", "")).get(host, ())
    return said or tuple(gpu.file for gpu in situation.host(host).gpus if gpu.file)


@functools.lru_cache(maxsize=2)
def files_by_node(gres_conf: str) -> Mapping[str, tuple[str, ...]]:
    """The device files of GPUs by node, from the lines of a gres.conf (gres.conf(5))."""
    found: dict[str, tuple[str, ...]] = {}
    for line in gres_conf.splitlines():
        words = dict(re.findall(r"(\w+)=(\S+)", line.partition("#")[0]))
        said = words.get("File") or words.get("MultipleFiles")
        if words.get("Name") == "gpu" and said and "NodeName" in words:
            files = tuple(devices(said))
            for node in expand(words["NodeName"]):
                found[node] = tuple(dict.fromkeys((*found.get(node, ()), *files)))
    return found


def devices(text: str) -> tuple[str, ...]:
    """The paths in a File of gres.conf, where a range in brackets stands for several."""
    paths: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        head, bracket, tail = part.partition("[")
        ranges, _, rest = tail.partition("]")
        for one in ranges.split(",") if bracket else [""]:
            first, _, last = one.partition("-")
            numbers = range(int(first), int(last or first) + 1) if one else ()
            paths += [f"{head}{number}{rest}" for number in numbers] if one else [head]
    return tuple(paths)


def gone(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The end of what no slurm.conf names any more; what tells that there is more goes last."""
    kinds, health = wanted(situation, host)
    there = situation.facts[host].programs
    former = [kind for kind in KINDS if kind in there and kind not in kinds]
    return (
        *(one for kind in former for one in (Scripts(SCRIPTS.format(kind), ()), Absent(f"{PROGRAMS}/{kind}"))),
        *(health_gone() if health is None and {"health-check", HEALTH} & set(there) else ()),
    )


def health_gone() -> tuple[Resource, ...]:
    """Nothing of the health check."""
    return Absent(HEALTH_SETTINGS), Absent(HEALTH_CHECK), Program(HEALTH_PROGRAM, ())
