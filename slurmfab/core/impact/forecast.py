"""What a plan says about Slurm itself: each difference in its files, what it requires, and the jobs that it hurts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    # Every run has a forecast; these modules are loaded only once hosts have been asked.
    from slurmfab.cluster.slurm.versions import SlurmVersion
    from slurmfab.core.impact.disruptive_changes import Disruption
    from slurmfab.core.impact.restart_requirements import Requirement
    from slurmfab.core.impact.slurm_diff import Difference


class LabelJson(TypedDict):
    """A difference in Slurm's files.

    Args:
        file: `slurm.conf`, `gres.conf` or `cgroup.conf`.
        kind: `setting`, `node`, `partition`, `devices` (of nodes in gres.conf) or `text` (comments and order only).
        name: what differs, as the plan shows it.
        actual: its value now; empty for none.
        wanted: its value afterwards; empty for none.
        needs: what the installed Slurm requires for it, such as `reconfigure`.
    """

    file: str
    kind: str
    name: str
    actual: str
    wanted: str
    needs: str


class HurtJobJson(TypedDict):
    """A job that a change would harm.

    Args:
        id: as squeue shows it.
        user: its owner.
        state: Slurm's word.
        partitions: its partitions; several while it waits for one of them.
        nodes: where it runs, as a hostlist; empty while it waits.
    """

    id: str
    user: str
    state: str
    partitions: list[str]
    nodes: str


class DisruptionJson(TypedDict):
    """A change that would harm jobs.

    Args:
        name: for `--allow`.
        change: what would be changed.
        reason: what that does to jobs.
        ways: the options with which a deployment does it.
        jobs: the jobs that it would harm.
    """

    name: str
    change: str
    reason: str
    ways: list[str]
    jobs: list[HurtJobJson]


class ForecastJson(TypedDict):
    """What a change of Slurm's files requires.

    Args:
        slurm_conf: the differences in Slurm's files.
        daemons: a sentence: which daemons are restarted or reconfigured, and where; empty for none.
        dangers: the changes that would harm jobs.
    """

    slurm_conf: list[LabelJson]
    daemons: str
    dangers: list[DisruptionJson]


@dataclass(frozen=True)
class Label:
    """A difference in Slurm's files, and what it requires on the installed version."""

    difference: Difference
    need: Requirement


@dataclass(frozen=True)
class Forecast:
    """What a change of Slurm's files requires; empty when no file changes."""

    labels: tuple[Label, ...] = ()  # each difference with its requirement
    renewal: str = ""  # a sentence: which daemons are restarted or reconfigured, and on which hosts
    # the reasons for which a deployment is refused, unless the user allows them
    disruptions: tuple[Disruption, ...] = ()

    def as_json(self) -> ForecastJson:
        """The forecast as JSON values."""
        return {
            "slurm_conf": [label_as_json(label) for label in self.labels],
            "daemons": self.renewal,
            "dangers": [disruption_as_json(one) for one in self.disruptions],
        }


def labelled(differences: Iterable[Difference], version: SlurmVersion) -> tuple[Label, ...]:
    """Each difference with what it requires on this version of Slurm."""
    from slurmfab.core.impact.restart_requirements import need

    return tuple(Label(difference, need(difference, version)) for difference in differences)


def label_as_json(label: Label) -> LabelJson:
    """A difference and its requirement as JSON values."""
    difference = label.difference
    actual, wanted = difference.shown
    return {
        "file": difference.file,
        "kind": difference.kind,
        "name": difference.title,
        "actual": actual,
        "wanted": wanted,
        "needs": label.need.value,
    }


def disruption_as_json(disruption: Disruption) -> DisruptionJson:
    """A disruption as JSON values, with the jobs that it hurts."""
    from slurmfab.core.impact.disruptive_changes import allowances

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
