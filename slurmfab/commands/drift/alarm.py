"""The task `drift`: compares the hosts as `plan` does, and tells what differs by exit code, metrics and mail."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from slurmfab.base import atomic_file
from slurmfab.base.errors import HostFailed, SlurmfabError
from slurmfab.base.folding import fold_lines
from slurmfab.base.json_output import Key, shows
from slurmfab.base.paths import DRIFT_RESULT
from slurmfab.base.terminal import in_one_line, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.drift import Drift
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.drift import memory
from slurmfab.commands.drift.findings import KINDS, MOST_LINES, Findings, findings_of
from slurmfab.commands.drift.mailing import mailer
from slurmfab.commands.drift.memory import News, Problem
from slurmfab.core.engine import commands
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output, start
from slurmfab.core.engine.summary import command_for

TYPES = {
    "slurmfab_drift_resources": "Resources on hosts that are not as the cluster file says, by kind of difference.",
    "slurmfab_drift_host_resources": "The same by host; hosts without a difference have no line.",
    "slurmfab_drift_hosts": "Hosts by what the comparison found; sleeping nodes are not among them.",
    "slurmfab_drift_last_run_timestamp_seconds": "When the hosts were last compared.",
    "slurmfab_drift_last_run_duration_seconds": "How long that took.",
}
"""The metrics with their help; all are gauges."""

Sample = tuple[dict[str, str], float]


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


VERSION = 1  # version of the JSON format

LEAVE = f"umask 022 && cat >{DRIFT_RESULT}.new && mv {DRIFT_RESULT}.new {DRIFT_RESULT}"
"""The command by which the controller takes the numbers from standard input."""


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
            )
        if not self.settings.mail:
            return False
        before = memory.load(self.known.path)
        return self.mail(News(before, memory.problems_of(findings, before)), findings.summary())

    def tell_failure(self, error: SlurmfabError) -> None:
        """Send a mail that the hosts could not be compared, unless the last one said so; SlurmfabError if not taken."""
        if self.settings.mail:
            before = memory.load(self.known.path)
            news = News(before, before | {memory.UNCOMPARED})
            self.mail(news, memory.UNCOMPARED[1], str(error))

    def mail(self, news: News, summary: str, cause: str = "") -> bool:
        """Send a mail if there is news, and keep what it told; whether one was sent.

        `cause`: why hosts could not be compared, if so. Raises SlurmfabError if it was not taken, or cannot be kept.
        """
        if not news.is_any:
            return False
        cluster = self.known.cluster
        text = letter(news, cause, command_for("plan", self.known.path.absolute()))
        mailer(cluster, self.known.path).send(self.settings.mail, f"[slurmfab] {cluster.name}: {summary}", text)
        memory.save(self.known.path, news.now)
        return True


def run(cluster: str, output: Output) -> int:
    """Compare all hosts with the cluster file, change nothing, and tell what differs.

    Returns the exit code: 0 if nothing differs, 4 if something does, 3 if nothing does but hosts are missing, 1 if a
    resource could not be compared. Raises SlurmfabError if the cluster file has mistakes, the controller does not
    answer, or the alarm could not be told.
    """
    known = loading.load(loading.named_path(cluster))
    settings = known.cluster.drift or Drift()
    if settings.textfile:
        atomic_file.require_writable(Path(settings.textfile), "drift.textfile")
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
    from slurmfab.commands.checks.opener import opened, opener_of

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
    """The text of a mail: what is new, what is right again, and what was told before.

    `news`: what has changed since the last mail. `cause`: why the hosts could not be compared; empty where they could.
    """
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
    more = len(lines) - MOST_LINES
    return [f"  {line}" for line in [*lines[:MOST_LINES], *([f"and {more} more"] if more > 0 else [])]]
