"""Packages through the controller (`packages: {through: controller}`): a proxy there, for the time of a run."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from slurmfab.base.archive import format_size
from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.inventory.slurm_packages import AptRepository
from slurmfab.cluster.slurm.platform import APT
from slurmfab.commands.bundle.selection import lacking
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.packages.package_way import PackageWay

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run
    from slurmfab.core.plan.plan_input import PlanInput

TOKEN_BYTES = 24


def deliver(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Have the controller listen if hosts lack packages, and each of these use it before it installs.

    Where the controller cannot, hosts go their own ways, and the reason is told. Raises HostError of the controller.
    """
    hosts = needing(plan_input, resources)
    address = own_address(plan_input)
    if not hosts:
        return dict(resources)
    tokens = {host: secrets.token_hex(TOKEN_BYTES) for host in hosts}
    step = {
        "do": "listen",
        "address": address,
        "uris": further_sources(plan_input, hosts),
        "tokens": [*tokens.values()],
    }
    answer: Mapping[str, Any] = asked(run, step) if address else {"why": "no IP address of it is known"}
    if "port" not in answer:
        why = answer.get("why", "it told no port")
        run.progress.line(f"Packages do not come through {run.controller}, but by each host's own way: {why}.")
        return dict(resources)
    uris = tuple(answer["uris"])
    ways = {host: PackageWay(address, answer["port"], token, uris) for host, token in tokens.items()}
    return {host: (ways[host], *given) if host in ways else given for host, given in resources.items()}


def finish(run: Run) -> None:
    """End the proxy, and tell what it did; a controller that is lost has ended it itself."""
    try:
        done = asked(run, {"do": "end"})
    except SlurmfabError:
        return
    if done.get("sent"):
        once, all_of_them = format_size(done["fetched_bytes"]), format_size(done["sent_bytes"])
        run.progress.line(
            f"{run.controller} fetched {done['fetched']} files of packages once ({once}) and passed on {done['sent']} "
            f"({all_of_them})."
        )


def asked(run: Run, step: Mapping[str, Any]) -> Mapping[str, Any]:
    """The controller's answer to a step of `slurmfab.on_hosts.agent.packages.proxy`; HostError if there is none."""
    lines = run.transport.call(run.controller, {"op": "proxy", **step})
    return dict(answer_value(run.controller, lines, "proxy"))


def own_address(plan_input: PlanInput) -> str:
    """The IP address at which hosts reach the controller: one that others trust and that it has; empty for none."""
    controller = plan_input.cluster.controller
    there = plan_input.facts[controller].addresses
    return next((one for one in plan_input.trusted_addresses(controller) if one in there), next(iter(there), ""))


def needing(plan_input: PlanInput, hosts: Iterable[str]) -> list[str]:
    """The hosts that have apt and lack packages."""
    there = [host for host in hosts if host in plan_input.facts and plan_input.platform_of(host).manager == APT]
    return [host for host in there if lacking(plan_input, host)]


def further_sources(plan_input: PlanInput, hosts: Iterable[str]) -> list[str]:
    """The addresses of the repositories with Slurm's packages that the cluster file names for these hosts."""
    found = (plan_input.cluster.slurm_of(host).source for host in hosts)
    return list(dict.fromkeys(uri for one in found if isinstance(one, AptRepository) for uri in one.uris))
