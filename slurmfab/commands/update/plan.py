"""The plan of an update over all hosts: as text, hosts with equal plans together, and as JSON; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.commands.update.host_updates import HostUpdates
from slurmfab.on_hosts.agent.packages.updates import Candidate

SHOWN = 10  # how many packages of a group of hosts are listed, unless all are asked for

DAY_SECONDS = 86400

WHY = {
    "slurm": f"Slurm's own, which stays as it is; see {FAB} upgrade",
    "held": "held on the host",
    "apt": "would need the removal of other packages, or new ones that contradict others",
}


shows("name", "installed", "candidate", Key("security", "is_security"))(Candidate)


@shows(
    "hosts", *(Key(name, f"updates.{name}") for name in ("packages", "kept")), Key("would_remove", "updates.removed"),
    Key("reboot", "updates.reboot_reasons"), Key("daemons", "updates.daemons"),
    Key("lists_age", "updates.age", form=round),
    *(Key(name, f"updates.{name}") for name in ("unfinished", "trouble")),
)  # fmt: skip
@dataclass(frozen=True)
class Alike:
    """Hosts with the same plan."""

    hosts: tuple[str, ...]  # their names
    updates: HostUpdates


@shows(
    "version", "cluster", Key("security", "only_security"), Key("exit_code", text="of the task"), "groups",
    "left_drained", "lost",
)  # fmt: skip
@dataclass(frozen=True)
class UpdatePlan:
    """What an update would do."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    hosts: Mapping[str, HostUpdates]  # what it would do, by host
    only_security: bool = False  # whether only security fixes count
    reboots: bool = False  # whether hosts are rebooted if they need that
    left_drained: tuple[str, ...] = ()  # nodes that an interrupted update has drained
    lost: Mapping[str, str] = field(default_factory=dict)  # the hosts that were left out, each with the reason
    are_harmless: bool = True  # whether they were only unreachable

    @property
    def due(self) -> tuple[str, ...]:
        """The hosts on which there is something to do."""
        return tuple(
            host for host, one in self.hosts.items() if one.is_due(reboots=self.reboots) or host in self.left_drained
        )

    @property
    def exit_code(self) -> int:
        """The exit code of `--plan`."""
        if self.lost and not self.are_harmless:
            return FAILURE
        if self.lost:
            return LEFT_OUT
        return SOMETHING_TO_DO if self.due else DONE

    @property
    def groups(self) -> tuple[Alike, ...]:
        """Hosts with the same plan, in the order of the cluster file."""
        return alike(self.hosts)


def alike(hosts: Mapping[str, HostUpdates]) -> tuple[Alike, ...]:
    """Hosts with the same plan together, each group with its plan; the age is the greatest of them."""
    found: dict[HostUpdates, dict[str, float]] = {}
    for host, one in hosts.items():
        found.setdefault(with_age(one, 0.0), {})[host] = one.age
    return tuple(
        Alike(tuple(ages), with_age(one, -1.0 if min(ages.values()) < 0 else max(ages.values())))
        for one, ages in found.items()
    )


def with_age(one: HostUpdates, age: float) -> HostUpdates:
    """The same plan with another age of the lists."""
    return HostUpdates(**{**vars(one), "age": age})


def plan_text(plan: UpdatePlan, *, verbose: bool = False) -> str:
    """The plan as text: hosts with equal plans together."""
    lines = [line for one in plan.groups for line in group_lines(plan, one.hosts, one.updates, verbose=verbose)]
    if plan.left_drained:
        lines.append(f"{fold(plan.left_drained)}: drained by an update that was interrupted; this goes on with it.")
    return "\n".join([*lines, *fold_lines(plan.lost.items()), f"{plan.cluster}: {counted(plan)}."])


def counted(plan: UpdatePlan) -> str:
    """How many hosts there is something to do on, of how many."""
    what = "security fixes" if plan.only_security else "updates"
    of = f"of {len(plan.hosts)} host{'s' if len(plan.hosts) != 1 else ''}"
    return f"{what} or restarts for {len(plan.due)} {of}" if plan.due else f"nothing to do on any {of}"


def group_lines(plan: UpdatePlan, hosts: tuple[str, ...], one: HostUpdates, *, verbose: bool) -> Iterator[str]:
    """Yield the lines about hosts with the same plan: the first names them, others are indented."""
    yield f"{fold(hosts)}: {headline(one)}"
    shown = one.packages if verbose else most_urgent(one.packages)
    yield from (f"  {package_text(package)}" for package in shown)
    if len(shown) < len(one.packages):
        yield f"  and {len(one.packages) - len(shown)} more (--verbose lists them)"
    for why, text in WHY.items():
        names = [f"{name} {old} (there is {new})" for name, old, new, of in one.kept if of == why]
        if names:
            yield f"  not updated: {', '.join(names)}: {text}"
    if one.removed:
        yield f"  not removed: {', '.join(one.removed)}, which apt's full upgrade would remove"
    for daemon in one.restarted:
        yield f"  restart of {daemon.unit}, which uses replaced {', '.join(daemon.files)}"
    for reason in one.reboot_reasons:
        yield f"  needs a reboot{'' if plan.reboots else ' (--reboot)'}: {reason}"
    if one.unfinished:
        yield f"  not finished: {one.unfinished}; this is tried first"
    if one.has_old_lists:
        yield f"  its package lists {format_age(one.age)}, so newer versions may be missing here"
    if one.trouble:
        yield f"  not all package lists were fetched: {one.trouble}"


def headline(one: HostUpdates) -> str:
    """What there is to do on hosts, in one line."""
    if not one.packages:
        return "no package to update"
    urgent = sum(package.is_security for package in one.packages)
    new = sum(not package.installed for package in one.packages)
    count = len(one.packages) - new
    parts = [f"{count} package{'s' if count != 1 else ''} to update"]
    parts += [f"{new} new that they need"] if new else []
    parts += [f"{urgent} for security"] if urgent else []
    return ", ".join(parts)


def most_urgent(packages: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Some of the packages, those for security first, in the order of names."""
    ordered = sorted(packages, key=lambda one: (not one.is_security, one.name))
    return tuple(ordered[:SHOWN])


def package_text(package: Candidate) -> str:
    """A package as text: `libssl3 3.0.15-1 -> 3.0.17-1 (security)`."""
    name, installed, candidate, is_security = package
    return f"{name} {installed or '(new)'} -> {candidate}{' (security)' if is_security else ''}"


def format_age(seconds: float) -> str:
    """How old package lists are: `are 3 days old`, or `were never fetched`."""
    if seconds < 0:
        return "were never fetched"
    days = int(seconds // DAY_SECONDS)
    return f"are {days} day{'s' if days != 1 else ''} old"
