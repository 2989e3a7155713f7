"""The plan of an upgrade as text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict

from slurmfab.base.archive import format_size
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import hang, table
from slurmfab.commands.upgrade.conversion import FAST, SLOW
from slurmfab.commands.upgrade.plan import Conversion, HostVersions, UpgradePlan, UpgradeStep, What, upstream

VERSION = 1
"""Version of the JSON format."""

SECONDS: Mapping[What, tuple[float, float]] = {
    "backup": (5, 120), "slurmdbd": (15, 120), "controllers": (15, 120), "nodes": (0, 0), "others": (10, 60),
    "files": (10, 120),
}  # fmt: skip
"""The least and the most seconds of a step, without a conversion, as seen on busy lab hosts and with a slow mirror."""

BATCH_SECONDS = (15.0, 90.0)
"""The same for each batch of nodes; the most where packages are fetched slowly."""

CHECK_SECONDS = (30.0, 300.0)
"""The same for check-cluster: its jobs may wait for several cycles of the backfill scheduler (bf_interval is 30)."""

MINUTE, HOUR, DAY = 60, 3600, 86_400


class HostJson(TypedDict):
    """What a host has of Slurm, and would get.

    Args:
        slurm: the version of Slurm on its disk.
        running: versions of running daemons, by name.
        installed: versions of Slurm's packages, by name.
        offered: the new version of each package of Slurm's that would change, by name.
        others: likewise, of other packages that would come along.
    """

    slurm: str
    running: dict[str, str]
    installed: dict[str, str]
    offered: dict[str, str]
    others: dict[str, str]


class StepJson(TypedDict):
    """A step of an upgrade.

    Args:
        what: `backup`, `slurmdbd`, `controllers`, `nodes`, `others` or `files`.
        hosts: the hosts on which it does something.
        packages: the hosts that get packages in this step.
        daemons: the daemons that start with the new version, by host.
        why: what it does and what that means for jobs.
    """

    what: str
    hosts: list[str]
    packages: list[str]
    daemons: dict[str, list[str]]
    why: str
    # ids of the resources that it may change, as the run's record names them, by host
    changes: dict[str, list[str]]
    lines: list[str]  # what it changes, in words; diffs of files in the last step


class ConversionJson(TypedDict):
    """The conversion of the accounting database.

    Args:
        rows: rows of the big tables, by table, as the server estimates them.
        bytes: size of the database.
        seconds: the least and the most that it is expected to take.
    """

    rows: dict[str, int]
    bytes: int
    seconds: list[float]


class UpgradePlanJson(TypedDict):
    """The plan of an upgrade.

    Args:
        version: of this format: 1.
        exit_code: of the task.
        from_series: the oldest series of Slurm that something has now.
        to_series: the series that the hosts would get.
        suite: of `--suite`; empty for none.
        hosts: by name, what each has and would get.
        steps: in order; empty where there is nothing to do.
        refusals: why it may not be done.
        warnings: what it would change or hurt.
        conversion: of the accounting database; null for none.
        way_back: how each stage can be undone, in order.
        silent: why a host did not answer, by host.
        jobs: number of jobs by state.
    """

    version: int
    exit_code: int
    from_series: str
    to_series: str
    suite: str
    hosts: dict[str, HostJson]
    steps: list[StepJson]
    refusals: list[str]
    warnings: list[str]
    conversion: ConversionJson | None
    way_back: list[str]
    silent: dict[str, str]
    seconds: list[float]  # the least and the most time that all of it is expected to take
    jobs: dict[str, int]


def exit_code(plan: UpgradePlan) -> int:
    """The exit code of a plan: 4 where there is something to do, 1 where it may not be done, 3 without some hosts."""
    if plan.refusals:
        return FAILURE
    if plan.steps:
        return SOMETHING_TO_DO
    return LEFT_OUT if plan.silent else DONE


def as_json(plan: UpgradePlan) -> UpgradePlanJson:
    """The plan as JSON values."""
    return {
        "version": VERSION,
        "exit_code": exit_code(plan),
        "from_series": str(plan.have),
        "to_series": str(plan.target.series),
        "suite": plan.target.suite,
        "hosts": {host: host_json(versions) for host, versions in plan.hosts.items()},
        "steps": [step_json(step) for step in plan.steps],
        "refusals": list(plan.refusals),
        "warnings": list(plan.warnings),
        "conversion": conversion_json(plan.conversion),
        "way_back": list(plan.way_back),
        "silent": dict(plan.silent),
        "seconds": [*total_seconds(plan)] if not plan.is_done else [0.0, 0.0],
        "jobs": dict(plan.jobs),
    }


def host_json(versions: HostVersions) -> HostJson:
    """The versions of one host as JSON values."""
    return {
        "slurm": versions.slurm,
        "running": dict(versions.running),
        "installed": dict(versions.installed),
        "offered": dict(versions.offered),
        "others": dict(versions.others),
    }


def step_json(step: UpgradeStep) -> StepJson:
    """One step as JSON values."""
    return {
        "what": step.what,
        "hosts": list(step.hosts),
        "packages": list(step.packages),
        "daemons": {host: list(daemons) for host, daemons in step.daemons.items()},
        "why": step.why,
        "changes": {host: list(some) for host, some in step.changes.items()},
        "lines": list(step.lines),
    }


def conversion_json(conversion: Conversion | None) -> ConversionJson | None:
    """The conversion as JSON values."""
    if conversion is None:
        return None
    return {"rows": dict(conversion.rows), "bytes": conversion.bytes, "seconds": list(conversion.seconds)}


def text(plan: UpgradePlan, width: int) -> str:
    """The plan as text: who has what, the steps, refusals, what to know beforehand, and the way back.

    Args:
        width: the most characters of a line of the table; 0 for no limit.
    """
    parts = [
        heading(plan),
        "\n".join(table([("hosts", "Slurm", "runs", "gets"), *rows(plan.hosts)], width)),
        "\n".join(steps_text(plan)),
        listed("Refused, nothing was changed:", plan.refusals),
        listed("To know:" if plan.is_done else "To know before it begins:", plan.warnings),
        listed("The way back:", plan.way_back),
    ]
    return "\n\n".join(filter(None, parts))


def heading(plan: UpgradePlan) -> str:
    """From where to where, and the jobs that there are."""
    source = f" of the suite {plan.target.suite}" if plan.target.suite else ""
    jobs = ", ".join(f"{count} {word.lower()}" for word, count in sorted(plan.jobs.items()))
    told = f" Jobs now: {jobs}." if jobs else " No jobs now."
    if plan.is_done and not plan.refusals:
        return f"Every host that answered has Slurm {plan.target.series} and runs it. Nothing is to be upgraded."
    if plan.target.suite and plan.refusals and plan.target.series == plan.have:
        return f"Slurm {plan.have}, and nothing newer is known of the suite {plan.target.suite}.{told}"
    return f"Upgrade from Slurm {plan.have} to {plan.target.series}{source}.{told}"


def rows(hosts: Mapping[str, HostVersions]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each group of hosts with the same versions."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for host, versions in hosts.items():
        older = {name: version for name, version in versions.running.items() if version != versions.slurm}
        runs = ", ".join(f"{name} {older[name]}" if name in older else name for name in sorted(versions.running))
        gets = ", ".join(sorted({upstream(version) for version in versions.offered.values()}))
        groups.setdefault((versions.slurm or "none", runs or "-", gets or "-"), []).append(host)
    for values, some in groups.items():
        yield (fold(some), *values)


def steps_text(plan: UpgradePlan) -> Iterator[str]:
    """Yield the lines about the steps."""
    if plan.steps:
        yield "Steps:"
    for number, step in enumerate(plan.steps, 1):
        yield hang(f"  {number}. {step.what} on {fold(step.hosts)}: {step.why}.")
        if step.what == "slurmdbd" and plan.conversion:
            yield hang(f"     {conversion_text(plan.conversion)}")
        yield from (f"     {line}" if step.what == "files" else hang(f"     - {line}") for line in step.lines)
    if not plan.is_done:
        yield hang(f"At the end, {FAB} check-cluster runs. {total_text(plan)}")


def total_text(plan: UpgradePlan) -> str:
    """How long the upgrade may take in all."""
    least, most = total_seconds(plan)
    return (
        f"In all, this may take {duration(least)} to {duration(most)}, check-cluster and its jobs included; with "
        "--drain, the wait for users' jobs comes on top."
    )


def total_seconds(plan: UpgradePlan) -> tuple[float, float]:
    """The least and the most time that an upgrade is expected to take, without waiting for jobs."""
    times = [SECONDS[step.what] for step in plan.steps] + [CHECK_SECONDS]
    times += [(count * low, count * high) for low, high in (BATCH_SECONDS,) for count in (plan.batches,)]
    times += [plan.conversion.seconds] if plan.conversion else []
    return sum(low for low, _ in times), sum(high for _, high in times)


def conversion_text(conversion: Conversion) -> str:
    """How long the conversion may take, and from what that is estimated."""
    count = sum(conversion.rows.values())
    least, most = conversion.seconds
    return (
        f"The database has {format_size(conversion.bytes)} and about {count:,} rows in its big tables. Its conversion "
        f"may take {duration(least)} to {duration(most)}: a guess from {FAST:,} to {SLOW:,} rows a second, as it "
        "depends on the disk and on what changes between the versions."
    )


def duration(seconds: float) -> str:
    """A rough time in words.

    >>> duration(2), duration(400), duration(9000)
    ('2 s', '7 min', '2.5 h')
    """
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.1f} h" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"


def listed(title: str, texts: tuple[str, ...]) -> str:
    """Texts below a title, one in each line; empty for none."""
    return "\n".join([title, *(hang(f"  - {one}") for one in texts)]) if texts else ""
