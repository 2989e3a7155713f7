"""Nodes that sleep: programs, settings and a timer on controllers, and a sudo rule on nodes that SSH stops."""

from __future__ import annotations

import json
from collections.abc import Iterator

from slurmfab.base.paths import (
    POWER_FAILURES,
    POWER_PASSWORD,
    POWER_PROGRAM,
    POWER_SETTINGS,
    POWER_UNIT,
    PROGRAMS,
    RESUME_PROGRAM,
    SUSPEND_PROGRAM,
    UNIT_FILES,
)
from slurmfab.cluster.inventory.power import Power
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned, program_files, removed
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.units import Timer

POWER = "power"  # the capability, by which a host remembers its files

TIMER = f"{POWER_UNIT}.timer"
SUDO_RULE = "/etc/sudoers.d/slurmfab-power"


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The program and its files on a controller, and the sudo rule on a node that is switched off by SSH."""
    files, power = tuple(wanted_files(plan_input, host)), plan_input.cluster.power
    if power is None or not files:
        return ()
    if host not in plan_input.cluster.controllers:
        return owned(plan_input, host, POWER, files)
    return (
        Directory(PROGRAMS),
        Directory(POWER_FAILURES, owner="slurm", group="slurm"),
        Program(POWER_PROGRAM, program_files("programs.power.main")),
        *owned(plan_input, host, POWER, files),
    )


def timer(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The timer on a controller that chooses idle nodes, and the removal of what the cluster file no longer has."""
    if plan_input.cluster.power is not None and host in plan_input.cluster.controllers:
        return (Timer(POWER_UNIT),)
    if plan_input.cluster.power is not None and any(wanted_files(plan_input, host)):
        return ()
    return gone(plan_input, host)


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of timer, program and files."""
    return removed(plan_input, host, POWER, POWER_PROGRAM, TIMER)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages that the host needs to switch nodes, or to be switched off."""
    power = plan_input.cluster.power
    if power is None:
        return ()
    if power.how.ipmi and host in plan_input.cluster.controllers:
        return ("ipmitool",)
    return ("sudo",) if power.how.wake_on_lan and host in power.nodes else ()


def wanted_files(plan_input: PlanInput, host: str) -> Iterator[OwnedFile]:
    """Yield the files that a host has for this capability."""
    power = plan_input.cluster.power
    if power is None:
        return
    if host in plan_input.cluster.controllers:
        yield from of_controller(plan_input, power)
    elif power.how.wake_on_lan and host in power.nodes:
        yield OwnedFile(SUDO_RULE, "slurm ALL=(root) NOPASSWD: /usr/bin/systemctl poweroff\n", mode=0o440)


def of_controller(plan_input: PlanInput, power: Power) -> Iterator[OwnedFile]:
    """Yield the settings, the password of IPMI controllers, what slurm.conf names, and the timer's units."""
    yield OwnedFile(POWER_SETTINGS, settings(plan_input, power))
    if power.how.ipmi:
        password = f"{plan_input.power_password}\n"
        yield OwnedFile(POWER_PASSWORD, password, mode=0o600, owner="slurm", group="slurm", secret=True)
    context = {"program": POWER_PROGRAM, "settings": POWER_SETTINGS}
    for path, word in ((SUSPEND_PROGRAM, "suspend"), (RESUME_PROGRAM, "resume")):
        yield OwnedFile(path, fill("power-switch", {**context, "word": word}), mode=0o755)
    for kind in ("service", "timer"):
        text = fill(f"{POWER_UNIT}.{kind}", {**context, "seconds": power.check_every})
        yield OwnedFile(f"{UNIT_FILES}/{POWER_UNIT}.{kind}", text)


def settings(plan_input: PlanInput, power: Power) -> str:
    """The settings of the power program as JSON text."""
    how, nodes = power.how, power.nodes
    kinds: dict[str, object] = {}
    if how.ipmi:
        addresses = {node: how.ipmi.address_of(node) for node in nodes}
        kinds["ipmi"] = {"address": addresses, "user": how.ipmi.user, "password": POWER_PASSWORD}
    if how.wake_on_lan:
        addresses = {node: plan_input.address(node) for node in nodes}
        macs = {node: how.wake_on_lan.mac[node] for node in nodes}
        kinds["wake_on_lan"] = {"address": addresses, "mac": macs, "broadcast": how.wake_on_lan.broadcast}
    if how.command:
        kinds["command"] = {"suspend": how.command.suspend, "resume": how.command.resume}
    found = {
        "nodes": list(nodes),
        "always_on": list(power.always_on),
        "after": power.suspend_after,
        "keep": power.least_on,
        "rate": power.rate,
        "suspend_timeout": power.suspend_timeout,
        "resume_timeout": power.resume_timeout,
        "failures": POWER_FAILURES,
        "how": next(iter(kinds)),
        **kinds,
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"
