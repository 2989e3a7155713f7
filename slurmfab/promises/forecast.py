"""What a plan says beforehand of Slurm itself: each difference in its files with its need, and who is hurt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Every run has a forecast, and what it may hold is not loaded before the first host is asked.
    from slurmfab.promises.conf import Difference
    from slurmfab.promises.dangers import Danger
    from slurmfab.promises.needs import Need
    from slurmfab.slurm.versions import SlurmVersion


@dataclass(frozen=True)
class Label:
    """A difference in Slurm's files, and what it needs on the installed version."""

    difference: Difference
    need: Need


@dataclass(frozen=True)
class Forecast:
    """What a change of Slurm's files needs; empty when none of them changes.

    Args:
        labels: each difference with its need.
        renewal: a sentence: which daemons are restarted or reconfigured for it, and where.
        dangers: for which a deployment is refused, unless somebody agrees.
    """

    labels: tuple[Label, ...] = ()
    renewal: str = ""
    dangers: tuple[Danger, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "slurm_conf": [label_as_json(label) for label in self.labels],
            "daemons": self.renewal,
            "dangers": [danger_as_json(danger) for danger in self.dangers],
        }


def labelled(differences: Iterable[Difference], version: SlurmVersion) -> tuple[Label, ...]:
    """Each difference with what it needs on this version of Slurm."""
    from slurmfab.promises.needs import need  # noqa: PLC0415 - see above

    return tuple(Label(difference, need(difference, version)) for difference in differences)


def label_as_json(label: Label) -> dict[str, Any]:
    """A difference and its need as JSON values."""
    difference = label.difference
    return {
        "file": difference.file,
        "kind": difference.kind,
        "name": difference.title,
        "actual": difference.actual,
        "wanted": difference.wanted,
        "needs": label.need.value,
    }


def danger_as_json(danger: Danger) -> dict[str, Any]:
    """A danger as JSON values, with the jobs that it would hurt."""
    from slurmfab.promises.dangers import allowances  # noqa: PLC0415 - see above

    return {
        "name": danger.name,
        "change": danger.what,
        "reason": danger.reason,
        "ways": list(allowances(danger)),
        "jobs": [
            {"id": job.id, "user": job.user, "state": job.state, "partitions": list(job.partitions), "nodes": place}
            for job in danger.jobs
            for place in ("" if job.is_pending else job.node_list,)
        ],
    }
