"""Drift: what is no longer as a deployment left it, in four kinds that want four different repairs.

A changed file is written anew; a daemon that runs with an older file is restarted or told to read it; so is a munged
that has not loaded its key; and other hardware is nothing that a deployment could change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from slurmfab.agent.resource import OK, Change, Outcome
from slurmfab.agent.service import LOADED, OLDER
from slurmfab.phases.munge import KEY
from slurmfab.plans.kinds_of_drift import CHANGED_FILE, KEY_NOT_LOADED, OLDER_FILE, OTHER_HARDWARE, acceptance
from slurmfab.plans.other_hardware import differences
from slurmfab.report import DIFFERS, Step
from slurmfab.situation import Situation

HARDWARE = "hardware"
"""How a plan calls the phase, and the resource, that is no deployment's to change."""

LEFT_ALONE = "deploy does not change this: repair the node; or, if it is meant to be so,"

FILE_KINDS = frozenset({"file", "block", "slurm-files", "absent", "munge-key"})
"""Resources that are files, or lines of a file."""

NO_FILE = frozenset({"leftovers"})
"""Names in the state of such resources that are about no file of the cluster's."""


def kind(outcome: Outcome) -> str:
    """Which of the four kinds a difference on a host is; empty for what is no drift, such as a missing package.

    A daemon that would run with an older file only because this plan changes the file has not drifted.
    """
    resource, _, name = outcome.id.partition(":")
    if outcome.status == OK:
        return ""
    if resource == HARDWARE:
        return OTHER_HARDWARE
    if resource in FILE_KINDS:
        return CHANGED_FILE if {change.name for change in outcome.changes} - NO_FILE else ""
    if resource == "service" and any(one.name == LOADED and one.actual.startswith(OLDER) for one in outcome.changes):
        return KEY_NOT_LOADED if name == "munge" else OLDER_FILE
    return ""


def told(situation: Situation, steps: Sequence[Step]) -> list[Step]:
    """The steps of a survey with each drift's kind, and with a step for each node that has other hardware.

    On a host that lacks packages nothing has drifted: it is new. A munged has not failed to load a key that is itself
    not the cluster's; there the file is what has changed. And a file that differs in the same way on the controller has
    not been changed on a host; it is what the cluster file says that has.

    Args:
        situation: what the survey was planned on.
        steps: all outcomes of it.
    """
    new = hosts_where(steps, "packages:")
    other_key = hosts_where(steps, f"file:{KEY}")
    wishes = new_wishes(steps, situation.cluster.controller)

    def kind_on(host: str, outcome: Outcome) -> str:
        word = kind(outcome)
        is_follower = word == KEY_NOT_LOADED and host in other_key
        is_wish = word == CHANGED_FILE and host in wishes.get((outcome.id, outcome.changes), ())
        return "" if is_follower or is_wish else word

    return [
        *(step if step.host in new or not step.differs else with_kinds(step, kind_on) for step in steps),
        *other_hardware(situation, {step.host for step in steps}),
    ]


def new_wishes(steps: Sequence[Step], controller: str) -> Mapping[tuple[str, tuple[Change, ...]], Collection[str]]:
    """The differences that come from what is wanted, by id and changes, with the hosts that have them.

    They are those that the controller shares. Its own is one of them only if most hosts share it: else it could have
    been edited on the controller.

    Args:
        steps: all outcomes of a survey.
        controller: the primary controller.
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
    """The hosts on which a resource differs whose id begins like this."""
    return frozenset(
        step.host
        for step in steps
        if any(outcome.status != OK and outcome.id.startswith(start) for outcome in step.outcomes)
    )


def with_kinds(step: Step, kind_on: Callable[[str, Outcome], str]) -> Step:
    """A step with the kind of each drift in it, given what finds it by host and outcome."""
    words = (kind_on(step.host, outcome) for outcome in step.outcomes)
    marked = (
        replace(outcome, drift=word) if word else outcome for outcome, word in zip(step.outcomes, words, strict=True)
    )
    return replace(step, outcomes=tuple(marked))


def other_hardware(situation: Situation, hosts: Iterable[str]) -> list[Step]:
    """A step for each of these compute nodes whose hardware is not what the lock holds, in the cluster's order."""
    asked = frozenset(hosts)
    found = []
    for node in situation.compute_nodes:
        if node not in asked or node not in situation.facts:
            continue
        fact = situation.facts[node]
        changes = differences(situation.host(node), fact.hardware, fact.gpus, situation.cluster.memory_margin)
        if changes:
            advice = f"{LEFT_ALONE} {acceptance(situation.cluster.roles(node))}."
            outcome = Outcome(HARDWARE, DIFFERS, tuple(changes), advice, drift=OTHER_HARDWARE)
            found.append(Step(HARDWARE, node, (outcome,)))
    return found
