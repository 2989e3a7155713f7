"""`fab upgrade --plan`: what an upgrade would do, printed and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from slurmfab.base.archive import format_size
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, hang, table, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.commands.upgrade import asking, last_files, making, target
from slurmfab.commands.upgrade.conversion import FAST, SLOW
from slurmfab.commands.upgrade.plan import Conversion, HostVersions, UpgradePlan, upstream
from slurmfab.core.engine import session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.engine.summary import command_for

MINUTE, HOUR, DAY = 60, 3600, 86_400


def plan(cluster: str, to: str, suite: str, output: Output) -> int:
    """Show what an upgrade would do, changing nothing; 4 if there is something, 1 if refused, 3 without some hosts.

    `to`, `suite`: empty for the cluster file's. Raises InputError for a wrong version, or none; SlurmfabError if the
    controller or the database's host does not answer.
    """
    known = loading.load_named(cluster)
    wanted = target.target_of(known.cluster, to, suite)
    run = session.start(known, "", output, RunOptions("upgrade"))
    with session.ending(run):
        found = made(run, wanted, to, suite)
    show(found, output)
    if not found.is_done and not found.refusals:
        write(f"\nNext: {command(known, to, suite)}", output.stream)
    return found.exit_code


def made(
    run: Run,
    wanted: SlurmPackages,
    to: str,
    suite: str,
    *,
    at_once: str = "10%",
    drain: bool = False,
    is_whole: bool = True,
) -> UpgradePlan:
    """The plan of an upgrade to the key `wanted`, from what hosts say; with `is_whole` the last step is compared.

    Raises SlurmfabError if the controller or the database's host does not answer.
    """
    asked = asking.ask(run, wanted, target.asked_version(wanted, to, suite), suite)
    plan = making.make(asked, at_once, drain=drain)
    is_none = plan.is_done and run.inventory.lock.upgrade is None
    if not is_whole or plan.refusals or is_none:
        return plan
    return last_files.with_files(run, plan, asked.facts, final_key(plan, wanted))


def final_key(plan: UpgradePlan, wanted: SlurmPackages) -> SlurmPackages:
    """The key `slurm` as the upgrade leaves it: of a suite the series that it has."""
    version = f"{plan.target.series}.*" if not wanted.version or plan.target.suite else wanted.version
    return wanted.model_copy(update={"version": version})


def show(found: UpgradePlan, output: Output) -> None:
    """Print a plan, and write it as JSON where that was asked for."""
    output.write_json(found)
    write(text(found, columns(output.stream)), output.stream)


def command(known: Inventory, to: str, suite: str) -> str:
    """The command that carries the upgrade out."""
    words = ["upgrade", *(["--to", shlex.quote(to)] if to else []), *(["--suite", shlex.quote(suite)] if suite else [])]
    return command_for(" ".join(words), known.path)


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
