"""Sending packages of a bundle to the hosts that lack them, over the SSH connections that are open already.

Each host gets the bundle's index and answers which files it needs. Only these are sent, in pieces that are read from
the bundle when they are sent, so that memory does not grow with the size of the bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from slurmfab.base.errors import AgentFailed, HostFailed
from slurmfab.base.program_name import FAB
from slurmfab.commands.bundle.archive import Bundle
from slurmfab.commands.bundle.pinned import bundles, pin_first_uses
from slurmfab.commands.bundle.selection import expected_series, lacking, newest_for, refusal
from slurmfab.commands.bundle.sending import PIECE_BYTES, PackageFile, SentBytes, request_step, send_file, send_to_each
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.packages.packages import Packages

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run
    from slurmfab.core.plan.plan_input import PlanInput


def deliver(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Send packages to the hosts that lack some, before a phase installs them from there.

    Returns the resources by host, unchanged without need. Raises InputError if a bundle is missing, damaged or another.
    """
    texts = {host: package_texts(wanted) for host, wanted in resources.items() if package_texts(wanted)}
    needing = {host: texts[host] for host in texts if plan_input.cluster.bundle and lacking(plan_input, host)}
    digests = send_packages(run, plan_input, needing) if needing else {}
    return {
        host: tuple(replace(one, bundle=digests.get(host, "")) if isinstance(one, Packages) else one for one in wanted)
        for host, wanted in resources.items()
        if host not in run.failed_hosts
    }


def send_packages(run: Run, plan_input: PlanInput, needing: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Send packages to many hosts at the same time.

    `needing`: the packages to install, by host, each as `NAME` or `NAME=VERSION`. Returns the digest of the bundle that
    the packages came from, by host. Raises InputError if a bundle is missing, damaged or another one than before.
    """
    found = bundles(run.inventory)
    chosen = {host: newest_for(found, plan_input.facts[host]) for host in needing}
    pin_first_uses(run, filter(None, chosen.values()))

    def send(host: str, sent: SentBytes) -> str:
        bundle = chosen[host]
        if bundle is None:
            names, facts = tuple(text.partition("=")[0] for text in needing[host]), plan_input.facts[host]
            raise HostFailed(host, refusal(found, facts, names, expected_series(plan_input, facts)))
        send_to_host(run, host, bundle, needing[host], sent)
        return bundle.digest

    return send_to_each(run, needing, send)


def package_texts(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    """All packages among resources, each as `NAME` or `NAME=VERSION`."""
    return tuple(text for one in resources if isinstance(one, Packages) for text in one.texts(one.names))


def send_to_host(run: Run, host: str, bundle: Bundle, names: tuple[str, ...], sent: SentBytes) -> None:
    """Send a host the package files that it lacks; HostError of the host, InputError of a shorter bundle."""
    answer = request_step(run, host, bundle.digest, {"do": "begin", "index": bundle.index, "names": names})
    for name in answer["lacking"]:
        part = bundle.parts.get(name)
        if part is None:
            raise AgentFailed(
                host, f"it asks for {name}, which is not in {bundle.path}. This is a bug; please report it."
            )
        pieces = part.pieces(PIECE_BYTES, f"Make it again: {FAB} bundle.")
        send_file(run, host, bundle.digest, PackageFile(name, part.size, part.sha256, pieces), sent)
