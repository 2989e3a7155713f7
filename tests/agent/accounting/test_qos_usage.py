"""The rows about a user in what `scontrol show assoc_mgr` prints, in the words of two versions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from slurmfab.on_hosts.agent.accounting.user_limits import read_qos_usage, rows_of
from slurmfab.on_hosts.agent.core.resource import Context

SHOWN = """Current Association Manager state

QOS Records

QOS=gpu(2)
    UsageRaw=0.000000
    GrpJobs=N(1) GrpJobsAccrue=N(0) GrpSubmitJobs=N(1) GrpWall=N(0.00)
    GrpTRES=cpu=1(1),mem=N(50),gres/gpu=N(1)
    GrpTRESMins=cpu=N(0),mem=N(0)
    MaxWallPJ=
    MinPrioThresh=
    Priority=0
    Account Limits
      maths
        MaxJobsPA=N(7) MaxJobsAccruePA=N(0) MaxSubmitJobsPA=N(1)
      physics
        MaxJobsPA=N(1) MaxJobsAccruePA=N(0) MaxSubmitJobsPA=N(1)
        MaxTRESPA=cpu=N(1),gres/gpu=N(1)
    User Limits
      {other}
        MaxJobsPU=N(8) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(8)
      {user}
        MaxJobsPU=N(1) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(2)
        MaxTRESPU=cpu=N(1),gres/gpu=2(1)
QOS=empty(3)
    GrpJobs=4(0) GrpJobsAccrue=N(0)
    No Accounts
    No Users
"""
OF_ALL = [
    ["gpu", "all", "", "GrpJobs", "N(1)"],
    ["gpu", "all", "", "GrpTRES", "cpu=1(1),mem=N(50),gres/gpu=N(1)"],
]
OF_PHYSICS = [
    ["gpu", "account", "physics", "MaxJobsPA", "N(1)"],
    ["gpu", "account", "physics", "MaxTRESPA", "cpu=N(1),gres/gpu=N(1)"],
]
OF_ANN = [
    ["gpu", "user", "", "MaxJobsPU", "N(1)"],
    ["gpu", "user", "", "MaxSubmitJobsPU", "N(2)"],
    ["gpu", "user", "", "MaxTRESPU", "cpu=N(1),gres/gpu=2(1)"],
]
OF_EMPTY = [["empty", "all", "", "GrpJobs", "4(0)"]]


class Slurm(Context):
    """A slurmctld with these QOS; it has been asked for the words in `asked`."""

    def __init__(self, code: int = 0) -> None:
        super().__init__("/", dry_run=False)
        self.code = code
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked.append(" ".join(argv))
        return subprocess.CompletedProcess(list(argv), self.code, SHOWN.format(user="0", other="1").encode(), b"no")


@pytest.mark.parametrize(("user", "other"), [("4001", "40011"), ("ann(4001)", "bob(40011)")], ids=["22.05", "24.11"])
def test_rows_are_those_of_the_user_the_users_accounts_and_all(user: str, other: str) -> None:
    lines = SHOWN.format(user=user, other=other).split("\n")
    assert rows_of(lines, "4001", ["physics"]) == [*OF_ALL, *OF_PHYSICS, *OF_ANN, *OF_EMPTY]
    assert rows_of(lines, "", []) == [*OF_ALL, *OF_EMPTY]


@pytest.mark.parametrize(
    ("partitions", "asked"),
    [
        ("PartitionName=main QoS=N/A State=UP\n", []),
        (
            "PartitionName=a QoS=gpu State=UP\nPartitionName=b QoS=empty State=UP\nPartitionName=c QoS=gpu State=UP\n",
            ["scontrol show assoc_mgr flags=qos qos=empty,gpu"],
        ),
    ],
)
def test_slurmctld_is_asked_about_the_qos_of_partitions_alone(partitions: str, asked: list[str]) -> None:
    slurm = Slurm()
    rows = read_qos_usage("root", (), partitions, slurm)
    assert slurm.asked == asked
    assert bool(rows) is bool(asked)


def test_a_slurmctld_that_does_not_tell_is_no_failure() -> None:
    assert read_qos_usage("root", (), "PartitionName=a QoS=gpu State=UP\n", Slurm(code=1)) == []
