"""A managed block in /etc/hosts, so that all hosts resolve each other's names without DNS."""

from __future__ import annotations

from slurmfab.cluster.inventory.trusted_addresses import is_source
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.host_names import HostNames

HOSTS = "/etc/hosts"
TEMPLATES = {"apt": "/etc/cloud/templates/hosts.debian.tmpl", "dnf": "/etc/cloud/templates/hosts.redhat.tmpl"}
"""By package manager: from what cloud-init makes /etc/hosts anew at each boot where its data say `manage_etc_hosts`.

The head of such a file says to change the template; a setting of the host's own would not count, since the cloud's data
have the last word.
"""
LOOPBACK = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
"""For a host whose file is gone: `scontrol show slurmd` of Slurm 22.05, for one, asks slurmd at `localhost`."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """One line per host with an IP address, and no loopback for known names, also after a boot with cloud-init."""
    template = TEMPLATES[plan_input.platform_of(host).manager.name]
    shared = blocks(plan_input, template)
    if not plan_input.cluster.hosts_file:
        return shared
    address = plan_input.address(host)
    own = tuple((name, address) for name in ("{{fqdn}}", "{{hostname}}")) if is_source(address) else ()
    return (*shared, HostNames(HOSTS, own_names(plan_input, host)), HostNames(template, own))


def own_names(plan_input: PlanInput, host: str) -> tuple[tuple[str, str], ...]:
    """The names of a host and of the controllers, each with its IP address; without hosts that have none."""
    owners = filter(plan_input.is_member, dict.fromkeys((host, *plan_input.cluster.controllers)))
    pairs = ((name, plan_input.address(owner)) for owner in owners for name in plan_input.names(owner))
    return tuple((name, address) for name, address in pairs if is_source(address))


@once
def blocks(plan_input: PlanInput, template: str) -> tuple[Block, Block]:
    """The block in both files, the same on all hosts; empty content removes it."""
    text = plan_input.names_and_addresses if plan_input.cluster.hosts_file else ""
    return (
        Block(HOSTS, "hosts", text, strict=True, first=LOOPBACK if text else ""),
        Block(template, "hosts", text, strict=True, is_found=True),
    )
