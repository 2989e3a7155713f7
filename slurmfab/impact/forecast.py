"""What a plan says about Slurm itself: each difference in its files, what it requires, and the jobs that it hurts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Every run has a forecast; these modules are loaded only once hosts have been asked.
    from slurmfab.impact.disruptive_changes import Disruption
    from slurmfab.impact.restart_requirements import Requirement
    from slurmfab.impact.slurm_diff import Difference
    from slurmfab.slurm.versions import SlurmVersion


@dataclass(frozen=True)
class Label:
    """A difference in Slurm's files, and what it requires on the installed version."""

    difference: Difference
    need: Requirement


@dataclass(frozen=True)
class Forecast:
    """What a change of Slurm's files requires; empty when no file changes.

    Args:
        labels: each difference with its requirement.
        renewal: a sentence: which daemons are restarted or reconfigured, and on which hosts.
        disruptions: the reasons for which a deployment is refused, unless the user allows them.
    """

    labels: tuple[Label, ...] = ()
    renewal: str = ""
    disruptions: tuple[Disruption, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The forecast as JSON values; docs/plans.md describes the keys."""
        return {
            "slurm_conf": [label_as_json(label) for label in self.labels],
            "daemons": self.renewal,
            "dangers": [disruption_as_json(one) for one in self.disruptions],
        }


def labelled(differences: Iterable[Difference], version: SlurmVersion) -> tuple[Label, ...]:
    """Each difference with what it requires on this version of Slurm."""
    from slurmfab.impact.restart_requirements import need

    return tuple(Label(difference, need(difference, version)) for difference in differences)


def label_as_json(label: Label) -> dict[str, Any]:
    """A difference and its requirement as JSON values."""
    difference = label.difference
    return {
        "file": difference.file,
        "kind": difference.kind,
        "name": difference.title,
        "actual": difference.actual,
        "wanted": difference.wanted,
        "needs": label.need.value,
    }


def disruption_as_json(disruption: Disruption) -> dict[str, Any]:
    """A disruption as JSON values, with the jobs that it hurts."""
    from slurmfab.impact.disruptive_changes import allowances

    return {
        "name": disruption.name,
        "change": disruption.what,
        "reason": disruption.reason,
        "ways": list(allowances(disruption)),
        "jobs": [
            {"id": job.id, "user": job.user, "state": job.state, "partitions": list(job.partitions), "nodes": place}
            for job in disruption.jobs
            for place in ("" if job.is_pending else job.node_list,)
        ],
    }
