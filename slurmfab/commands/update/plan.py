"""The plan of an update over all hosts: as text, hosts with equal plans together, and as JSON; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.commands.update.host_updates import HostUpdates
from slurmfab.on_hosts.agent.packages.apt_simulation import Candidate

VERSION = 1
"""Version of the JSON format; it increases if a key changes its meaning or is removed."""

SHOWN = 10
"""How many packages of a group of hosts are listed, unless all are asked for."""

DAY_SECONDS = 86400

WHY = {
    "slurm": f"Slurm's own, which stays as it is; see {FAB} upgrade",
    "held": "held on the host (apt-mark)",
    "apt": "would need the removal of other packages, or new ones that contradict others",
}


class PackageJson(TypedDict):
    """A package that is updated.

    Args:
        name: its name.
        installed: its version now; empty for a new package that others need.
        candidate: the version that it gets.
        security: whether a security archive has that version.
    """

    name: str
    installed: str
    candidate: str
    security: bool


class KeptPackageJson(TypedDict):
    """A package that has a newer version and stays as it is.

    Args:
        name: its name.
        installed: its version.
        candidate: the newer one.
        why: `slurm` for Slurm's own, `held` where the site holds it, `apt` where others would have to be removed.
    """

    name: str
    installed: str
    candidate: str
    why: str


class DaemonJson(TypedDict):
    """A daemon that uses replaced files.

    Args:
        unit: the name of its unit; `init` for systemd itself.
        files: names of some of these files.
        restarted: whether an update restarts it; otherwise only a reboot does.
    """

    unit: str
    files: list[str]
    restarted: bool


class HostUpdatesJson(TypedDict):
    """Hosts with the same plan.

    Args:
        hosts: their names.
        packages: those that are updated.
        kept: those that stay as they are.
        would_remove: packages that a full upgrade of apt would remove, and an update does not.
        reboot: why these hosts need a reboot; empty if they do not.
        daemons: those that use replaced files.
        lists_age: seconds since the package lists were fetched, on the host where that is longest ago; -1 for never.
        unfinished: packages that dpkg has not completed.
        trouble: why apt did not fetch all lists.
    """

    hosts: list[str]
    packages: list[PackageJson]
    kept: list[KeptPackageJson]
    would_remove: list[str]
    reboot: list[str]
    daemons: list[DaemonJson]
    lists_age: float
    unfinished: str
    trouble: str


class UpdatePlanJson(TypedDict):
    """What an update would do.

    Args:
        version: of this format: 1.
        cluster: the cluster's name.
        security: whether only security fixes count.
        exit_code: of the task.
        groups: hosts with the same plan, in the order of the cluster file.
        left_drained: nodes that an interrupted update has drained.
        lost: the hosts that were left out, each with the reason.
    """

    version: int
    cluster: str
    security: bool
    exit_code: int
    groups: list[HostUpdatesJson]
    left_drained: list[str]
    lost: dict[str, str]


@dataclass(frozen=True)
class UpdatePlan:
    """What an update would do on all hosts."""

    cluster: str
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

    def as_json(self) -> UpdatePlanJson:
        """The plan as JSON values."""
        return {
            "version": VERSION,
            "cluster": self.cluster,
            "security": self.only_security,
            "exit_code": self.exit_code,
            "groups": [group_as_json(hosts, one) for hosts, one in alike(self.hosts)],
            "left_drained": list(self.left_drained),
            "lost": dict(self.lost),
        }


def alike(hosts: Mapping[str, HostUpdates]) -> tuple[tuple[tuple[str, ...], HostUpdates], ...]:
    """Hosts with the same plan together, each group with its plan; the age is the greatest of them."""
    found: dict[HostUpdates, dict[str, float]] = {}
    for host, one in hosts.items():
        found.setdefault(with_age(one, 0.0), {})[host] = one.age
    return tuple(
        (tuple(ages), with_age(one, -1.0 if min(ages.values()) < 0 else max(ages.values())))
        for one, ages in found.items()
    )


def with_age(one: HostUpdates, age: float) -> HostUpdates:
    """The same plan with another age of the lists."""
    return HostUpdates(**{**vars(one), "age": age})


def group_as_json(hosts: tuple[str, ...], one: HostUpdates) -> HostUpdatesJson:
    """Hosts with the same plan as JSON values."""
    return {
        "hosts": list(hosts),
        "packages": [package_as_json(package) for package in one.packages],
        "kept": [{"name": name, "installed": old, "candidate": new, "why": why} for name, old, new, why in one.kept],
        "would_remove": list(one.removed),
        "reboot": list(one.reboot_reasons),
        "daemons": [{"unit": of.unit, "files": list(of.files), "restarted": of.is_restarted} for of in one.daemons],
        "lists_age": round(one.age),
        "unfinished": one.unfinished,
        "trouble": one.trouble,
    }


def package_as_json(package: Candidate) -> PackageJson:
    """A package that is updated as JSON values."""
    name, installed, candidate, is_security = package
    return {"name": name, "installed": installed, "candidate": candidate, "security": is_security}


def plan_text(plan: UpdatePlan, *, verbose: bool = False) -> str:
    """The plan as text: hosts with equal plans together."""
    lines = [line for hosts, one in alike(plan.hosts) for line in group_lines(plan, hosts, one, verbose=verbose)]
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
        yield f"  dpkg has not finished: {one.unfinished}; this is tried first"
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
