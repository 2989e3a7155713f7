"""What hosts are asked through their agents: for their facts, and what they make of resources."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from slurmfab.agent.resource import Outcome, as_request
from slurmfab.errors import AgentFailed, InputError, PythonMissing, SlurmfabError
from slurmfab.facts import HostFacts, from_answer
from slurmfab.report import Step, outcome_from
from slurmfab.run import Run
from slurmfab.signature import who
from slurmfab.ssh.transport import Transport, on_each

CARED_FOR = {
    "users": ("slurm", "munge"),
    "packages": ("munge", "slurmctld", "slurmd", "slurm-client"),
    "services": ("slurmctld", "slurmd", "munge"),
}
"""What of a host's many users, packages and services a plan depends on."""


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
        DeployFailed: the controller does not answer.
    """
    facts: dict[str, HostFacts] = {}

    def ask(host: str) -> HostFacts:
        try:
            return ask_facts(run.transport, host, with_secrets=host == run.controller)
        except PythonMissing:
            if not may_prepare:
                raise
        begun = time.monotonic()
        run.transport.install_python(host)
        run.steps.append(Step("python", host, (Outcome("packages:python3", "changed"),), time.monotonic() - begun))
        return ask_facts(run.transport, host, with_secrets=host == run.controller)

    run.progress.begin("asking", hosts)
    for host, answer in on_each(hosts, ask):
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            facts[host] = answer
            run.progress.host_done(host)
    run.require_controller()
    return {host: facts[host] for host in hosts if host in facts}


def ask_facts(transport: Transport, host: str, *, with_secrets: bool) -> HostFacts:
    """The facts of one host.

    Args:
        transport: the way to it.
        host: its name.
        with_secrets: whether the munge key comes along, which only the controller is asked for.

    Raises:
        HostError: it does not answer.
    """
    request = {"op": "facts", **CARED_FOR, "with_munge_key": with_secrets, "with_slurm_conf": with_secrets}
    before = time.time()
    lines = transport.call(host, request)
    after = time.time()
    answer = next((line["facts"] for line in lines if "facts" in line), None)
    if answer is None:
        raise AgentFailed(host, "the agent answered without facts; please report this.")
    return from_answer(host, answer, answer.get("clock", after) - (before + after) / 2)


def request_apply(run: Run, host: str, resources: Iterable[Any], *, dry_run: bool) -> list[Outcome]:
    """What a host's agent makes of resources: an outcome for each, in their order."""
    wanted = [as_request(resource) for resource in resources]
    request = {"op": "apply", "dry_run": dry_run, "who": who(), "run": run.id, "resources": wanted}
    lines = run.transport.call(host, request)
    outcomes = [outcome_from(line["outcome"]) for line in lines if "outcome" in line]
    if len(outcomes) != len(wanted):
        raise AgentFailed(host, f"the agent answered {len(outcomes)} of {len(wanted)} questions; please report this.")
    return outcomes
