"""What a plan says about Slurm itself: each difference in its files, what it requires, and the jobs that it hurts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmfab.base.json_output import Key, shows

if TYPE_CHECKING:
    # Every run has a forecast; these modules are loaded only once hosts have been asked.
    from slurmfab.cluster.slurm.versions import SlurmVersion
    from slurmfab.core.impact.disruptive_changes import Disruption
    from slurmfab.core.impact.restart_requirements import Requirement
    from slurmfab.core.impact.slurm_diff import Difference


@shows(
    Key("file", "difference.file"), Key("kind", "difference.kind"), Key("name", "difference.title"),
    Key("actual", "difference.shown_actual"), Key("wanted", "difference.shown_wanted"), Key("needs", "need"),
)  # fmt: skip
@dataclass(frozen=True)
class Label:
    """A difference in Slurm's files."""

    difference: Difference
    need: Requirement  # what the installed Slurm requires for it, such as `reconfigure`


@dataclass(frozen=True)
class Forecast:
    """What a change of Slurm's files requires; empty when no file changes."""

    labels: tuple[Label, ...] = ()  # the differences in Slurm's files
    renewal: str = ""  # a sentence: which daemons are restarted or reconfigured, and where; empty for none
    # the changes that would harm jobs: a deployment is refused, unless the user allows them
    disruptions: tuple[Disruption, ...] = ()


def labelled(differences: Iterable[Difference], version: SlurmVersion) -> tuple[Label, ...]:
    """Each difference with what it requires on this version of Slurm."""
    from slurmfab.core.impact.restart_requirements import need

    return tuple(Label(difference, need(difference, version)) for difference in differences)
