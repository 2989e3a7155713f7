"""Data for sections of a page: recorded runs, histories of GPU checks, and what slurmctld shows of limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from slurmfab.commands.report.section import Sources
from slurmfab.commands.usage.asking import Group, IdleGpus, Point, Sums, Usage, Wait
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.status import limits_in_use
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

BEGUN = datetime(2026, 11, 22, 14, 3, tzinfo=timezone.utc)
HOSTILE = '<script>alert("1")</script>'
"""A name that somebody chose in the hope that a browser runs it."""


def step(host: str, phase: str, at: float | None, seconds: float, status: str = "changed") -> Step:
    """A phase on a host."""
    return Step(phase, host, (Outcome(f"file:/etc/{phase}", status),), seconds, at)


def record(steps: Iterable[Step], **more: Any) -> Record:
    """A run of a minute over the hosts of its steps."""
    done = tuple(steps)
    about = {"hosts": tuple(dict.fromkeys(one.host for one in done)), "seconds": 60.0, "by": "ann@desk", **more}
    return Record(
        "20261122T140300.0Z-deploy", "deploy", begun=BEGUN, ended=BEGUN + timedelta(minutes=1), steps=done, **about
    )


def big_record(hosts: int = 1000) -> Record:
    """A run over many hosts, of which two are slow and one fails."""
    steps = []
    for number in range(1, hosts + 1):
        name, begin = f"n{number:04}", 10.0 + number % 7 / 10
        for phase, seconds in (
            ("packages", 30.0 if number not in (17, 400) else 90.0),
            ("slurm.conf", 1.0),
            ("slurmd", 3.0),
        ):
            failed = number == 733 and phase == "slurmd"
            steps.append(step(name, phase, begin, seconds, "failed" if failed else "changed"))
            begin += seconds
    return record(steps, seconds=110.0, timeline=((1.0, "asking"), (5.0, "comparing"), (10.0, "packages")))


def measured(check: int, node: str, busbw: float | None, outcome: str = "passed", **more: Any) -> Mapping[str, Any]:
    """An entry of the history of GPU checks."""
    figure = {} if busbw is None else {"busbw": busbw}
    about = {"run": f"r{check}", "time": f"2026-11-{check + 1:02}T03:30:00+00:00", "nodes": node.split("+")}
    return {**about, "gpus": "a100 x4", "outcome": outcome, "wanted": 120.0, **figure, **more}


ASSOCIATIONS = """Current Association Manager state

Association Records

ClusterName=lab Account=root UserName= Partition= Priority=0 ID=1
    SharesRaw/Norm/Level/Factor=1/0.00/1/0.00
    UsageRaw/Norm/Efctv=0.00/1.00/1.00
    ParentAccount= Lft=1 DefAssoc=No
    GrpJobs=N(2) GrpJobsAccrue=N(0)
    GrpSubmitJobs=N(2) GrpWall=N(0.00)
    GrpTRES=cpu=N(12),mem=N(2048),gres/gpu=N(4)
    GrpTRESMins=cpu=N(90),mem=N(0)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
ClusterName=lab Account=physics UserName= Partition= Priority=0 ID=3
    SharesRaw/Norm/Level/Factor=1/0.25/4/0.00
    UsageRaw/Norm/Efctv=0.00/0.60/0.75
    ParentAccount=root(1) Lineage=/physics/ DefAssoc=No
    GrpJobs=N(2) GrpJobsAccrue=N(0)
    GrpSubmitJobs=10(2) GrpWall=N(0.00)
    GrpTRES=cpu=16(12),mem=4096(2048),gres/gpu=4(4)
    GrpTRESMins=cpu=6000(5700),mem=N(0)
    MaxJobs=5(0) MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
ClusterName=lab Account=physics UserName=ada(4001) Partition= Priority=0 ID=8
    SharesRaw/Norm/Level/Factor=1/1.00/1/1.00
    UsageRaw/Norm/Efctv=0.00/0.60/1.00
    ParentAccount= Lineage=/physics/0-ada/ DefAssoc=Yes
    GrpJobs=N(2) GrpJobsAccrue=N(0)
    GrpSubmitJobs=N(2) GrpWall=N(0.00)
    GrpTRES=cpu=N(12),mem=N(2048),gres/gpu=N(4)
    MaxJobs=5(2) MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
    Comment=GrpTRES=cpu=1(1)

QOS Records

QOS=normal(1)
    UsageRaw=0.000000
    GrpJobs=100(2) GrpJobsAccrue=N(0) GrpSubmitJobs=N(2) GrpWall=N(0.00)
    GrpTRES=cpu=N(12)
    Account Limits
      physics
        MaxJobsPA=N(2) GrpJobs=1(1)
    User Limits
        No Users
"""
"""What `scontrol show assoc_mgr flags=assoc,qos` prints on 24.11; 22.05 has Lft in place of Lineage."""


def usage(days: int = 3, **more: Any) -> Usage:
    """What jobs of two accounts used in some days, on a cluster with 10 CPUs and 2 GPUs."""
    begin, day = 1_795_392_000, 86400
    about: dict[str, Any] = {
        "capacity": {"cpu": 10 * day * days, "gres/gpu": 2 * day * days},
        "tracks_gpus": True,
        "groups": (
            Group("ada", "physics", "gpu", "a100", Sums(4, 5 * day, 2 * day, waits=2, waited=120, longest_wait=90)),
            Group(HOSTILE, "biology", "main", "", Sums(1, 2 * day, cpu_asked=100, cpu_used=25)),
        ),
        "points": tuple(Point(begin + number * day, number * 3 * day, number * day) for number in range(days)),
        "waits": (Wait("12", HOSTILE, "biology", "main", 0, 7200, False),),
        "idle": (IdleGpus("13", "ada", "physics", "gpu", 2, 7200, "cputime", True),),
        **more,
    }
    return Usage("lab", begin, begin + days * day, "2026-11-23T00:00:00+0000", "2026-11-26T00:00:00+0000", **about)


def with_charts(plain: Sources, hosts: int = 30, accounts: int = 3) -> Sources:
    """The sources of a page with everything that charts are made of.

    Args:
        plain: the sources without.
        hosts: how many hosts the recorded runs had, and half as many nodes with GPUs.
        accounts: how many accounts there are besides root.
    """
    checks = (
        measured(check, f"gpu{number:03}", 230.0 - number % 7) for check in range(10) for number in range(hosts // 2)
    )
    start, end = (ASSOCIATIONS.index(words) for words in ("ClusterName=lab Account=physics", "\nQOS Records"))
    block = ASSOCIATIONS[start:end]
    more = "".join(block.replace("physics", f"account{number}") for number in range(accounts))
    limits = limits_in_use.parse(ASSOCIATIONS[:start] + more + ASSOCIATIONS[end:].replace("normal", HOSTILE))
    diff = Change("content", "", "", f"-a\n+{HOSTILE}")
    changed = Outcome("file:/etc/slurm/slurm.conf", "would change", (diff,), drift="changed file")
    return replace(
        plain, usage=usage(30), limits=limits,
        records=(record([step("n1", HOSTILE, 1, 5)], by=HOSTILE), *(big_record(hosts),) * 5),
        gpu_checks=(*checks, measured(9, "gpu999", 90.0, "falls short", why=HOSTILE)),
        plan=Report("report", "alpine", ("ctl1",), (Step("slurm.conf", "ctl1", (changed,)),), {}, 1.0),
    )  # fmt: skip
