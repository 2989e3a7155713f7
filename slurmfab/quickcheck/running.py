"""A quickcheck from its options to its exit code."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from slurmfab import atomic_file, inventory, operations, verify
from slurmfab.checks.hosts import CheckedHost, Shells
from slurmfab.checks.plugin import explained
from slurmfab.checks.results import FAILED, NOT_RUN, PASSED, Outcome
from slurmfab.checks.shell import Shell
from slurmfab.errors import HostError, InputError, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.quickcheck.basics import environment, two_nodes
from slurmfab.quickcheck.batch import allocation
from slurmfab.quickcheck.bench import Bench, person
from slurmfab.quickcheck.containers import container
from slurmfab.quickcheck.gpus import chosen, gpus, nodes_of_each_kind
from slurmfab.quickcheck.lines import Line, Summary
from slurmfab.quickcheck.nccl import nccl

CHECKS = ("allocation", "environment", "nodes", "gpus", "nccl", "container")
"""What is tried, in this order."""

SECONDS = 90
"""How long each job may take, waiting included, if nothing is said."""

STOPPED = "not even a batch job goes well."
"""Why nothing else is tried after a batch job that failed."""

LEAST_SECONDS, MOST_SECONDS = 5, 3600

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]


@dataclass(frozen=True)
class Wish:
    """What to try, and how.

    Args:
        hosts: hostlist of compute nodes, each of which is then tried; empty for one node of each kind.
        only: names of `CHECKS`, with commas; empty for all.
        user: whose jobs they shall be.
        seconds: how long each job may take, waiting included.
        image: for the container, as its runtime spells it; empty for one that is there.
    """

    hosts: str = ""
    only: str = ""
    user: str = "slurm"
    seconds: int = SECONDS
    image: str = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """What is tried, in order.

        Raises:
            InputError: a word of `only` is no check's name, or the time is out of all measure.
        """
        words = {word.strip() for word in self.only.split(",") if word.strip()}
        strangers = sorted(words - set(CHECKS))
        if strangers:
            raise InputError(f"--only {','.join(strangers)}: quickcheck knows {', '.join(CHECKS)}.")
        if not LEAST_SECONDS <= self.seconds <= MOST_SECONDS:
            raise InputError(f"--timeout {self.seconds}: write seconds from {LEAST_SECONDS} to {MOST_SECONDS}.")
        return tuple(check for check in CHECKS if not words or check in words)


def check(cluster: str, wish: Wish, output: operations.Output) -> int:
    """Try a cluster and tell what was seen, line by line.

    Args:
        cluster: the cluster file's path, empty for the default one.
        wish: what to try.
        output: what else to tell.

    Returns:
        The exit code.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    out = sys.stderr if output.json == "-" else sys.stdout
    ask = output.asker()
    opener = verify.opener_with(ask, ask() if ask and output.ask_password else "")

    def heard(line: Line) -> None:
        for text in line.text() if line.words != STOPPED else ():
            print(text, file=out, flush=True)

    summary = quickcheck(known, wish, opener=opener, heard=heard)
    left = [line.check for line in summary.lines if line.words == STOPPED]
    print(*([f"not run  {', '.join(left)}: {STOPPED}"] if left else []), summary.headline, sep="\n", file=out)
    text = json.dumps(summary.as_json(), indent=2) + "\n"
    if output.json == "-":
        sys.stdout.write(text)
    elif output.json:
        atomic_file.write(Path(output.json), text)
    return summary.exit_code


def quickcheck(
    known: Inventory, wish: Wish, *, opener: Opener, heard: Callable[[Line], None] = lambda _: None
) -> Summary:
    """What small jobs show of a cluster; whatever happens, none of them is left.

    Args:
        known: the cluster.
        wish: what to try.
        opener: opens the shells of hosts.
        heard: told each line as it comes.

    Raises:
        InputError: an option is wrong, or the cluster has never been deployed.
        HostError: no host that sends jobs can be reached.
        SlurmfabError: slurmctld does not answer.
    """
    checks = wish.checks
    nodes = nodes_of(known, wish.hosts)
    begun = time.monotonic()
    lines = []
    with opener(known, senders(known)) as shells:
        bench = ready_bench(known, wish, sender_of(known, shells), nodes, opener)
        try:
            for line in chain(silent_logins(known, shells), tried(bench, checks)):
                lines.append(line)
                heard(line)
        finally:
            with contextlib.suppress(SlurmfabError):
                bench.slurm.cancel()
    seconds = time.monotonic() - begun
    return Summary(known.cluster.name, bench.who.name, bench.sender.name, tuple(lines), seconds)


def ready_bench(known: Inventory, wish: Wish, sender: CheckedHost, nodes: tuple[str, ...], opener: Opener) -> Bench:
    """What the jobs are sent with.

    Raises:
        InputError: the user does not exist.
        SlurmfabError: slurmctld does not answer.
    """
    who, is_each = person(sender, wish.user), bool(wish.hosts)
    bench = Bench(known, sender, who, nodes, opener=opener, seconds=wish.seconds, is_each=is_each, image=wish.image)
    if not bench.slurm.answers:
        raise SlurmfabError(
            f"slurmctld does not answer on {known.cluster.controller}, so no job can be sent. "
            "Try fab check-cluster --only daemons, then fab deploy."
        )
    return bench


def nodes_of(known: Inventory, hosts: str) -> tuple[str, ...]:
    """The nodes that may be used.

    Raises:
        InputError: one of the hosts is no compute node, or the cluster has never been deployed.
    """
    cluster = known.cluster
    names = operations.chosen(cluster, hosts, known.path)
    nodes = tuple(name for name in names if "compute" in cluster.roles(name))
    others = tuple(name for name in names if name not in nodes)
    if hosts and others:
        raise InputError(f"--hosts {fold(others)}: no compute node, so no job runs there.")
    if not known.lock.ids:
        raise InputError(f"{known.path} has never been deployed, so there is nothing to try: fab deploy.")
    return nodes


def senders(known: Inventory) -> tuple[str, ...]:
    """The hosts that may send the jobs, those first on which people do."""
    return (*known.cluster.login, known.cluster.controller)


def sender_of(known: Inventory, shells: Shells) -> CheckedHost:
    """The first of the hosts that can be reached.

    Raises:
        HostError: none can.
    """
    errors: list[HostError] = []
    for name in senders(known):
        shell: Shell | HostError = shells[name]
        if not isinstance(shell, HostError):
            return CheckedHost(name, shell)
        errors.append(shell)
    raise errors[-1]


def silent_logins(known: Inventory, shells: Shells) -> Iterator[Line]:
    """A line for each login host that cannot be reached: nobody gets in there."""
    for name in known.cluster.login:
        shell = shells[name]
        if isinstance(shell, HostError):
            yield Line("login", name, FAILED, shell.reason)


def tried(bench: Bench, checks: Sequence[str]) -> Iterator[Line]:
    """Each line in turn; where not even a batch job went well, the others are not run."""
    works: dict[str, Callable[[], Iterator[Line]]] = {
        "allocation": lambda: on_a_free_node(bench, "allocation", allocation),
        "environment": lambda: on_a_free_node(bench, "environment", environment),
        "nodes": lambda: on_two_nodes(bench),
        "gpus": lambda: on_each_kind(bench, "gpus", gpus, sick),
        "nccl": lambda: on_each_kind(bench, "nccl", nccl, sick),
        "container": lambda: on_a_free_node(bench, "container", container),
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


def on_a_free_node(bench: Bench, name: str, work: Callable[[Bench, str], str]) -> Iterator[Line]:
    """The line of something that needs one node, or one for each node that the user has named."""
    for nodes in tuple((node,) for node in bench.nodes) if bench.is_each else (bench.nodes,):
        yield outcome(bench, name, nodes, lambda some: bench.free(some)[0], work)


def on_two_nodes(bench: Bench) -> Iterator[Line]:
    """The line of a job on two nodes."""
    yield outcome(bench, "nodes", bench.nodes, lambda _: "", lambda *_: two_nodes(bench, bench.free()))


def on_each_kind(bench: Bench, name: str, work: Callable[[Bench, str], str], sick: set[str]) -> Iterator[Line]:
    """A line for each kind of GPUs, and last one for each reason for which it was not run.

    Kinds that fail come into `sick`, and those that are in it have failed before and are left out.
    """
    kinds = {kind: nodes for kind, nodes in nodes_of_each_kind(bench).items() if kind not in sick}
    if not kinds and not sick:
        yield Line(name, "", NOT_RUN, f"Slurm knows no GPUs on {fold(bench.nodes)}.")
    left_out: dict[str, list[Line]] = {}
    for kind, nodes in kinds.items():
        line = outcome(bench, name, nodes, lambda some: chosen(bench, some), work)
        if line.outcome == NOT_RUN:
            left_out.setdefault(line.words, []).append(line)
            continue
        sick |= {kind} if line.outcome == FAILED else set()
        yield line
    for words, lines in left_out.items():
        seconds = sum(line.seconds for line in lines)
        yield Line(name, fold(filter(None, (line.host for line in lines))), NOT_RUN, words, seconds=seconds)
    if sick - kinds.keys():
        yield Line(name, "", NOT_RUN, f"GPUs that have failed already ({', '.join(sorted(sick - kinds.keys()))}).")


def outcome(
    bench: Bench,
    name: str,
    nodes: tuple[str, ...],
    choose: Callable[[tuple[str, ...]], str],
    work: Callable[[Bench, str], str],
) -> Line:
    """Choose a node, do the work there, and put what comes of it into a line."""
    begun = time.monotonic()
    node = ""

    def line(outcome: Outcome, words: str, repair: str = "") -> Line:
        return Line(name, node, outcome, words, repair, time.monotonic() - begun)

    try:
        node = choose(nodes)
        return line(PASSED, work(bench, node))
    except pytest.skip.Exception as skipped:
        return line(NOT_RUN, str(skipped.msg))
    except (AssertionError, HostError) as error:
        cause, repair = explained(error, bench.sender.name)
        return line(FAILED, cause, repair)
