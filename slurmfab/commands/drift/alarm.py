"""The task `drift`: compares the hosts as `plan` does, and tells news by exit code, metrics and mail."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from slurmfab.base import atomic_file, strict_json
from slurmfab.base.errors import Asleep, BrokenFile, HostFailed, InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.paths import DRIFT_RESULT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import in_one_line, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.drift import Drift
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.drift.mailing import mailer
from slurmfab.core.engine import commands, record
from slurmfab.core.engine.report import Report
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output, start
from slurmfab.core.engine.summary import command_for
from slurmfab.core.impact.drift_kinds import CHANGED_FILE, CRASHED, KEY_NOT_LOADED, LOST_JOB, OLDER_FILE, OTHER_HARDWARE
from slurmfab.on_hosts.agent.core.listing import first_of
from slurmfab.on_hosts.agent.core.resource import FAILED, OK

OTHER = "other difference"
"""What differs without being drift, such as a change of the cluster file that is not deployed yet, or a stopped
service."""

KINDS = (CHANGED_FILE, OLDER_FILE, KEY_NOT_LOADED, CRASHED, LOST_JOB, OTHER_HARDWARE, OTHER)  # all kinds of differences
MOST_LINES = 20  # how many lines about differences are shown; the plan shows all

MOST_BYTES = 64 * 1024 * 1024
Problem = tuple[str, str]  # a host, and what is wrong there; an empty host stands for the whole cluster
UNCOMPARED: Problem = ("", "the hosts could not be compared")
NOT_COMPARED = "not compared"
_Text = Annotated[str, Field(max_length=10_000)]

TYPES = {
    "slurmfab_drift_resources": "Resources on hosts that are not as the cluster file says, by kind of difference.",
    "slurmfab_drift_host_resources": "The same by host; hosts without a difference have no line.",
    "slurmfab_drift_hosts": "Hosts by what the comparison found; sleeping nodes are not among them.",
    "slurmfab_drift_last_run_timestamp_seconds": "When the hosts were last compared.",
    "slurmfab_drift_last_run_duration_seconds": "How long that took.",
}
"""The metrics with their help; all are gauges."""

Sample = tuple[dict[str, str], float]
VERSION = 1  # version of the JSON format

LEAVE = f"umask 022 && cat >{DRIFT_RESULT}.new && mv {DRIFT_RESULT}.new {DRIFT_RESULT}"
"""The command by which the controller takes the numbers from standard input."""


@shows("host", "resource", Key("kind", "shown_kind"))
@dataclass(frozen=True, order=True)
class Finding:
    """A resource that differs."""

    host: str  # the host's name
    resource: str  # its id, such as `file:/etc/slurm/gres.conf`; of a lost job its node, and since when
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
        missed = fold_lines((host, f"not compared: {why}") for host, why in self.not_compared.items())
        return (*first_of(lines, MOST_LINES, f": {FAB} plan"), *missed)

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
        Finding(step.host, name, "" if outcome.status == FAILED else outcome.drift or OTHER)
        for step in report.steps
        for outcome in step.outcomes
        if outcome.status != OK
        for name in ([one.name for one in outcome.changes] if outcome.drift == LOST_JOB else [outcome.id])
    }
    asleep = tuple(host for host, error in report.failed_hosts.items() if isinstance(error, Asleep))
    reasons = {host: error.reason for host, error in report.failed_hosts.items() if host not in asleep}
    return Findings(report.cluster, report.hosts, tuple(sorted(found)), reasons, asleep)


class _Stored(BaseModel):
    """What is in the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    problems: list[Annotated[list[_Text], Field(min_length=2, max_length=2)]]


@dataclass(frozen=True)
class News:
    """What is wrong now, and what was at the last mail."""

    before: frozenset[Problem]  # the problems that the last mail told
    now: frozenset[Problem]  # the problems of this comparison

    @property
    def appeared(self) -> tuple[Problem, ...]:
        """What is wrong since then, sorted."""
        return tuple(sorted(self.now - self.before))

    @property
    def gone(self) -> tuple[Problem, ...]:
        """What is right again, sorted."""
        return tuple(sorted(self.before - self.now))

    @property
    def remaining(self) -> tuple[Problem, ...]:
        """What is wrong as before, sorted."""
        return tuple(sorted(self.now & self.before))

    @property
    def is_any(self) -> bool:
        """Whether there is something to tell."""
        return self.now != self.before


def problems_of(findings: Findings, before: frozenset[Problem]) -> frozenset[Problem]:
    """What is wrong now; of hosts that were not compared, what was wrong there by the last mail."""
    unseen = {*findings.not_compared, *findings.asleep}
    return frozenset(
        {
            *((one.host, one.text) for one in findings.found),
            *((host, NOT_COMPARED) for host in findings.not_compared),
            *((host, text) for host, text in before if host in unseen and text != NOT_COMPARED),
        }
    )


def path_of(cluster_file: Path) -> Path:
    """The file of a cluster's alarm, among the records of its runs, with another name than these."""
    return record.directory(cluster_file) / "drift-alarm"


def load_memory(cluster_file: Path) -> frozenset[Problem]:
    """The problems that the last mail told; none without such a file. Raises InputError if the file cannot be read."""
    path = path_of(cluster_file)
    try:
        stored = strict_json.checked(
            atomic_file.read_private(path, MOST_BYTES, cluster_file), path, TypeAdapter(_Stored)
        )
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except BrokenFile:
        return frozenset()  # the next mail then tells everything anew, and writes the file again
    return frozenset((host, text) for host, text in stored.problems)


def save_memory(cluster_file: Path, problems: frozenset[Problem]) -> None:
    """Keep the problems that a mail has told. Raises InputError if the file cannot be written."""
    text = json.dumps({"version": 1, "problems": sorted(map(list, problems))}, indent=1) + "\n"
    atomic_file.write_private(path_of(cluster_file), text, cluster_file)


def exposition(findings: Findings, at: float, seconds: float) -> str:
    """The findings in Prometheus' text format. `at`: when it ended, in seconds since 1970."""
    kinds = Counter(one.kind for one in findings.differing)
    hosts = Counter(one.host for one in findings.differing)
    values: dict[str, Iterable[Sample]] = {
        "slurmfab_drift_resources": [({"kind": kind}, kinds[kind]) for kind in KINDS],
        "slurmfab_drift_host_resources": [({"host": host}, count) for host, count in sorted(hosts.items())],
        "slurmfab_drift_hosts": [({"state": state}, count) for state, count in findings.hosts_by_state().items()],
        "slurmfab_drift_last_run_timestamp_seconds": [({}, round(at, 3))],
        "slurmfab_drift_last_run_duration_seconds": [({}, round(seconds, 3))],
    }
    lines = []
    for name, samples in values.items():
        lines += [f"# HELP {name} {TYPES[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{labels({'cluster': findings.cluster, **own})}}} {value}" for own, value in samples]
    return "\n".join(lines) + "\n"


def labels(values: dict[str, str]) -> str:
    """Labels of a sample; backslashes, quotes and line breaks are escaped."""
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values.values())
    return ",".join(f'{name}="{value}"' for name, value in zip(values, escaped, strict=True))


@shows(
    "version", Key("cluster", "findings.cluster"), "at", Key("exit_code", "findings.exit_code", text="of the task"),
    Key("hosts", "findings.hosts"), Key("differences", "findings.found"),
    *(Key(name, f"findings.{name}") for name in ("not_compared", "asleep")), "mail_sent",
)  # fmt: skip
@dataclass(frozen=True)
class Compared:
    """What differs on the hosts."""

    version: ClassVar[int] = VERSION  # of this format: 1
    findings: Findings
    at: str  # when the hosts were compared, in UTC
    mail_sent: bool  # whether a mail told the differences


@dataclass(frozen=True)
class Alarm:
    """Where the findings of a cluster are told."""

    known: Inventory
    settings: Drift  # the cluster file's `drift`; without that key nothing is written or sent

    def tell(self, findings: Findings, seconds: float) -> bool:
        """Write metrics, and mail news; whether it did, SlurmfabError if one failed: the next run tries again."""
        if self.settings.textfile:
            atomic_file.write(
                Path(self.settings.textfile),
                exposition(findings, time.time(), seconds),
                new=atomic_file.READABLE_BY_ALL,
                through_link=True,
            )
        if not self.settings.mail:
            return False
        before = load_memory(self.known.path)
        return self.mail(News(before, problems_of(findings, before)), findings.summary())

    def tell_failure(self, error: SlurmfabError) -> None:
        """Send a mail that the hosts could not be compared, unless the last one said so; SlurmfabError if not taken."""
        if self.settings.mail:
            before = load_memory(self.known.path)
            news = News(before, before | {UNCOMPARED})
            self.mail(news, UNCOMPARED[1], str(error))

    def mail(self, news: News, summary: str, cause: str = "") -> bool:
        """Send a mail if there is news, and keep what it told; whether one was sent.

        `cause`: why hosts could not be compared, if so. Raises SlurmfabError if it was not taken, or cannot be kept.
        """
        if not news.is_any:
            return False
        cluster = self.known.cluster
        text = letter(news, cause, command_for("plan", self.known.path.absolute()))
        mailer(cluster, self.known.path).send(self.settings.mail, f"[slurmfab] {cluster.name}: {summary}", text)
        save_memory(self.known.path, news.now)
        return True


def require_textfile(settings: Drift) -> None:
    """Refuse a file of metrics that could not be written, or whose directory is not there; none is made for it."""
    if not settings.textfile:
        return
    path = Path(settings.textfile)
    if not path.parent.is_dir():
        raise InputError(
            f"drift.textfile: there is no directory {path.parent} on this machine. Name a file in the one that "
            "node-exporter reads (--collector.textfile.directory)."
        )
    atomic_file.require_writable(path, "drift.textfile")


def run(cluster: str, output: Output) -> int:
    """Compare all hosts with the cluster file, change nothing, and tell what differs.

    Returns the exit code: 0 if nothing differs, 4 if something does, 3 if nothing does but hosts are missing, 1 if a
    resource could not be compared. Raises SlurmfabError if the cluster file has mistakes, the controller does not
    answer, or the alarm could not be told.
    """
    known = loading.load(loading.named_path(cluster))
    settings = known.cluster.drift or Drift()
    require_textfile(settings)
    alarm = Alarm(known, settings)
    try:
        report = commands.dry_run(start(known, "", output, RunOptions("plan")))
    except SlurmfabError as error:
        alarm.tell_failure(error)
        raise
    findings = findings_of(report)
    lines = [*findings.lines(), f"{findings.cluster}: {findings.summary()} ({report.seconds:.1f} s)."]
    if findings.differing:
        lines.append(f"Next: {command_for('plan', known.path)}")
    write("\n".join(lines), output.stream)
    is_sent = alarm.tell(findings, report.seconds)
    if is_sent:
        write(f"Mail to {', '.join(settings.mail)}: something else differs than at the last mail.", output.stream)
    if known.cluster.monitoring is not None:
        tell_controller(known, findings, output)
    output.write_json(Compared(findings, datetime.now(timezone.utc).isoformat(timespec="seconds"), is_sent))
    return findings.exit_code


def tell_controller(known: Inventory, findings: Findings, output: Output) -> None:
    """Leave the numbers on the controller, as Prometheus has Slurm's from there; HostError if it takes none."""
    from slurmfab.commands.checks.hosts import opened, opener_of

    controller = known.cluster.controller
    kinds = Counter(one.kind for one in findings.differing)
    values = {
        "version": VERSION,
        "time": round(time.time(), 3),
        "hosts": findings.hosts_by_state(),
        "resources": {kind: kinds[kind] for kind in KINDS},
    }
    with opened(opener_of(output), known, controller) as host:
        done = host.run(LEAVE, stdin=json.dumps(values) + "\n")
    if done.rc != 0:
        raise HostFailed(controller, f"{DRIFT_RESULT} could not be written: {in_one_line(done.stdout + done.stderr)}")


def letter(news: News, cause: str, command: str) -> str:
    """The text of a mail: what is new, right again, or was told, or why hosts could not be compared."""
    parts = [("New:", news.appeared), ("Right again:", news.gone), ("As before:", news.remaining)]
    paragraphs = ["\n".join([title, *indented(problems)]) for title, problems in parts if problems]
    if cause:
        paragraphs.append(cause)
    if news.now:
        paragraphs.append(f"All differences in full: {command}")
    return "\n\n".join(paragraphs) + "\n"


def indented(problems: Sequence[Problem]) -> list[str]:
    """Problems in lines, folded over hosts; the last line says how many more there are."""
    whole = [text for host, text in problems if not host]
    lines = [*whole, *fold_lines((host, text) for host, text in problems if host)]
    return [f"  {line}" for line in first_of(lines, MOST_LINES)]
