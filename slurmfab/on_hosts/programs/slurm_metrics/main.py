"""The program that writes Slurm's figures, and slurmfab's own, for Prometheus' node exporter; a timer runs it."""

from __future__ import annotations

import calendar
import os
import socket
import time
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes.states import records
from slurmfab.on_hosts.programs import replaced_file, starting
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.slurm_metrics import slurm
from slurmfab.on_hosts.programs.slurm_metrics.figures import Figures, label

RUN_TIME = "%Y%m%dT%H%M%SZ"  # the name of a GPU check: when it began, in UTC
MOST_WORDS = 20  # the most states, or kinds, that are told


def collect_backups(figures: Figures, settings: Mapping[str, str]) -> None:
    """Put time and size of the newest backup in `directory`, whose name begins with `cluster`."""
    newest: Optional[os.stat_result] = None
    for name in names(settings["directory"]):
        if name.startswith(settings["cluster"] + "-") and name.endswith(".tar"):
            try:
                status = os.lstat(os.path.join(settings["directory"], name))
            except OSError:
                continue
            newest = status if newest is None or status.st_mtime > newest.st_mtime else newest
    if newest is not None:
        figures.put("slurmfab_backup_last_timestamp_seconds", int(newest.st_mtime))
        figures.put("slurmfab_backup_last_bytes", newest.st_size)


def collect_gpu_checks(figures: Figures, directory: str) -> None:
    """Put when the last GPU check ended, and what it found."""
    last = next((entry for entry in reversed(history.entries(directory)) if entry.get("end")), None)
    if last is None:
        return
    when = seconds(last)
    if when is not None:
        figures.put("slurmfab_gpu_check_last_timestamp_seconds", when)
    for outcome, count in last.get("counts", {}).items():
        if isinstance(count, int):
            figures.put("slurmfab_gpu_check_nodes", count, label(str(outcome)).replace(" ", "_"))


def seconds(entry: Mapping[str, Any]) -> Optional[float]:
    """When the last entry of a check was written, or else when the check began, in seconds since 1970."""
    for text, form in ((entry.get("time", ""), "%Y-%m-%dT%H:%M:%SZ"), (entry.get("run", ""), RUN_TIME)):
        try:
            return float(calendar.timegm(time.strptime(str(text), form)))
        except ValueError:
            continue
    return None


def collect_drift(figures: Figures, path: str) -> None:
    """Put time, hosts by state and resources by kind of the last comparison from its JSON file."""
    found = json_objects.read(path)
    when, hosts = found.get("time"), found.get("hosts")
    if isinstance(when, (int, float)) and isinstance(hosts, dict):
        figures.put("slurmfab_drift_last_run_timestamp_seconds", when)
        for name, key in (("slurmfab_drift_hosts", "hosts"), ("slurmfab_drift_resources", "resources")):
            counts = found.get(key)
            for word, count in sorted(counts.items())[:MOST_WORDS] if isinstance(counts, dict) else ():
                if isinstance(count, int):
                    figures.put(name, count, label(word))


COMMAND_SECONDS = 25.0


def main(settings: str) -> int:
    """Collect the figures, and replace the file.

    `settings`: path of a JSON file: `file`, the path to write; `slurm`, whether the host is a controller; `accounting`,
    whether there are accounts; and, where there are such things, `backups`, `gpu_checks` and `drift`, as `own`
    explains. Returns the exit code: 1 where slurmctld answers, but not all of its figures could be read; the file has
    the others.
    """
    wanted = starting.begin(settings)
    if not isinstance(wanted.get("file"), str):
        return starting.log(starting.DAMAGED % settings)
    began, clock = time.time(), time.monotonic()
    figures, code = Figures(), 0
    if wanted.get("slurm"):
        code = of_slurm(figures, began, has_accounts=bool(wanted.get("accounting")))
    if wanted.get("backups"):
        collect_backups(figures, wanted["backups"])
    if wanted.get("gpu_checks"):
        collect_gpu_checks(figures, wanted["gpu_checks"])
    if wanted.get("drift"):
        collect_drift(figures, wanted["drift"])
    figures.put("slurmfab_metrics_timestamp_seconds", round(began, 3))
    figures.put("slurmfab_metrics_duration_seconds", round(time.monotonic() - clock, 3))
    replaced_file.write(wanted["file"], figures.text())
    return code


def of_slurm(figures: Figures, now: float, *, has_accounts: bool) -> int:
    """Put what slurmctld tells, if this host's is the one at work, and return the exit code.

    With two controllers, both would tell the same figures, and a sum over them would be twice as large: so the one on
    standby tells only that. `has_accounts`: whether accounts have shares.
    """
    context = Context()
    controllers = commands.controllers(pinged(context))
    is_here = is_at_work(controllers, socket.gethostname())
    figures.put("slurm_up", is_here)
    for role, host, is_up in controllers if is_here or not any(is_up for *_, is_up in controllers) else ():
        figures.put("slurm_slurmctld_up", is_up, host, role)
    if not is_here:
        return 0

    def text(command: commands.Command) -> str:
        return context.must(command, seconds=COMMAND_SECONDS)

    def shares() -> None:
        slurm.collect_shares(figures, commands.shares(context, COMMAND_SECONDS))

    parts: Tuple[Callable[[], None], ...] = (
        lambda: slurm.collect_nodes(figures, records(text(commands.show_nodes()))),
        lambda: slurm.collect_partitions(figures, text(commands.PARTITION_STATES)),
        lambda: slurm.collect_queue(figures, slurm.queue_table().ask(context, COMMAND_SECONDS), now),
        lambda: slurm.collect_scheduler(figures, text(commands.DIAGNOSTICS)),
        *((shares,) if has_accounts else ()),
    )
    return max(map(tried, parts))


def is_at_work(controllers: Sequence[Tuple[str, str, bool]], hostname: str) -> bool:
    """Whether this slurmctld is at work: the first of (role, host, answers) that answers; standby pings, too."""
    at_work = next((host for _, host, is_up in controllers if is_up), "")
    return bool(at_work) and at_work.partition(".")[0] == hostname.partition(".")[0]


def pinged(context: Context) -> str:
    """What a ping of all controllers prints; it also does where none answers, and fails then."""
    try:
        return context.run(commands.PING, seconds=COMMAND_SECONDS).stdout.decode(errors="replace")
    except ResourceFailed as failed:
        starting.log(str(failed))
        return ""


def tried(part: Callable[[], None]) -> int:
    """Collect a part of the figures, and return the exit code; one that fails leaves the others as they are."""
    try:
        part()
    except ResourceFailed as failed:
        return starting.log(str(failed))
    return 0
