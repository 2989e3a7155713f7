"""Quickcheck: run the checks, print their lines, return the exit code."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
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
from slurmfab.commands.checks import runner
from slurmfab.commands.checks.hosts import CheckedHost, Shells
from slurmfab.commands.checks.plugin import explained
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Outcome
from slurmfab.commands.checks.shell import Shell
from slurmfab.commands.checks.wanted import with_logs
from slurmfab.commands.quickcheck.basics import environment, two_nodes
from slurmfab.commands.quickcheck.batch import allocation
from slurmfab.commands.quickcheck.bench import Bench, person
from slurmfab.commands.quickcheck.containers import WAYS, by_image, ways
from slurmfab.commands.quickcheck.gpus import chosen, gpus, nodes_of_each_kind
from slurmfab.commands.quickcheck.homes import homes
from slurmfab.commands.quickcheck.lines import Line, Summary
from slurmfab.commands.quickcheck.modules import modules
from slurmfab.commands.quickcheck.mpi import mpi
from slurmfab.commands.quickcheck.nccl import nccl
from slurmfab.commands.quickcheck.partitions import partitions
from slurmfab.commands.quickcheck.scratch import chosen as with_scratch
from slurmfab.commands.quickcheck.scratch import scratch
from slurmfab.core.engine import missing_lock, session

CHECKS = (
    "allocation",
    "environment",
    "nodes",
    "homes",
    "partitions",
    "modules",
    "mpi",
    "scratch",
    "gpus",
    "nccl",
    "container",
)
"""The checks, in the order in which they run."""

WITH_KEYS = ("homes", "modules", "mpi", "scratch")
"""Checks of a key of the cluster file with their name; without the key, they run only if the user names them."""

SECONDS = 90
"""Default time limit of each job, waiting included."""

STOPPED = "the batch job failed."
"""The reason shown for the other checks, which are not run if the batch job failed."""

LEAST_SECONDS, MOST_SECONDS = 5, 3600
"""Allowed range of `--timeout`, in seconds."""

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]
"""Opens shells on the named hosts of a cluster; see `slurmfab.commands.checks.hosts.open_shells`."""


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
        """The checks to run, in order.

        Raises:
            InputError: a word of `only` is not a check, or the time limit is out of range.
        """
        chosen = {word.strip() for word in self.only.split(",") if word.strip()}
        strangers = sorted(chosen - set(CHECKS))
        if strangers:
            raise InputError(f"--only {','.join(strangers)}: quickcheck knows {', '.join(CHECKS)}.")
        if not LEAST_SECONDS <= self.seconds <= MOST_SECONDS:
            raise InputError(f"--timeout {self.seconds}: write seconds from {LEAST_SECONDS} to {MOST_SECONDS}.")
        return tuple(check for check in CHECKS if not chosen or check in chosen)


def check(cluster: str, options: QuickcheckOptions, output: session.Output) -> int:
    """Run a quickcheck and print its results line by line.

    Args:
        cluster: the cluster file's path, empty for the default one.

    Returns:
        The exit code; see `Summary.exit_code`.

    Raises:
        InputError: an option is wrong, or the cluster has never been deployed.
        HostError: none of the hosts from which jobs are submitted is reachable.
        SlurmfabError: slurmctld does not answer.
    """
    known = loading.load_named(cluster)
    out = output.stream
    ask = output.asker()
    opener = runner.opener_with(ask, ask() if ask and output.ask_password else "")

    def heard(line: Line) -> None:
        for text in line.text() if line.words != STOPPED else ():
            write(text, out)

    summary = quickcheck(known, options, opener=opener, heard=heard)
    left = [line.check for line in summary.lines if line.words == STOPPED]
    write("\n".join([*([f"not run  {', '.join(left)}: {STOPPED}"] if left else []), summary.headline]), out)
    output.write_json(summary)
    return summary.exit_code


def quickcheck(
    known: Inventory, options: QuickcheckOptions, *, opener: Opener, heard: Callable[[Line], None] = lambda _: None
) -> Summary:
    """Test a cluster with small jobs; remaining jobs are cancelled in any case.

    Args:
        heard: called with each line when its check ends.

    Raises:
        InputError: an option is wrong, or the cluster has never been deployed.
        HostError: none of the hosts from which jobs are submitted is reachable.
        SlurmfabError: slurmctld does not answer.
    """
    checks = checks_for(known.cluster, options)
    nodes = nodes_of(known, options.hosts)
    begun = time.monotonic()
    lines = []
    with opener(known, senders(known)) as shells:
        bench = ready_bench(known, options, sender_of(known, shells), nodes, opener)
        try:
            for found in chain(silent_logins(known, shells), tried(bench, checks)):
                line = replace(found, words=named(known, found.words), repair=named(known, found.repair))
                lines.append(line)
                heard(line)
        finally:
            with contextlib.suppress(SlurmfabError):
                bench.slurm.cancel()
    seconds = time.monotonic() - begun
    return Summary(known.cluster.name, bench.who.name, bench.sender.name, tuple(lines), seconds)


def checks_for(cluster: Cluster, options: QuickcheckOptions) -> tuple[str, ...]:
    """The checks to run, in order.

    Args:
        cluster: the cluster file; a check of `WITH_KEYS` needs its key there.

    Raises:
        InputError: an option is wrong.
    """
    is_meant = bool(options.only.strip())
    return tuple(check for check in options.checks if is_meant or check not in WITH_KEYS or getattr(cluster, check))


def named(known: Inventory, text: str) -> str:
    """A message that names the logs of Slurm's daemons where the cluster has them."""
    return with_logs(text, known.cluster, known.lock)


def ready_bench(
    known: Inventory, options: QuickcheckOptions, sender: CheckedHost, nodes: tuple[str, ...], opener: Opener
) -> Bench:
    """Prepare the cluster under test.

    Raises:
        InputError: the user does not exist on `sender`.
        SlurmfabError: slurmctld does not answer.
    """
    who, is_each = person(sender, options.user), bool(options.hosts)
    bench = Bench(
        known, sender, who, nodes, opener=opener, seconds=options.seconds, is_each=is_each, image=options.image
    )
    if not bench.slurm.answers:
        raise SlurmfabError(
            f"slurmctld does not answer on {known.cluster.controller}, so no job can be submitted. "
            f"Try {FAB} check-cluster --only daemons, then {FAB} deploy."
        )
    return bench


def nodes_of(known: Inventory, hosts: str) -> tuple[str, ...]:
    """Names of the compute nodes that may be used; `hosts` is a hostlist, empty for all.

    Raises:
        InputError: one of the hosts is not a compute node, or the cluster has never been deployed.
    """
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
    """The first reachable host from which jobs can be submitted.

    Raises:
        HostError: none is reachable.
    """
    errors: list[HostError] = []
    for name in senders(known):
        shell: Shell | HostError = shells[name]
        if not isinstance(shell, HostError):
            return CheckedHost(name, shell)
        errors.append(shell)
    raise errors[-1]


def silent_logins(known: Inventory, shells: Shells) -> Iterator[Line]:
    """A failed line for each unreachable login host: users cannot log in there."""
    for name in known.cluster.login:
        shell = shells[name]
        if isinstance(shell, HostError):
            yield Line("login", name, FAILED, shell.reason)


def tried(bench: Bench, checks: Sequence[str]) -> Iterator[Line]:
    """Run the checks and yield their lines; after a failed batch job the others are not run."""
    works: dict[str, Callable[[], Iterator[Line]]] = {
        "allocation": lambda: on_a_free_node(bench, "allocation", allocation),
        "environment": lambda: on_a_free_node(bench, "environment", environment),
        "nodes": lambda: on_two_nodes(bench),
        "homes": lambda: on_a_free_node(bench, "homes", homes),
        "partitions": lambda: partitions(bench),
        "modules": lambda: on_a_free_node(bench, "modules", modules),
        "mpi": lambda: iter((outcome(bench, "mpi", bench.nodes, lambda _: "", lambda *_: mpi(bench)),)),
        "scratch": lambda: on_a_free_node(bench, "scratch", scratch, with_scratch),
        "gpus": lambda: on_each_kind(bench, "gpus", gpus, sick),
        "nccl": lambda: on_each_kind(bench, "nccl", nccl, sick),
        "container": lambda: by_each_way(bench),
    }
    stopped = ""
    sick: set[str] = set()
    for name in checks:
        if stopped:
            yield Line(name, "", NOT_RUN, stopped)
            continue
        for line in works[name]():
            yield line
            if name == "allocation" and line.outcome == FAILED:
                stopped = STOPPED


def free_node(bench: Bench, nodes: tuple[str, ...]) -> str:
    """A node with room for a small job; the arguments, and what is raised, are those of `Bench.free`."""
    return bench.free(nodes)[0]


def on_a_free_node(
    bench: Bench,
    name: str,
    work: Callable[[Bench, str], str],
    choose: Callable[[Bench, tuple[str, ...]], str] = free_node,
) -> Iterator[Line]:
    """Run a check on one node with room, or on each node that the user named, and yield the lines."""
    for nodes in tuple((node,) for node in bench.nodes) if bench.is_each else (bench.nodes,):
        yield outcome(bench, name, nodes, lambda some: choose(bench, some), work)


def by_each_way(bench: Bench) -> Iterator[Line]:
    """Run a container by each way of the cluster file, or else by a runtime of the node, and yield the lines."""
    for work in tuple(WAYS[way] for way in ways(bench)) or (by_image,):
        yield from on_a_free_node(bench, "container", work)


def on_two_nodes(bench: Bench) -> Iterator[Line]:
    """Run the check of a job on two nodes, and yield its line."""
    yield outcome(bench, "nodes", bench.nodes, lambda _: "", lambda *_: two_nodes(bench, bench.free()))


def on_each_kind(bench: Bench, name: str, work: Callable[[Bench, str], str], sick: set[str]) -> Iterator[Line]:
    """Run a check on one node of each kind of GPUs; yield its lines, and one for each reason why it was not run.

    Args:
        sick: kinds that failed an earlier check, which are skipped; kinds that fail now are added to it.
    """
    kinds = {kind: nodes for kind, nodes in nodes_of_each_kind(bench).items() if kind not in sick}
    if not kinds and not sick:
        yield Line(name, "", NOT_RUN, f"Slurm has no GPUs on {fold(bench.nodes)}.")
    left_out: dict[str, list[Line]] = {}
    for kind, nodes in kinds.items():
        line = outcome(bench, name, nodes, lambda some: chosen(bench, some), work)
        if line.outcome == NOT_RUN:
            left_out.setdefault(line.words, []).append(line)
            continue
        sick |= {kind} if line.outcome == FAILED else set()
        yield line
    for reason, lines in left_out.items():
        seconds = sum(line.seconds for line in lines)
        yield Line(name, fold(filter(None, (line.host for line in lines))), NOT_RUN, reason, seconds=seconds)
    if sick - kinds.keys():
        yield Line(name, "", NOT_RUN, f"these GPUs failed an earlier check ({', '.join(sorted(sick - kinds.keys()))}).")


def outcome(
    bench: Bench,
    name: str,
    nodes: tuple[str, ...],
    choose: Callable[[tuple[str, ...]], str],
    work: Callable[[Bench, str], str],
) -> Line:
    """Choose a node, run the check there, and return its line.

    Args:
        nodes: names of the candidates.
        choose: picks one of them; an empty name if the check chooses its nodes itself.
    """
    begun = time.monotonic()
    node = ""

    def line(outcome: Outcome, text: str, repair: str = "") -> Line:
        return Line(name, node, outcome, text, repair, time.monotonic() - begun)

    try:
        node = choose(nodes)
        return line(PASSED, work(bench, node))
    except pytest.skip.Exception as skipped:
        return line(NOT_RUN, str(skipped.msg))
    except (AssertionError, HostError) as error:
        cause, repair = explained(error, bench.sender.name)
        return line(FAILED, cause, repair)
