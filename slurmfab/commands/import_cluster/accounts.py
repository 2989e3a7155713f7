"""Users in slurmdbd whom the hosts no longer know: they stay in slurmdbd, and are not in the cluster file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from slurmfab.cluster.inventory.accounting import ROOT
from slurmfab.core.plan.phases.accounts import SLURM

ALWAYS = ("", ROOT, SLURM)  # users of associations that are no people


def of_people(answer: Mapping[str, Any], people: Collection[str] | None) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """sacctmgr's answer without users unknown to the controller (`None`: unasked), and these users."""
    if people is None:
        return answer, ()
    users = {user for _, user, _ in answer["associations"] if user not in ALWAYS}
    gone = users - {*people}
    accounts = [(head, coordinators) for *head, coordinators in answer["accounts"]]
    kept = {
        "associations": [one for one in answer["associations"] if one[1] not in gone],
        "accounts": [[*head, [one for one in coordinators if one not in gone]] for head, coordinators in accounts],
        "partitioned": [one for one in answer["partitioned"] if one[1] not in gone],
    }
    return {**answer, **kept}, tuple(sorted(gone))


def remark(gone: Collection[str], controller: str) -> str:
    """What people should know of the users that are left out."""
    return (
        f"Not in the cluster file, because {controller} knows no such user (getent passwd): {', '.join(gone)}. "
        "slurmdbd keeps them and their history; remove them there with sacctmgr, if they have left."
    )
