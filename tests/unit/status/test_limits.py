"""What one user may use, as slurmdbd tells it and as `status --user` shows it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from slurmfab.base.json_output import as_json
from slurmfab.core.status import text
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.limits import QosLimits, UserLimits, limits_from
from slurmfab.core.status.snapshot import Controller, Snapshot
from slurmfab.on_hosts.programs.user_tools.limits import Association

ANSWER = {
    "associations": "physics|||normal,urgent|1||||5|\nmaths|gpu|normal|normal|||02:00:00|gres/gpu=4|-1|\n",
    "qos": "normal||10|gres/gpu=2||||||\nurgent|||||||||\nhidden|1||||||||\n",
}
LIMITS = UserLimits(
    (
        Association("physics", "", "", ("normal", "urgent"), {"MaxJobs": "1", "GrpJobs": "5"}),
        Association("maths", "gpu", "normal", ("normal",), {"MaxWall": "02:00:00", "MaxTRES": "gres/gpu=4"}),
    ),
    (QosLimits("normal", {"MaxSubmitPU": "10", "MaxTRESPU": "gres/gpu=2"}), QosLimits("urgent")),
)


def shown(limits: UserLimits | None, *, has_database: bool = True) -> str:
    """What `status --user ann` shows of somebody without jobs."""
    seen = Snapshot((Controller("c1", "primary", is_up=True),), limits=limits)
    out = io.StringIO()
    text.write(Status("lab", seen, {}, has_database), "ann", out)
    return out.getvalue()


def test_what_slurmdbd_tells_is_read_with_the_qos_that_the_user_may_use() -> None:
    assert limits_from(ANSWER) == LIMITS


def test_a_slurmdbd_that_did_not_answer_told_nothing() -> None:
    assert limits_from({"ping": "", "jobs": ""}) is None


def test_limits_are_shown_by_account_and_qos() -> None:
    lines = [line.split() for line in shown(LIMITS).splitlines()]
    assert ["account", "physics", "normal,urgent", "MaxJobs=1", "GrpJobs=5"] in lines
    assert ["account", "maths", "in", "gpu", "normal", "MaxWall=02:00:00", "MaxTRES=gres/gpu=4"] in lines
    assert ["qos", "normal", "-", "MaxSubmitPU=10", "MaxTRESPU=gres/gpu=2"] in lines
    assert ["qos", "urgent", "-", "none"] in lines


@pytest.mark.parametrize(
    ("limits", "more", "words"),
    [
        (None, {"has_database": False}, "this cluster has no accounting database"),
        (None, {}, "limits are unknown: slurmdbd does not answer"),
        (UserLimits(), {}, "ann has no account."),
    ],
)
def test_where_there_are_no_limits_it_is_said_why(limits: UserLimits | None, more: dict[str, Any], words: str) -> None:
    assert words in shown(limits, **more)


def test_limits_as_json_have_a_key_for_each_of_these() -> None:
    seen = Snapshot((Controller("c1", "primary", is_up=True),), limits=LIMITS)
    told = as_json(Status("lab", seen, {}, has_database=True, user="ann"))["user"]["limits"]
    assert told["associations"][0] == {
        "account": "physics",
        "partition": "",
        "default_qos": "",
        "qos": ["normal", "urgent"],
        "limits": {"MaxJobs": "1", "GrpJobs": "5"},
    }
    assert told["qos"][1] == {"name": "urgent", "limits": {}}
