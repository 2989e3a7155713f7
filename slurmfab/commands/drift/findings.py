"""What differs between the hosts and the cluster file, as the alarm counts and shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurmfab.base.errors import Asleep
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.core.engine.report import Report
from slurmfab.core.impact.drift_kinds import CHANGED_FILE, CRASHED, KEY_NOT_LOADED, OLDER_FILE, OTHER_HARDWARE
from slurmfab.on_hosts.agent.core.resource import FAILED, OK

OTHER = "other difference"
"""What differs without being drift, such as a change of the cluster file that is not deployed yet, or a stopped
service."""

KINDS = (CHANGED_FILE, OLDER_FILE, KEY_NOT_LOADED, CRASHED, OTHER_HARDWARE, OTHER)  # all kinds of differences
MOST_LINES = 20  # how many lines about differences are shown; the plan shows all


@shows("host", "resource", Key("kind", "shown_kind"))
@dataclass(frozen=True, order=True)
class Finding:
    """A resource that differs."""

    host: str  # the host's name
    resource: str  # its id, such as `file:/etc/slurm/gres.conf`
    kind: str  # one of `KINDS`; empty where the host could not say how the resource is

    @property
    def shown_kind(self) -> str:
        """The kind of drift, such as `changed file`; `not compared` if it could not be compared."""
        return self.kind or "not compared"

    @property
    def text(self) -> str:
        """It without the host: `file:/etc/slurm/gres.conf (changed file)`."""
        return f"{self.resource} ({self.shown_kind})"


@dataclass(frozen=True)
class Findings:
    """What a comparison of the hosts found."""

    cluster: str  # the cluster's name
    hosts: tuple[str, ...]  # the hosts that were compared
    found: tuple[Finding, ...]  # what differs, sorted
    # the hosts that could not be compared, each with the reason; nodes that sleep are not among them
    not_compared: Mapping[str, str] = field(default_factory=dict)
    asleep: tuple[str, ...] = ()  # nodes that Slurm has powered down

    @property
    def differing(self) -> tuple[Finding, ...]:
        """The differences, without what could not be compared."""
        return tuple(one for one in self.found if one.kind)

    @property
    def exit_code(self) -> int:
        """1 if a resource could not be compared, 4 if something differs, 3 if hosts are missing, 0 otherwise."""
        if len(self.differing) < len(self.found):
            return FAILURE
        if self.found:
            return SOMETHING_TO_DO
        return LEFT_OUT if self.not_compared else DONE

    def hosts_by_state(self) -> dict[str, int]:
        """How many hosts are as wanted, differ, or could not be compared in full; those asleep are left out."""
        unseen = {*self.not_compared, *(one.host for one in self.found if not one.kind)}
        differing = {one.host for one in self.found} - unseen
        known = len(set(self.hosts) - unseen - differing - set(self.asleep))
        return {"in_sync": known, "differing": len(differing), "unreachable": len(unseen)}

    def lines(self) -> tuple[str, ...]:
        """The differences in few lines, folded over hosts, then the hosts that could not be compared."""
        lines = fold_lines((one.host, one.text) for one in self.found)
        more = len(lines) - MOST_LINES
        shown = [*lines[:MOST_LINES], *([f"and {more} more lines: {FAB} plan"] if more > 0 else [])]
        return (*shown, *fold_lines((host, f"not compared: {why}") for host, why in self.not_compared.items()))

    def summary(self) -> str:
        """How much differs where, in one line without the cluster's name."""
        count, hosts = len(self.differing), fold(dict.fromkeys(one.host for one in self.differing))
        parts = [f"{count} difference{'' if count == 1 else 's'} on {hosts}" if count else "no differences"]
        failed = dict.fromkeys(one.host for one in self.found if not one.kind)
        missing = dict.fromkeys((*failed, *self.not_compared))
        return "; ".join([*parts, *([f"not compared: {fold(missing)}"] if missing else [])])


def findings_of(report: Report) -> Findings:
    """The findings in the report of a dry run."""
    found = {
        Finding(step.host, outcome.id, "" if outcome.status == FAILED else outcome.drift or OTHER)
        for step in report.steps
        for outcome in step.outcomes
        if outcome.status != OK
    }
    asleep = tuple(host for host, error in report.failed_hosts.items() if isinstance(error, Asleep))
    reasons = {host: error.reason for host, error in report.failed_hosts.items() if host not in asleep}
    return Findings(report.cluster, report.hosts, tuple(sorted(found)), reasons, asleep)
