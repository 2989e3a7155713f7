"""Quickcheck: run the checks, print their lines, return the exit code."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pytest

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.hosts import CheckedHost, Opener, Shells, host_in, opener_of, person
from slurmfab.commands.checks.plugin import explained
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Outcome
from slurmfab.commands.checks.slurm import ping
from slurmfab.commands.checks.wanted import with_logs
from slurmfab.commands.quickcheck.basics import chosen as with_scratch
from slurmfab.commands.quickcheck.basics import environment, homes, modules, scratch, two_nodes
from slurmfab.commands.quickcheck.batch import allocation
from slurmfab.commands.quickcheck.bench import Bench, Work
from slurmfab.commands.quickcheck.containers import WAYS, by_image, ways
from slurmfab.commands.quickcheck.gpus import chosen, gpus, nccl, nodes_of_each_kind
from slurmfab.commands.quickcheck.jupyter import jupyter
from slurmfab.commands.quickcheck.lines import Line, Summary
from slurmfab.commands.quickcheck.mpi import mpi, mpi_by
from slurmfab.commands.quickcheck.partitions import partitions
from slurmfab.core.engine import missing_lock, session

WITH_KEYS = ("homes", "modules", "mpi", "scratch", "jupyter")
"""Checks of a key of the cluster file with their name; without the key, they run only if the user names them."""

SECONDS = 90  # default time limit of each job, waiting included
STOPPED = "the batch job failed."  # the reason shown for the other checks, which are not run if the batch job failed
LEAST_SECONDS, MOST_SECONDS = 5, 3600  # allowed range of `--timeout`, in seconds
Choose = Callable[[Bench, tuple[str, ...]], str]  # picks one of some nodes for a check; raises as `Work`

Check = Callable[[Bench, str, set[str]], Iterable[Line]]
"""Yields the lines of a check of a name. It may skip kinds of GPUs that an earlier check found sick, and add others."""


@dataclass(frozen=True)
class QuickcheckOptions:
    """The options of quickcheck."""

    hosts: str = ""  # hostlist of compute nodes, each of which is tested; empty for one node of each kind
    only: str = ""  # names of `CHECKS`, separated by commas; empty for all
    user: str = "slurm"  # login name of the user who submits the jobs
    seconds: int = SECONDS  # time limit of each job, waiting included
    image: str = ""  # container image, as the runtime spells it; empty for one that is already on the node

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks to run, in order; InputError if `only` names no check, or the time limit is out of range."""
        chosen = {word.strip() for word in self.only.split(",") if word.strip()}
        strangers = sorted(chosen - set(CHECKS))
        if strangers:
            raise InputError(f"--only {','.join(strangers)}: quickcheck knows {', '.join(CHECKS)}.")
        if not LEAST_SECONDS <= self.seconds <= MOST_SECONDS:
            raise InputError(f"--timeout {self.seconds}: write seconds from {LEAST_SECONDS} to {MOST_SECONDS}.")
        return tuple(check for check in CHECKS if not chosen or check in chosen)


def check(cluster: str, options: QuickcheckOptions, output: session.Output) -> int:
    """Run a quickcheck and print results line by line; returns `Summary.exit_code`."""
    known = loading.load_named(cluster)
    out = output.stream

    def heard(line: Line) -> None:
        for text in line.text() if line.words != STOPPED else ():
            write(text, out)

    summary = quickcheck(known, options, opener=opener_of(output), heard=heard)
    left = [line.check for line in summary.lines if line.words == STOPPED]
    write("\n".join([*([f"not run  {', '.join(left)}: {STOPPED}"] if left else []), summary.headline]), out)
    output.write_json(summary)
    return summary.exit_code


def quickcheck(
    known: Inventory, options: QuickcheckOptions, *, opener: Opener, heard: Callable[[Line], None] = lambda _: None
) -> Summary:
    """Test a cluster with small jobs, cancelled in any case; `heard` gets each line when its check ends.

    Raises InputError for options, or before a deployment; HostError if nothing submits; SlurmfabError of slurmctld.
    """
    checks = checks_for(known.cluster, options)
    nodes = nodes_of(known, options.hosts)
    begun = time.monotonic()
    lines = []

    def named(text: str) -> str:
        return with_logs(text, known.cluster, known.lock)

    with opener(known, senders(known)) as shells:
        sender = sender_of(known, shells)
        who = person(sender, options.user)
        bench = Bench(known, sender, who, nodes, opener, options.seconds, bool(options.hosts), options.image)
        require_slurmctld(known, sender)
        try:
            for found in chain(silent_logins(known, shells), tried(bench, checks)):
                line = replace(found, words=named(found.words), repair=named(found.repair))
                lines.append(line)
                heard(line)
        finally:
            with contextlib.suppress(SlurmfabError):
                bench.slurm.cancel()
    return Summary(known.cluster.name, who.name, sender.name, tuple(lines), time.monotonic() - begun)


def require_slurmctld(known: Inventory, sender: CheckedHost) -> None:
    """Stop by SlurmfabError while slurmctld does not answer the host from which jobs are submitted."""
    if not ping(sender).endswith("is UP"):
        raise SlurmfabError(
            f"slurmctld does not answer on {known.cluster.controller}, so no job can be submitted. "
            f"Try {FAB} check-cluster --only daemons, then {FAB} deploy."
        )


def checks_for(cluster: Cluster, options: QuickcheckOptions) -> tuple[str, ...]:
    """The checks to run, in order, those of `WITH_KEYS` with their key; InputError if an option is wrong."""
    is_meant = bool(options.only.strip())
    return tuple(check for check in options.checks if is_meant or check not in WITH_KEYS or getattr(cluster, check))


def nodes_of(known: Inventory, hosts: str) -> tuple[str, ...]:
    """The compute nodes that may be used (empty: all); InputError for other hosts, or before a deployment."""
    cluster = known.cluster
    names = session.select_hosts(cluster, hosts, known.path)
    nodes = tuple(name for name in names if "compute" in cluster.roles(name))
    others = tuple(name for name in names if name not in nodes)
    if hosts and others:
        raise InputError(f"--hosts {fold(others)}: no jobs run there; name compute nodes.")
    missing_lock.require_deployed(known)
    return nodes


def senders(known: Inventory) -> tuple[str, ...]:
    """Names of the hosts from which jobs can be submitted: login hosts, then the primary controller."""
    return (*known.cluster.login, known.cluster.controller)


def sender_of(known: Inventory, shells: Shells) -> CheckedHost:
    """The first reachable host from which jobs can be submitted. Raises HostError if none is reachable."""
    answering = [name for name in senders(known) if not isinstance(shells[name], HostError)]
    return host_in(shells, (answering or senders(known)[-1:])[0])


def silent_logins(known: Inventory, shells: Shells) -> Iterator[Line]:
    """A failed line for each unreachable login host: users cannot log in there."""
    for name in known.cluster.login:
        shell = shells[name]
        if isinstance(shell, HostError):
            yield Line("login", name, FAILED, shell.reason)


def tried(bench: Bench, checks: Sequence[str]) -> Iterator[Line]:
    """Run the checks and yield their lines; after a failed batch job the others are not run."""
    sick: set[str] = set()
    stopped = ""
    for name in checks:
        if stopped:
            yield Line(name, "", NOT_RUN, stopped)
            continue
        for line in CHECKS[name](bench, name, sick):
            yield line
            if name == "allocation" and line.outcome == FAILED:
                stopped = STOPPED


def free_node(bench: Bench, nodes: tuple[str, ...]) -> str:
    """A node with room for a small job."""
    return bench.free(nodes)[0]


def on_a_free_node(work: Work, choose: Choose = free_node) -> Check:
    """Run a check on one node with room, or on each node that the user named."""

    def lines(bench: Bench, name: str, _sick: set[str]) -> Iterator[Line]:
        for nodes in tuple((node,) for node in bench.nodes) if bench.is_each else (bench.nodes,):
            yield outcome(bench, name, nodes, choose, work)

    return lines


def on_own_nodes(work: Callable[[Bench], str]) -> Check:
    """Run a check that chooses its nodes itself."""
    return lambda bench, name, _: [outcome(bench, name, bench.nodes, lambda *_: "", lambda *_: work(bench))]


def by_each_way(bench: Bench, name: str, sick: set[str]) -> Iterator[Line]:
    """Run a container by each way of the cluster file, or else by a runtime of the node."""
    for work in [WAYS[way] for way in ways(bench)] or [by_image]:
        yield from on_a_free_node(work)(bench, name, sick)


def mpi_everywhere(bench: Bench, name: str, sick: set[str]) -> Iterator[Line]:
    """Run an MPI program on the nodes themselves, and in a container by each way of the cluster file."""
    ways = bench.cluster.container_ways if bench.cluster.mpi else ()
    for work in (mpi, *map(mpi_by, ways)):
        yield from on_own_nodes(work)(bench, name, sick)


def on_each_kind(work: Work) -> Check:
    """Run a check on one node of each kind of GPUs; one line for each reason says why it was not run on others."""

    def lines(bench: Bench, name: str, sick: set[str]) -> Iterator[Line]:
        kinds = {kind: nodes for kind, nodes in nodes_of_each_kind(bench).items() if kind not in sick}
        if not kinds and not sick:
            yield Line(name, "", NOT_RUN, f"Slurm has no GPUs on {fold(bench.nodes)}.")
        left_out: dict[str, list[Line]] = {}
        for kind, nodes in kinds.items():
            line = outcome(bench, name, nodes, chosen, work)
            if line.outcome == NOT_RUN:
                left_out.setdefault(line.words, []).append(line)
                continue
            sick |= {kind} if line.outcome == FAILED else set()
            yield line
        for reason, some in left_out.items():
            seconds = sum(line.seconds for line in some)
            yield Line(name, fold(filter(None, (line.host for line in some))), NOT_RUN, reason, seconds=seconds)
        if gone := sorted(sick - kinds.keys()):
            yield Line(name, "", NOT_RUN, f"these GPUs failed an earlier check ({', '.join(gone)}).")

    return lines


def outcome(bench: Bench, name: str, nodes: tuple[str, ...], choose: Choose, work: Work) -> Line:
    """Choose one of some nodes, run the check there, and return its line."""
    begun = time.monotonic()
    node = ""

    def line(outcome: Outcome, text: str, repair: str = "") -> Line:
        return Line(name, node, outcome, text, repair, time.monotonic() - begun)

    try:
        node = choose(bench, nodes)
        return line(PASSED, work(bench, node))
    except pytest.skip.Exception as skipped:
        return line(NOT_RUN, str(skipped.msg))
    except (AssertionError, HostError) as error:
        cause, repair = explained(error, bench.sender.name)
        return line(FAILED, cause, repair)


CHECKS: Mapping[str, Check] = {
    "allocation": on_a_free_node(allocation),
    "environment": on_a_free_node(environment),
    "nodes": on_own_nodes(two_nodes),
    "homes": on_a_free_node(homes),
    "partitions": lambda bench, *_: partitions(bench),
    "modules": on_a_free_node(modules),
    "mpi": mpi_everywhere,
    "scratch": on_a_free_node(scratch, with_scratch),
    "jupyter": on_own_nodes(jupyter),
    "gpus": on_each_kind(gpus),
    "nccl": on_each_kind(nccl),
    "container": by_each_way,
}
"""The checks by name, in the order in which they run."""
