"""Drift: what has changed on hosts since the last deployment, in six kinds, each with another repair.

A changed file is written again. A daemon that loaded an older file, or a munged that has not loaded its key, is
restarted or reconfigured. A lost job waits again. A daemon that crashed runs again, and is told once. Other hardware is
reported, since no deployment can change it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from slurmfab.base.paths import MUNGE_KEY
from slurmfab.base.program_name import FAB
from slurmfab.core.engine.report import DIFFERS, Step
from slurmfab.core.impact.drift_kinds import (
    CHANGED_FILE,
    CRASHED,
    KEY_NOT_LOADED,
    LOST_JOB,
    OLDER_FILE,
    OTHER_HARDWARE,
)
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.hardware import changed, way_to_accept
from slurmfab.on_hosts.agent.core.resource import OK, Change, Outcome
from slurmfab.on_hosts.agent.nodes.lost_jobs import LostJobs
from slurmfab.on_hosts.agent.nodes.registered import LEFT_TO_A_PERSON
from slurmfab.on_hosts.agent.services.service import BY_ITSELF, LOADED, OLDER

HARDWARE = "hardware"  # name of the phase and of the resource that show other hardware in a plan

HARDWARE_ADVICE = "deploy does not change this: repair the node; or, if this is intended:"

NODE_ADVICE = (
    f"deploy does not change this; when the reason is fixed: {FAB} resume NODE (what a person has set: --any)."
)

FILE_KINDS = frozenset({"file", "block", "slurm-files", "shared-files", "absent", "munge-key"})
"""Kinds of resources that are files or lines of a file."""

NO_FILE = frozenset({"leftovers"})
OF_CONTROLLER = " content"
"""Names of differences in such resources that are not about a file of the cluster, and the end of the names of those
that are told of the primary controller, which writes the file for all hosts."""


def drift_kind(outcome: Outcome) -> str:
    """The kind of drift of an outcome; empty if it is none, as a missing package, or a file that the plan changes."""
    resource, _, name = outcome.id.partition(":")
    if outcome.status == OK:
        return ""
    if resource in (HARDWARE, LostJobs.kind):
        return OTHER_HARDWARE if resource == HARDWARE else LOST_JOB
    if resource in FILE_KINDS:
        names = {change.name for change in outcome.changes if not change.name.endswith(OF_CONTROLLER)}
        return CHANGED_FILE if names - NO_FILE else ""
    if resource == "service" and any(one.name == LOADED and one.actual.startswith(OLDER) for one in outcome.changes):
        return KEY_NOT_LOADED if name == "munge" else OLDER_FILE
    if resource == "service" and any(one.name == BY_ITSELF for one in outcome.changes):
        return CRASHED
    return ""


def with_drift(plan_input: PlanInput, steps: Sequence[Step]) -> list[Step]:
    """Add the kind of drift to the outcomes of a survey, and a step for each node with other hardware.

    Some differences are not drift: all differences on a host that is new; a munged that has not loaded its key where
    the key file itself differs; and a file that differs on the controller in the same way, since the cluster file has
    changed there and not the host. `steps`: all outcomes of the survey. Returns the steps in their order, then those of
    the hardware.
    """
    # Hosts that no deployment has finished lack packages, or slurm's first key pair.
    without_key = hosts_where(steps, "ssh-key:")
    new = hosts_where(steps, "packages:") | {host for host in without_key if not plan_input.host(host).public_key}
    other_key = hosts_where(steps, f"file:{MUNGE_KEY}")
    from_cluster_file = cluster_file_changes(steps, plan_input.cluster.controller)

    def kind_on(host: str, outcome: Outcome) -> str:
        kind = drift_kind(outcome)
        is_follower = kind == KEY_NOT_LOADED and host in other_key
        is_wanted_change = kind == CHANGED_FILE and host in from_cluster_file.get((outcome.id, outcome.changes), ())
        return "" if is_follower or is_wanted_change else kind

    return [
        *(step if step.host in new or not step.differs else with_kinds(step, kind_on) for step in steps),
        *other_hardware(plan_input, {step.host for step in steps}),
    ]


def left_out(step: Step) -> Step:
    """A step that says which nodes a deployment leaves out of service, apart from what it changes."""
    found: list[Outcome] = []
    for one in step.outcomes:
        left = tuple(change for change in one.changes if change.name == LEFT_TO_A_PERSON)
        rest = tuple(change for change in one.changes if change.name != LEFT_TO_A_PERSON)
        found += [replace(one, changes=rest) if left else one] if rest or not left else []
        found += [Outcome(one.id, DIFFERS, left, NODE_ADVICE)] if left else []
    return replace(step, outcomes=tuple(found))


def cluster_file_changes(
    steps: Sequence[Step], controller: str
) -> Mapping[tuple[str, tuple[Change, ...]], Collection[str]]:
    """The differences that come from a change of the cluster file.

    These are the differences that the controller and other hosts have in the same way. If most hosts have one, it comes
    from the cluster file on the controller too; otherwise the file could have been edited on the controller. Returns
    the hosts of each such difference, by the resource's id and its changes.
    """
    having: dict[str, int] = {}
    alike: dict[tuple[str, tuple[Change, ...]], list[str]] = {}
    for step in steps:
        for outcome in step.outcomes:
            if outcome.id.partition(":")[0] in FILE_KINDS:
                having[outcome.id] = having.get(outcome.id, 0) + 1
                if outcome.changes:
                    alike.setdefault((outcome.id, outcome.changes), []).append(step.host)
    shared = {key: hosts for key, hosts in alike.items() if controller in hosts and len(hosts) > 1}
    return {
        key: frozenset(hosts if 2 * len(hosts) > having[key[0]] else set(hosts) - {controller})
        for key, hosts in shared.items()
    }


def hosts_where(steps: Iterable[Step], start: str) -> frozenset[str]:
    """The hosts on which a resource differs whose id begins with a text."""
    return frozenset(
        step.host
        for step in steps
        if any(outcome.status != OK and outcome.id.startswith(start) for outcome in step.outcomes)
    )


def with_kinds(step: Step, kind_on: Callable[[str, Outcome], str]) -> Step:
    """Add the kind of drift, as `kind_on` tells it for an outcome on a host, to a step; empty for none."""
    kinds = (kind_on(step.host, outcome) for outcome in step.outcomes)
    marked = (
        replace(outcome, drift=kind) if kind else outcome for outcome, kind in zip(step.outcomes, kinds, strict=True)
    )
    return replace(step, outcomes=tuple(marked))


def other_hardware(plan_input: PlanInput, hosts: Iterable[str]) -> list[Step]:
    """A step for each compute node among the hosts that has other hardware than in the lock, in the cluster's order."""
    asked = frozenset(hosts)
    found = ((node, changes) for node, changes in changed(plan_input).items() if node in asked)
    return [
        Step(HARDWARE, node, (Outcome(HARDWARE, DIFFERS, changes, advice(plan_input, node), drift=OTHER_HARDWARE),))
        for node, changes in found
    ]


def advice(plan_input: PlanInput, node: str) -> str:
    """What to do about other hardware, the same words for all nodes that have it."""
    return f"{HARDWARE_ADVICE} {way_to_accept(plan_input, node)}."
