"""Which acceptance jobs are run: each with its script, its nodes and the figures that are expected of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.acceptance import TOLERANCE, AcceptanceJob, Figure
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.job_scripts import checked_text
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.named_path import named
from slurmfab.cluster.inventory.shipped_jobs import ShippedJob

SHIPPED_SCRIPTS = Path(__file__).parent / "shipped"  # the directory of the scripts that slurmfab brings along
DEFAULTS = ShippedJob({})  # the settings of a job that is not a shipped one


@dataclass(frozen=True)
class WantedFigure:
    """A figure that is looked for in a job's output, and judged."""

    name: str  # of the figure; empty for the only one of a job
    pattern: str  # regular expression with one group
    unit: str = ""  # of the figure; may be empty
    target: float | None = None  # the expected figure; `None` if it is only recorded
    tolerance: float = TOLERANCE  # percent by which it may be worse
    is_lower_better: bool = False  # whether a lower figure is better

    def loss(self, value: float, basis: float) -> float:
        """By how many percent of a basis a figure is worse than it; negative if it is better.

        >>> WantedFigure("", "(.)").loss(90.0, 120.0)
        25.0
        """
        if not basis:
            return 0.0 if value == basis else 100.0
        return (value - basis if self.is_lower_better else basis - value) / basis * 100

    def is_met(self, value: float) -> bool:
        """Whether a figure is good enough."""
        # Computing may lose the last digits of a figure that is exactly at the limit.
        return self.target is None or self.loss(value, self.target) <= self.tolerance + 1e-9


@dataclass(frozen=True)
class WantedJob:
    """An acceptance job that is ready to be submitted."""

    name: str
    said: AcceptanceJob
    script: str
    shipped: ShippedJob  # the settings that it has by default
    nodes: tuple[str, ...]  # names of the nodes that may be used
    user: str  # login name of who runs it
    figures: tuple[WantedFigure, ...]  # the figures that are looked for

    @property
    def minutes(self) -> int:
        """The time limit."""
        return self.said.minutes or self.shipped.minutes

    @property
    def places(self) -> int | str:
        """`each`, `all`, or the number of nodes of one job."""
        return self.said.nodes or self.shipped.nodes

    @property
    def at_once(self) -> int:
        """How many of these jobs may be in the queue at the same time."""
        return self.said.at_once or self.shipped.at_once

    @property
    def tasks(self) -> int | str:
        """Tasks on each node, or `cores`."""
        return self.said.tasks or self.shipped.tasks

    @property
    def gpus(self) -> int | str:
        """GPUs on each node, or `all`."""
        return self.shipped.gpus if self.said.gpus is None else self.said.gpus


@dataclass(frozen=True)
class PlannedRun:
    """One job that is to be submitted."""

    job: WantedJob
    nodes: tuple[str, ...]  # the nodes on which it has to run; empty if Slurm chooses them
    count: int
    number: int  # tells it from the other runs

    @property
    def place(self) -> str:
        """Where it runs, for people and for the history: a hostlist, or a number of nodes that Slurm chooses."""
        return fold(self.nodes) if self.nodes else f"{self.count} node{'s' if self.count > 1 else ''}"


def wanted_jobs(known: Inventory, only: str, nodes: Sequence[str], user: str) -> tuple[WantedJob, ...]:
    """The jobs to run, of `only` (comma-separated; empty for all), on `nodes` (empty for all), else by this user.

    Raises InputError: there are no jobs, a name is unknown, a script cannot be run, or a job has too few nodes.
    """
    jobs = known.cluster.acceptance
    if not jobs:
        raise InputError(
            f"{known.path} has no acceptance, so there is nothing to run. Add the key, as in "
            "`acceptance: {memory: {target: 100}}`; docs/acceptance.md lists the shipped jobs."
        )
    chosen = names_in(only, jobs)
    complaints: list[str] = []
    found: list[WantedJob] = []
    for name in chosen:
        try:
            found.append(wanted_job(known, name, nodes, user))
        except InputError as error:
            complaints.append(f"acceptance.{name}: {error}")
    if complaints:
        raise InputError("\n".join(complaints))
    return tuple(found)


def names_in(only: str, jobs: Mapping[str, AcceptanceJob]) -> tuple[str, ...]:
    """The names of the chosen jobs, in the order of the file. Raises InputError if a name is unknown."""
    words = {word.strip() for word in only.split(",") if word.strip()}
    strangers = sorted(words - set(jobs))
    if strangers:
        raise InputError(f"--only {','.join(strangers)}: the cluster file has the acceptance jobs {', '.join(jobs)}.")
    return tuple(name for name in jobs if not words or name in words)


def wanted_job(known: Inventory, name: str, nodes: Sequence[str], user: str) -> WantedJob:
    """One job, by the arguments of `wanted_jobs`; InputError if its script or number of nodes cannot be had."""
    said = known.cluster.acceptance[name]
    shipped = said.shipped(name)
    script = script_of(known, name, said, shipped)
    there = candidates(known.cluster, said)
    usable = tuple(node for node in there if not nodes or node in nodes)
    count = said.nodes if isinstance(said.nodes, int) else 1
    if len(usable) < count:
        raise InputError(f"it wants {count} node{'s' if count > 1 else ''}, but may use {fold(usable) or 'none'}.")
    figures = tuple(wanted_figure(key, one) for key, one in said.figures_of(name).items())
    return WantedJob(name, said, script, shipped or DEFAULTS, usable, said.user or user, figures)


def script_of(known: Inventory, name: str, said: AcceptanceJob, shipped: ShippedJob | None) -> str:
    """The text of a job's script. Raises InputError if it cannot be run."""
    if shipped is not None:
        return (SHIPPED_SCRIPTS / (said.script or name)).read_text()
    path = known.path.parent / Path(said.script or "").expanduser()
    try:
        return checked_text(named(known.path.parent, path))
    except InputError as error:
        raise InputError(f"{path}: {error}" if path.exists() else f"there is no script {path}.") from None


def candidates(cluster: Cluster, said: AcceptanceJob) -> tuple[str, ...]:
    """The nodes that a job may use by the cluster file."""
    if said.hosts:
        return said.hosts
    partition = next((one for one in cluster.partitions if one.name == said.partition), None)
    return cluster.nodes_in(partition) if partition else cluster.compute_nodes


def wanted_figure(name: str, said: Figure) -> WantedFigure:
    """What is expected of a figure, with the defaults of what the file does not say."""
    return WantedFigure(
        name,
        said.pattern or "",
        said.unit or "",
        said.target,
        TOLERANCE if said.tolerance is None else said.tolerance,
        said.better == "lower",
    )


def planned_runs(job: WantedJob, repeat: int) -> tuple[PlannedRun, ...]:
    """The runs of a job, in the order in which they are submitted."""
    places: list[tuple[tuple[str, ...], int]]
    if job.places == "each":
        places = [((node,), 1) for node in job.nodes]
    elif job.places in ("all", len(job.nodes)):
        places = [(job.nodes, len(job.nodes))]
    else:
        places = [((), int(job.places))]
    runs = [place for _ in range(repeat) for place in places]
    return tuple(PlannedRun(job, nodes, count, number) for number, (nodes, count) in enumerate(runs, 1))
