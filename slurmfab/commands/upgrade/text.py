"""The plan of an upgrade as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.archive import format_size
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import hang, table
from slurmfab.commands.upgrade.conversion import FAST, SLOW
from slurmfab.commands.upgrade.plan import Conversion, HostVersions, UpgradePlan, upstream

MINUTE, HOUR, DAY = 60, 3600, 86_400


def text(plan: UpgradePlan, width: int) -> str:
    """The plan as text, up to a width (0: any) of the table: versions, steps, refusals, and the way back."""
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
    least, most = plan.seconds
    return (
        f"In all, this may take {duration(least)} to {duration(most)}, check-cluster and its jobs included; with "
        "--drain, the wait for users' jobs comes on top."
    )


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
