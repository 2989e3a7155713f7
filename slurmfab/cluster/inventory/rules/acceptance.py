"""Rules about acceptance jobs: their scripts, figures, nodes and partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.acceptance import AcceptanceJob, Figure
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.own_jobs import LONGEST_JOB
from slurmfab.cluster.inventory.shipped_jobs import SHIPPED
from slurmfab.cluster.inventory.slurm_settings import Complaints, Place

OF_A_FIGURE = ("pattern", "unit", "target", "better")  # keys of a job that belong to its only figure
OWN_USERS = ("slurm", "root")  # users whose jobs run in slurmfab's own partition

_PATH = re.compile(r"[^\0\n]*[./][^\0\n]*")


def acceptance_jobs_have_a_script(cluster: Cluster) -> Complaints:
    """A script is a file, whose path has a dot or a slash, or one that slurmfab brings along."""
    for name, job in cluster.acceptance.items():
        if job.shipped(name) is not None:
            continue
        known = ", ".join(SHIPPED)
        if job.script is None:
            words = f"it needs the key script: a file beside the cluster file, or a shipped one (known: {known})"
            yield ("acceptance", name), words
        elif not _PATH.fullmatch(job.script):
            words = f'"{job.script}" is neither a shipped job (known: {known}) nor a path such as ./{job.script}'
            yield ("acceptance", name, "script"), words


def acceptance_jobs_have_figures(cluster: Cluster) -> Complaints:
    """Each figure has a pattern; what belongs to a figure is said of the only one, or of each of them."""
    for name, job in cluster.acceptance.items():
        shipped = job.shipped(name)
        brought = shipped.figures if shipped else {}
        of_one = [key for key in OF_A_FIGURE if getattr(job, key) is not None]
        if of_one and (job.figures or len(brought) > 1):
            known = f" (known: {', '.join(brought)})" if brought else ""
            yield ("acceptance", name, of_one[0]), f"the job has several figures; say that of each, in figures{known}"
        for key, figure in job.figures.items():
            if figure.pattern is None and key not in brought:
                why = f"it has no pattern, and {job.script or name} has no such figure (known: {', '.join(brought)})"
                yield (
                    ("acceptance", name, "figures", key),
                    why if brought else "it needs a pattern: a regular expression with one group around the figure",
                )
        yield from without_figures(name, job)


def without_figures(name: str, job: AcceptanceJob) -> Iterator[tuple[Place, str]]:
    """Complain about a job in whose output nothing is looked for."""
    is_own = job.shipped(name) is None and _PATH.fullmatch(job.script or "")
    if is_own and not job.figures and job.pattern is None:
        yield (("acceptance", name), "it needs a pattern, with one group around the figure; or figures, with one each")


def acceptance_targets_can_be_met(cluster: Cluster) -> Complaints:
    """Every figure meets a target of 0 where higher is better."""
    for name, job in cluster.acceptance.items():
        for key, figure in job.figures_of(name).items():
            if figure.target == 0 and figure.better != "lower":
                yield target_place(name, job, key, figure), "every figure is at least 0; write a higher target"


def target_place(name: str, job: AcceptanceJob, key: str, figure: Figure) -> Place:
    """Where the file has the target of a figure."""
    is_of_job = key not in job.figures or job.figures[key].target != figure.target
    return ("acceptance", name, "target") if is_of_job else ("acceptance", name, "figures", key, "target")


def acceptance_jobs_have_nodes(cluster: Cluster) -> Complaints:
    """The partition exists, and has the nodes; there are as many as a job wants."""
    known = frozenset(cluster.compute_nodes)
    partitions = {one.name: known if one.nodes == "ALL" else frozenset(one.nodes) for one in cluster.partitions}
    for name, job in cluster.acceptance.items():
        if job.partition is not None and job.partition not in partitions:
            words = f'"{job.partition}" is not a partition (known: {", ".join(partitions)})'
            yield ("acceptance", name, "partition"), words
            continue
        there = partitions[job.partition] if job.partition else known
        strange = [host for host in job.hosts if host not in there]
        if strange:
            where = f"not in the partition {job.partition}" if job.partition else "not a compute node"
            yield ("acceptance", name, "hosts"), f'"{fold(strange)}" is {where}'
        count = len(job.hosts or there)
        if isinstance(job.nodes, int) and job.nodes > count:
            yield ("acceptance", name, "nodes"), f"a job on {job.nodes} nodes cannot start: there are {count}"


def long_acceptance_jobs_have_a_partition(cluster: Cluster) -> Complaints:
    """slurmfab's own partition, in which jobs of the slurm user run, has a time limit."""
    for name, job in cluster.acceptance.items():
        is_in_own = cluster.own_partition and job.partition is None and (job.user or "slurm") in OWN_USERS
        if is_in_own and job.minutes is not None and job.minutes > LONGEST_JOB:
            words = f"slurmfab's own partition ends jobs after {LONGEST_JOB} minutes; write a partition, or a user"
            yield ("acceptance", name, "minutes"), words
