"""A systemd service, and whether it has loaded the present files."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import ClassVar, Dict, List, Optional, Sequence, Tuple

from slurmfab.agent.core.reading import read_text
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.core.safe_paths import read_end
from slurmfab.agent.services import slurmctld_state, start_guard, systemctl

PROPERTIES = (
    "LoadState", "ActiveState", "UnitFileState", "MainPID", "NeedDaemonReload", "ConditionResult", "Result"
)  # fmt: skip
ENABLED = ("enabled", "enabled-runtime", "alias")
WITHOUT_SWITCH = ("static", "indirect", "generated", "transient")
"""UnitFileStates of units that systemctl cannot enable, because other units start them."""

LOADED, AS_ON_DISK = "loaded", "as on disk"
"""The name in a state for what a daemon has loaded, and its wanted value."""

OLDER = "older "
"""The first word of that value when files were changed after the daemon started, and not by this run."""

RUNS = ("active", "reloading")
"""ActiveStates of a unit whose daemon runs."""

START_SECONDS = 30.0
"""How long a started daemon may take until it is active."""

STAY_SECONDS = 0.5
"""How long a daemon that cannot be asked has to stay active, because many faults end a daemon right after its start."""

ANSWER_SECONDS = 10.0
"""Time limit of a program that asks a daemon."""

POLL_SECONDS = 0.05
"""Time between two checks of a daemon that is starting."""

RELOAD_SECONDS = 5.0
"""How long a reloaded daemon may take until its new main process runs."""

LOG_BYTES = 1 << 20
"""The size of the part of a daemon's log that is searched for errors."""

TICK = 0.015
"""Seconds by which a process can seem older than it is: /proc counts in 10 ms, and files get the time of a tick."""


class Service(Resource):
    """A unit that is enabled and runs, with a main process that started after the last change of each watched file.

    A needed restart follows from the host's state and not from an event, so a run finds what an interrupted one left.

    Args:
        unit: unit name, such as `slurmd`.
        watches: absolute paths of files; missing ones do not count.
        enabled: whether the unit starts at boot.
        running: whether the unit runs; otherwise it is stopped and disabled.
        reload: a program and its arguments that makes a new main process take over; tried before a restart.
        followers: units that are restarted after this one, if they run, because they work only with an up-to-date one.
        answers: a program and its arguments that succeeds once the daemon works; without it, or while it fails, the
            unit has to stay active for `STAY_SECONDS`.
        stops_early: whether the daemon can be stopped while it is starting. MariaDB then hangs until systemd gives up.
    """

    kind: ClassVar[str] = "service"
    deadline: ClassVar[float] = 600.0
    unit: str
    watches: Tuple[str, ...] = ()
    enabled: bool = True
    running: bool = True
    reload: Tuple[str, ...] = ()
    followers: Tuple[str, ...] = ()
    answers: Tuple[str, ...] = ()
    stops_early: bool = False

    def name(self) -> str:
        """The unit."""
        return self.unit

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (self.unit,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Enabled, running and loaded from the present files; or neither enabled nor running."""
        if not self.running:
            return {"enabled": "no", "running": "no"}
        return {"enabled": "yes" if self.enabled else "no", "running": "yes", LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The same as systemd reports it; of a unit that does not run, its ActiveState, such as `failed`."""
        shown = show(context, self.unit)
        has_switch = shown.get("UnitFileState") not in WITHOUT_SWITCH
        enabled = "yes" if shown.get("UnitFileState") in ENABLED else "no"
        state = "inactive" if self.unit in context.stopped else shown.get("ActiveState")
        runs = state in RUNS
        if not self.running:
            is_down = state in ("inactive", "failed", None)
            return {"enabled": enabled if has_switch else "no", "running": "no" if is_down else "yes"}
        return {
            "enabled": enabled if has_switch else self.wanted(context)["enabled"],
            "running": "yes" if runs else state or "unknown",
            LOADED: (self.staleness(context, shown) if runs else None) or AS_ON_DISK,
        }

    def staleness(self, context: Context, shown: Dict[str, str]) -> Optional[str]:
        """Which watched files are newer than the main process, or would be after a dry run, such as `older slurm.conf`.

        Args:
            context: the request's context.
            shown: properties of the unit.

        Returns:
            `None` when there are none, or no main process runs.
        """
        start = process_start(int(shown.get("MainPID", "0") or 0))
        newer = [path for path in self.watches if changed_at(context.path(path)) > start + TICK]
        coming = [path for path in self.watches if context.dry_run and path in context.touched - set(newer)]
        reasons = [OLDER + ", ".join(map(os.path.basename, newer))] if newer else []
        reasons += ["%s before its change" % ", ".join(map(os.path.basename, coming))] if coming else []
        return ", ".join(reasons) if reasons and start else None

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Enable the unit and start, reload or restart it; or stop and disable it.

        Raises:
            ResourceFailed: the unit does not exist, is masked, or does not stay active.
        """
        shown = show(context, self.unit)
        if not self.running:
            start_guard.disarm(context, self.unit)
            context.must(["systemctl", "disable", "--now", "--quiet", self.unit], seconds=180)
            return
        if shown.get("LoadState") == "not-found":
            raise ResourceFailed("there is no unit %s on this host; is its package installed?" % self.unit)
        if "masked" in (shown.get("LoadState"), shown.get("UnitFileState")):
            raise ResourceFailed("%s is masked; if it may run: systemctl unmask %s" % (self.unit, self.unit))
        if shown.get("NeedDaemonReload") == "yes":
            context.must(["systemctl", "daemon-reload"])
        if "enabled" in differing:
            context.must(["systemctl", "enable" if self.enabled else "disable", "--quiet", self.unit])
        if "running" in differing:
            # A slurmd that was started without a configuration goes on looking for one for 90 s (Slurm 24.11).
            is_late = self.stops_early and shown.get("ActiveState") == "activating"
            self.start(context, "restart" if is_late else "start")
        elif LOADED in differing and not self.reloaded(context):
            self.start(context, "restart")
        for unit in self.followers if differing & {"running", LOADED} else ():
            # systemctl would wait for one that is still starting.
            if is_active(context, unit):
                context.must(["systemctl", "try-restart", unit], seconds=180)

    def reloaded(self, context: Context) -> bool:
        """Run the reload program, if there is one; returns whether a new main process took over.

        Raises:
            ResourceFailed: slurmctld's new process could not read its state.
        """
        if self.reload and self.unit == slurmctld_state.UNIT:
            slurmctld_state.require_usable(context)
        if not self.reload or context.run(self.reload).returncode != 0:
            return False
        deadline = time.monotonic() + RELOAD_SECONDS
        while time.monotonic() < deadline:
            shown = show(context, self.unit)
            if shown.get("ActiveState") == "active" and self.staleness(context, shown) is None:
                return True
            time.sleep(0.1)
        return False

    def start(self, context: Context, verb: str) -> None:
        """Start or restart the unit; wait until the daemon answers, or stays active for `STAY_SECONDS`.

        Args:
            context: the request's context.
            verb: `start` or `restart`.

        Raises:
            ResourceFailed: the daemon does not run; with the end of the unit's journal and errors from its log. Or it
                is slurmctld, which could not read its state, and was not started.
        """
        start_guard.disarm(context, self.unit)
        if self.unit == slurmctld_state.UNIT:
            slurmctld_state.require_usable(context)
        log = context.path("/var/log/slurm/%s.log" % self.unit)
        size = os.path.getsize(log) if os.path.exists(log) else 0
        # Without this systemd refuses the sixth start within ten seconds (systemd.unit(5), StartLimitBurst).
        context.run(["systemctl", "reset-failed", self.unit])
        context.run(["systemctl", verb, self.unit], seconds=180)
        deadline = time.monotonic() + START_SECONDS
        active_since = 0.0
        while time.monotonic() < deadline:
            shown = show(context, self.unit)
            if shown.get("ActiveState") == "active":
                active_since = active_since or time.monotonic()
                # The time is checked first, because `answers` may take longer than a faulty daemon lives.
                if time.monotonic() - active_since >= STAY_SECONDS or self.is_at_work(context):
                    self.require_its_state(log, size)
                    return
            elif shown.get("ActiveState") in ("failed", "inactive"):
                break
            time.sleep(POLL_SECONDS)
        if shown.get("ActiveState") == "inactive" and shown.get("ConditionResult") == "no":
            message = "%s was not started: a condition in its unit file is not met; see: systemctl status %s"
            raise ResourceFailed(message % (self.unit, self.unit))
        result = shown.get("Result", "")
        messages = " | ".join(self.last_messages(context, log, size))
        state = result if result not in ("", "success") else shown.get("ActiveState", "unknown")
        raise ResourceFailed("%s does not stay active (%s): %s" % (self.unit, state, messages))

    def is_at_work(self, context: Context) -> bool:
        """Whether the program `answers` succeeds; `False` also without such a program."""
        try:
            return bool(self.answers) and context.run(self.answers, seconds=ANSWER_SECONDS).returncode == 0
        except ResourceFailed:
            return False

    def require_its_state(self, log: str, size: int) -> None:
        """Make sure that slurmctld, if this is its unit, has not started without its jobs.

        Args:
            log: path of the daemon's log.
            size: the log's size in bytes before the start.

        Raises:
            ResourceFailed: it has; with the line of its log.
        """
        line = ""
        if self.unit == slurmctld_state.UNIT:
            with suppress(ResourceFailed, OSError):
                line = slurmctld_state.unread_state(written_since(log, size))
        if line:
            text = "slurmctld runs without the jobs that it knew before, because it could not read its state: %s"
            raise ResourceFailed(text % line)

    def last_messages(self, context: Context, log: str, size: int) -> List[str]:
        """The last lines of the unit's journal, and the new errors in the daemon's own log.

        Args:
            context: the request's context.
            log: path of the daemon's log.
            size: the log's size in bytes before the start.
        """
        journal = context.run(["journalctl", "-u", self.unit, "-n", "5", "-o", "cat", "--no-pager"])
        lines = journal.stdout.decode(errors="replace").strip().splitlines()
        try:
            lines += error_lines(written_since(log, size))[-3:]
        except (ResourceFailed, OSError) as error:
            if os.path.lexists(log):
                lines.append("%s cannot be read: %s" % (log, error))
        return list(dict.fromkeys(lines)) or ["it left no message; see: systemctl status %s" % self.unit]


def written_since(log: str, size: int) -> str:
    """The end of a log that was written since it had a size.

    Args:
        log: path.
        size: in bytes; a log that is smaller now was replaced meanwhile.

    Raises:
        ResourceFailed, OSError: the log cannot be read.
    """
    now = os.path.getsize(log)
    new = read_end(log, min(now - size if size <= now else now, LOG_BYTES))
    return (new or b"").decode(errors="replace")


def error_lines(log: str) -> List[str]:
    """The lines of a Slurm daemon's log that report errors."""
    return [line for line in log.splitlines() if "error" in line or "fatal" in line]


def show(context: Context, unit: str) -> Dict[str, str]:
    """The values of `PROPERTIES` of a unit, by name; empty where systemd does not run.

    A dry run changes no unit, so it asks systemd once for all units of the request.
    """
    if not context.dry_run:
        return ask(context, [unit])[unit]
    if unit not in context.units_shown:
        everything = [unit, *(other for other in context.units if other != unit)]
        context.units_shown.update(ask(context, everything) or ask(context, [unit]))
    return context.units_shown[unit]


def ask(context: Context, units: Sequence[str]) -> Dict[str, Dict[str, str]]:
    """The values of `PROPERTIES` by unit and name; empty if systemctl leaves out a unit because its name is invalid."""
    shown = context.run(systemctl.show_command(units, PROPERTIES)).stdout.decode(errors="replace")
    return systemctl.parse_show(units, shown)


def is_active(context: Context, unit: str) -> bool:
    """Whether a unit's daemon runs."""
    return show(context, unit).get("ActiveState") in RUNS


def process_start(pid: int) -> float:
    """When a process started, in seconds since 1970 by the present clock; 0 when there is no such process."""
    # The command in parentheses can hold spaces and parentheses itself (proc(5)).
    fields = read_text("/proc/%d/stat" % pid).rpartition(")")[2].split() if pid else []
    if not fields:
        return 0.0
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def changed_at(path: str) -> float:
    """When a file's content, owner, mode or name last changed, in seconds since 1970; 0 when there is no file.

    This is the ctime, which no program can set. One in the future counts as 0: the clock was set back.
    """
    try:
        changed = os.stat(path).st_ctime
    except FileNotFoundError:
        return 0.0
    return changed if changed <= time.time() + 1 else 0.0
