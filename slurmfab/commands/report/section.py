"""One section of a page, and what all sections are made from: what was gathered, or the reason why it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from slurmfab.base.markup import Markup
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.usage.asking import Usage
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Report
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.limits_in_use import LimitedUse

Tone = Literal["good", "watch", "bad", "plain"]
"""How a section is marked in the table of contents; each has a sign of its own besides the colour."""


@dataclass(frozen=True)
class Section:
    """One section of a page."""

    id: str  # of its element, for links, such as `nodes`; letters and hyphens
    title: str
    html: Markup
    note: str = ""  # one line below the heading: what it shows, from when it is, or why it is empty
    badge: str = ""  # a few characters behind its name in the table of contents, such as `2 failed`; empty for none
    tone: Tone = "plain"  # how the badge is marked


@dataclass(frozen=True)
class Missing:
    """Something that a page does not have."""

    # why, as one or more sentences; empty where nobody asked for it, so that the page does not mention it
    reason: str = ""


NOT_ASKED = Missing()


@dataclass(frozen=True)
class Sources:
    """Everything that a page shows. Texts of hosts and users are in it as they came: templates escape them."""

    inventory: Inventory
    made: datetime  # when the page was made, with its time zone
    by: str  # who made it, such as `ann@laptop`
    # hosts that did not answer, or could not be asked, each with the reason
    silent: Mapping[str, str] = field(default_factory=dict)
    asleep: Mapping[str, str] = field(default_factory=dict)  # nodes that Slurm has powered down, each with the reason
    status: Status | Missing = NOT_ASKED  # the state of Slurm; nodes, partitions and jobs are in `status.seen`
    facts: Mapping[str, HostFacts] | Missing = NOT_ASKED  # of the hosts that answered
    plan: Report | Missing = NOT_ASKED  # what a deployment would do, with the kinds of drift
    records: tuple[Record, ...] | Missing = NOT_ASKED  # the recorded runs, oldest first
    checks: CheckRun | Missing = NOT_ASKED  # the last run of `check-cluster` over the whole cluster
    # accounts, users and QOS with their limits and use; none where there is no accounting
    limits: tuple[LimitedUse, ...] | Missing = NOT_ASKED
    usage: Usage | Missing = NOT_ASKED  # what jobs used lately; none where Slurm keeps no records
    # entries of the history of GPU checks, oldest first (`programs.gpu_check.history`)
    gpu_checks: tuple[Mapping[str, Any], ...] | Missing = NOT_ASKED
