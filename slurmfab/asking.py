"""What hosts are asked through their agents: for their facts, and what they make of resources."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from slurmfab.agent.resource import Outcome, as_request
from slurmfab.errors import AgentFailed, AnotherRun, HostFailed, InputError, PythonMissing, SlurmfabError
from slurmfab.facts import HostFacts, from_answer
from slurmfab.inventory import Inventory
from slurmfab.people.numbers import names_of
from slurmfab.report import Step, outcome_from
from slurmfab.run import Run
from slurmfab.signature import who
from slurmfab.slurm.gres import named_files
from slurmfab.slurm.versions import BUS, DATABASE_SERVER, packages
from slurmfab.ssh.fan_out import Asked, on_each
from slurmfab.ssh.transport import Transport

CARED_FOR = {
    "users": ("slurm", "munge"),
    "packages": (*packages("controller"), "slurmd", "slurmdbd", *DATABASE_SERVER, BUS, "sudo"),
    "services": (
        "slurmctld",
        "slurmdbd",
        "slurmd",
        "munge",
        "slurmfab-backup.timer",
        "slurmfab-gpu-check.service",
        "slurmfab-gpu-check.timer",
    ),
}
"""What of a host's many users, packages and services a plan depends on."""

CLOCK_MARGIN = 1.0
"""Seconds by which two measurements of how long ago something was may differ."""


def ask_ahead(run: Run) -> None:
    """Ask the hosts of a run for their facts already, and do not wait; `gather` takes the answers that it comes for.

    Args:
        run: what it knows of its hosts decides what they are asked; nothing of that may change until `gather`.
    """
    hosts = run.well(first_asked(run))
    run.asked_ahead[hosts] = asked_now(run, hosts)


def asked_now(run: Run, hosts: Iterable[str]) -> Asked[HostFacts]:
    """The facts of hosts as they come, who are asked from this moment on."""
    run.asked = time.monotonic()
    return on_each(hosts, lambda host: ask_facts_of(run, host))


def first_asked(run: Run) -> tuple[str, ...]:
    """Whom a survey asks: the controller, on whose word the plan for all others rests, and the hosts of the run."""
    return tuple(dict.fromkeys((run.controller, *run.hosts)))


def gather(run: Run, hosts: tuple[str, ...], *, may_prepare: bool = True) -> dict[str, HostFacts]:
    """Ask hosts for their facts, all at once.

    Args:
        run: the run; hosts that do not answer are lost to it.
        hosts: whom to ask.
        may_prepare: whether a missing python3 may be installed.

    Returns:
        The facts of those that answered, by name, in the order of `hosts`.

    Raises:
        InputError: no host can be reached in the way that the user wrote, as with a private key that is missing.
        DeployFailed: the controller does not answer; nothing was changed anywhere.
    """
    run.progress.begin("asking", hosts)
    answers = run.asked_ahead.pop(hosts) if hosts in run.asked_ahead else asked_now(run, hosts)
    facts, bare = hear(run, answers)
    if not (may_prepare and run.installs_python):
        for error in bare.values():
            run.lose(error.host, error)
    run.require_controller()
    # Only now: without the controller nothing is changed anywhere, and what has no python3 cannot be claimed.
    for some in ((run.controller,), hosts):
        wanting = [host for host in some if host in bare and host not in facts and host not in run.lost]
        if wanting and run.controller not in wanting:
            require_claim(run)
        facts.update(hear(run, on_each(wanting, lambda host: install(run, host)))[0])
        run.require_controller()
    return {host: facts[host] for host in hosts if host in facts}


def hear(
    run: Run, answers: Iterable[tuple[str, HostFacts | SlurmfabError]]
) -> tuple[dict[str, HostFacts], dict[str, PythonMissing]]:
    """The facts of hosts as they come, and the hosts that have no python3; the others are lost to the run.

    Raises:
        InputError: no host can be reached in the way that the user wrote.
    """
    facts, bare = {}, {}
    for host, answer in answers:
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, PythonMissing):
            bare[host] = answer
        elif isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            facts[host] = answer
            run.progress.host_done(host)
    return facts, bare


def install(run: Run, host: str) -> HostFacts:
    """The facts of a host that has been given python3.

    Raises:
        HostError: it cannot be given, or the host does not answer.
    """
    begun = time.monotonic()
    run.before_change()
    try:
        run.transport.install_python(host)
        facts = ask_facts_of(run, host)
    except PythonMissing as error:
        raise HostFailed(host, error.reason) from error
    run.steps.append(Step("python", host, (Outcome("packages:python3", "changed"),), time.monotonic() - begun))
    return facts


def cared_for(known: Inventory, node: str = "") -> dict[str, tuple[str, ...]]:
    """What of a host's many users, groups, packages and services a plan for this cluster depends on.

    Args:
        known: the cluster.
        node: the host, or a compute node that it shall be like; its group may name device files of GPUs.
    """
    users, groups = names_of(known.cluster, known.lock.ids)
    is_node = "compute" in known.cluster.roles(node)
    files = named_files(known.cluster.settings_of(node)) if is_node else ()
    return {**CARED_FOR, "users": (*CARED_FOR["users"], *users), "groups": groups, "gpu_files": files}


def ask_facts_of(run: Run, host: str) -> HostFacts:
    """The facts of one of a run's hosts.

    Raises:
        HostError: it does not answer.
    """
    is_controller = host == run.controller
    return ask_facts(run.transport, host, with_secrets=is_controller, names=cared_for(run.inventory, host))


def ask_facts(
    transport: Transport, host: str, *, with_secrets: bool, names: Mapping[str, tuple[str, ...]] = CARED_FOR
) -> HostFacts:
    """The facts of one host.

    Args:
        transport: the way to it.
        host: its name.
        with_secrets: whether the munge key comes along, which only the controller is asked for.
        names: the users, groups, packages and services to tell of.

    Raises:
        HostError: it does not answer.
    """
    request = {"op": "facts", **names, "with_munge_key": with_secrets, "with_slurm_conf": with_secrets}
    before = time.time()
    lines = transport.call(host, request)
    after = time.time()
    answer = next((line["facts"] for line in lines if "facts" in line), None)
    if answer is None:
        raise AgentFailed(host, "the agent answered without facts; please report this.")
    return from_answer(host, answer, answer.get("clock", after) - (before + after) / 2)


def request_apply(run: Run, host: str, resources: Iterable[Any], *, dry_run: bool) -> list[Outcome]:
    """What a host's agent makes of resources: an outcome for each, in their order.

    Raises:
        SlurmfabError: another run is at work on the cluster, and this would change something.
        HostError: the host does not answer.
    """
    if not dry_run:
        require_claim(run)
    request = apply_request(run, resources, dry_run=dry_run)
    lines = run.transport.call(host, request)
    outcomes = [outcome_from(line["outcome"]) for line in lines if "outcome" in line]
    wanted = request["resources"]
    if len(outcomes) != len(wanted):
        raise AgentFailed(host, f"the agent answered {len(outcomes)} of {len(wanted)} questions; please report this.")
    return outcomes


def apply_request(run: Run, resources: Iterable[Any], *, dry_run: bool) -> dict[str, Any]:
    """The request that resources be compared or converged; without any, it takes the host's lock and no more."""
    request = {
        "op": "apply",
        "dry_run": dry_run,
        "who": f"{who()}, fab {run.command}",
        "run": run.id,
        "resources": [as_request(resource) for resource in resources],
    }
    return {**request, "digest_key": run.digest_key} if dry_run and run.digest_key else request


def require_claim(run: Run) -> None:
    """See that this run has the cluster for itself; whoever changes a host has been here first.

    Raises:
        SlurmfabError: another run is at work on the cluster.
        HostError: the controller does not answer.
    """
    with run.claiming:
        if not run.is_claimed:
            claim(run)


def claim(run: Run) -> bool:
    """Take the primary controller's lock for this run, before it changes anything anywhere.

    Every run takes that one first; of two that begin at the same moment, one thus changes nothing at all.

    Returns:
        Whether another run has had it since the hosts were asked, so that what they said may be true no longer.

    Raises:
        SlurmfabError: another run has it, with the words of who that is.
        HostError: the controller does not answer.
    """
    try:
        lines = run.transport.call(run.controller, apply_request(run, (), dry_run=False))
    except AnotherRun as error:
        raise SlurmfabError(
            f"{error.host}: another run is at work on this cluster: {error.holder}. Nothing was changed by this one. "
            "Run the same command again when that one has ended."
        ) from None
    run.before_change()
    run.is_claimed = True
    idle = next((line["lock"]["idle"] for line in lines if "lock" in line), None)
    return idle is not None and idle < time.monotonic() - run.asked + CLOCK_MARGIN
