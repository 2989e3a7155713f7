"""A systemd service, and whether it has loaded the present files."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Dict, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services import slurmctld_state, start_guard, systemctl
from slurmfab.on_hosts.agent.services.process import is_frozen, process_start
from slurmfab.on_hosts.agent.services.sockets import has_listening_socket

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.services.daemon_log import Position

PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID", "NeedDaemonReload", "ConditionResult", "Result",
    "NRestarts", "StartLimitIntervalUSec", "ExecMainStatus", "DropInPaths",
)  # fmt: skip
KINDS = ("service", "socket", "timer", "mount", "automount", "target", "path", "slice", "scope", "device", "swap")
"""What the name of a unit ends in (systemd.unit(5))."""

ENABLED = ("enabled", "enabled-runtime", "alias")
WITHOUT_SWITCH = ("static", "indirect", "generated", "transient")
"""UnitFileStates of units that systemctl cannot enable, because other units start them."""

LOADED, AS_ON_DISK = "loaded", "as on disk"  # the name in a state for what a daemon has loaded, and its wanted value
OLDER = "older "  # the first word of that value when files were changed after the daemon started, and not by this run

MASKED = ("masked", "masked-runtime")
"""UnitFileStates of units that systemd does not start: for good, and until the next boot."""

RUNS = ("active", "reloading")  # ActiveStates of a unit whose daemon runs

BY_ITSELF = "ended by itself"
"""The name in a state for how often a daemon that runs has crashed, or ended with an error, since its start."""

NEVER = "no"
COUNTED = ("munge", "slurmctld", "slurmdbd", "slurmd")
"""Daemons of which that is told; systemd starts them again where slurmfab or the site says so (systemd.service(5),
Restart=), and counts it until somebody starts them."""

ENDED = "auto-restart"  # SubState of a unit whose daemon has ended, and that systemd will start again

UNLIMITED = "0"
"""StartLimitIntervalUSec of a unit that systemd starts again and again, as slurmd that fetches its files."""

START_SECONDS = 60.0
"""How long a started daemon may take until it works: slurmd may look for addresses for some seconds before it ends."""

STAY_SECONDS = 0.5
"""How long a daemon that cannot be asked has to stay active, because many faults end a daemon right after its start."""

LISTENING = ("slurmctld", "slurmd")
"""Daemons that listen on a TCP port as soon as they work, also where nobody can ask them."""

ANSWER_SECONDS = 10.0  # time limit of a program that asks a daemon
POLL_SECONDS = 0.05  # time between two checks of a daemon that is starting
RELOAD_SECONDS = 5.0  # how long a reloaded daemon may take until its new main process runs

TICK = 0.015
"""Seconds by which a process can seem older than it is: /proc counts in 10 ms, and files get the time of a tick."""


class Service(Resource):
    """A unit that is enabled and runs, with a main process that started after the last change of each watched file.

    A needed restart follows from the host's state and not from an event, so a run finds what an interrupted one left.
    """

    kind: ClassVar[str] = "service"
    named_by: ClassVar[str] = "unit"
    deadline: ClassVar[float] = 600.0
    unit: str  # unit name, such as `slurmd`
    watches: Tuple[str, ...] = ()  # absolute paths of files; missing ones do not count
    enabled: bool = True  # whether the unit starts at boot
    running: bool = True  # whether the unit runs; otherwise it is stopped and disabled
    # A program and its arguments that makes a new main process take over; tried before a restart.
    reload: Tuple[str, ...] = ()
    # Units that are restarted after this one, if they run, because they work only with an up-to-date one.
    followers: Tuple[str, ...] = ()
    # A program and its arguments that succeeds once the daemon works; without it, the unit has to stay active for
    # `STAY_SECONDS`.
    answers: Tuple[str, ...] = ()
    # Whether the daemon can be stopped while it is starting. MariaDB then hangs until systemd gives up.
    stops_early: bool = False

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (self.unit,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Enabled, running, answering, and loaded from the present files; or neither enabled nor running."""
        if not self.running:
            return {"enabled": "no", "running": "no"}
        counted = {BY_ITSELF: NEVER} if self.unit in COUNTED else {}
        state = {"enabled": "yes" if self.enabled else "no", "running": "yes", "answers": "yes", LOADED: AS_ON_DISK}
        return {**state, **counted}

    def actual(self, context: Context) -> State:
        """The same as systemd reports it; of a unit that does not run, its ActiveState, such as `failed`.

        Systemd calls a daemon active that answers nothing, so its process is looked at, too.
        """
        shown = show(context, self.unit)
        has_switch = shown.get("UnitFileState") not in WITHOUT_SWITCH
        enabled = "yes" if shown.get("UnitFileState") in ENABLED else "no"
        state = "inactive" if self.unit in context.stopped else shown.get("ActiveState")
        runs = state in RUNS
        if not self.running:
            is_down = state in ("inactive", "failed", None)
            return {"enabled": enabled if has_switch else "no", "running": "no" if is_down else "yes"}
        if shown.get("UnitFileState") in MASKED:
            enabled = "masked"
        return {
            "enabled": enabled if has_switch else self.wanted(context)["enabled"],
            "running": "yes" if runs else state or "unknown",
            "answers": "no" if state == "active" and self.is_silent(main_pid(shown)) else "yes",
            LOADED: (self.staleness(context, shown) if runs else None) or AS_ON_DISK,
            BY_ITSELF: ends(shown) if runs else NEVER,
        }

    def is_silent(self, pid: int) -> bool:
        """Whether a daemon (main PID, or 0) is stopped by a signal, or does not listen, so cannot answer."""
        return bool(pid) and (is_frozen(pid) or (self.unit in LISTENING and not has_listening_socket(pid)))

    def staleness(self, context: Context, shown: Dict[str, str]) -> Optional[str]:
        """Which watched files are newer than the main process, or would be after a dry run, such as `older slurm.conf`.

        Returns `None` when there are none, or no main process runs.
        """
        start = process_start(main_pid(shown))
        watched = [path for path in self.watches if path not in context.gone]
        newer = [path for path in watched if changed_at(context.path(path)) > start + TICK]
        coming = [path for path in watched if context.dry_run and path not in newer and is_touched(context, path)]
        reasons = [OLDER + ", ".join(map(os.path.basename, newer))] if newer else []
        reasons += ["%s before its change" % ", ".join(map(os.path.basename, coming))] if coming else []
        return ", ".join(reasons) if reasons and start else None

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Enable and start, reload or restart, or stop and disable; ResourceFailed if it does not stay active."""
        shown = show(context, self.unit)
        if not self.running:
            start_guard.disarm(context, self.unit)
            context.must(["systemctl", "disable", "--now", "--quiet", self.unit], seconds=180)
            return
        shown = self.startable(context, shown)
        if "enabled" in differing:
            context.must(["systemctl", "enable" if self.enabled else "disable", "--quiet", self.unit])
        if "running" in differing:
            # A slurmd that was started without a configuration goes on looking for one for 90 s (Slurm 24.11).
            is_late = (self.stops_early and shown.get("ActiveState") == "activating") or shown.get("SubState") == ENDED
            self.start(context, "restart" if is_late else "start")
        elif "answers" in differing:
            self.wake(context, shown, restart=LOADED in differing)
        elif LOADED in differing and not self.reloaded(context):
            self.start(context, "restart")
        elif differing == {BY_ITSELF}:
            # Told now; this makes systemd count from 0 again, and leaves the daemon alone.
            context.must(["systemctl", "reset-failed", self.unit])
        for unit in self.followers if differing & {"running", "answers", LOADED} else ():
            # systemctl would wait for one that is still starting.
            if is_active(context, unit):
                context.must(["systemctl", "try-restart", unit], seconds=180)

    def startable(self, context: Context, shown: Dict[str, str]) -> Dict[str, str]:
        """Make sure that systemd can start the unit: unmask it, and read its files again; its properties then.

        Raises ResourceFailed if the unit does not exist, or stays masked.
        """
        if shown.get("LoadState") == "not-found":
            raise ResourceFailed("there is no unit %s on this host; is its package installed?" % self.unit)
        if shown.get("UnitFileState") in MASKED or shown.get("LoadState") == "masked":
            shown = self.unmask(context, shown)
        if shown.get("NeedDaemonReload") == "yes":
            context.must(["systemctl", "daemon-reload"])
        return shown

    def unmask(self, context: Context, shown: Dict[str, str]) -> Dict[str, str]:
        """Remove the masks of the unit, both the lasting one and the one until the next boot; its properties then.

        Raises ResourceFailed if it is masked elsewhere.
        """
        for _ in MASKED:
            is_temporary = shown.get("UnitFileState") == "masked-runtime"
            context.must(["systemctl", "unmask", *(["--runtime"] if is_temporary else []), self.unit])
            shown = ask(context, [self.unit])[self.unit]
            if shown.get("UnitFileState") not in MASKED and shown.get("LoadState") != "masked":
                return shown
        message = "%s stays masked; see which of its unit files is a link to /dev/null: systemctl cat %s"
        raise ResourceFailed(message % (self.unit, self.unit))

    def wake(self, context: Context, shown: Dict[str, str], *, restart: bool) -> None:
        """Restart a daemon that answers nothing, unless it has only just been started and works in time.

        `restart`: whether it has to be restarted in any case.
        """
        if restart or is_frozen(main_pid(shown)) or self.watched(context):
            self.start(context, "restart")

    def reloaded(self, context: Context) -> bool:
        """Run the reload program, if there is one; returns whether a new main process took over.

        Raises ResourceFailed if slurmctld's new process could not read its state.
        """
        if not self.reload:
            return False
        if self.unit == slurmctld_state.UNIT:
            slurmctld_state.require_usable(context)
        from slurmfab.on_hosts.agent.services import daemon_log

        log = daemon_log.position(context, self.unit)
        if context.run(self.reload).returncode != 0:
            return False
        deadline = time.monotonic() + RELOAD_SECONDS
        while time.monotonic() < deadline:
            shown = show(context, self.unit)
            is_up = shown.get("ActiveState") == "active" and not self.is_silent(main_pid(shown))
            if is_up and self.staleness(context, shown) is None:
                self.remark_errors(context, log)
                return True
            time.sleep(0.1)
        return False

    def start(self, context: Context, verb: str) -> None:
        """Start or restart the unit, and wait until the daemon works.

        `verb`: `start` or `restart`. Raises ResourceFailed if the daemon does not run or does not answer; with the last
        errors in its own log. Or it is slurmctld, which could not read its state, and was not started.
        """
        from slurmfab.on_hosts.agent.services import daemon_log  # most runs start nothing

        start_guard.disarm(context, self.unit)
        if self.unit == slurmctld_state.UNIT:
            slurmctld_state.require_usable(context)
        log = daemon_log.position(context, self.unit)
        # Without this systemd refuses the sixth start within ten seconds (systemd.unit(5), StartLimitBurst).
        context.run(["systemctl", "reset-failed", self.unit])
        context.run(["systemctl", verb, self.unit], seconds=180)
        shown = self.watched(context)
        state = shown.get("ActiveState", "unknown")
        if not shown:
            self.require_its_state(log)
            self.remark_errors(context, log)
            return
        if state == "inactive" and shown.get("ConditionResult") == "no":
            message = "%s was not started: a condition in its unit file is not met; see: systemctl status %s"
            raise ResourceFailed(message % (self.unit, self.unit))
        messages = " | ".join(daemon_log.last_words(context, self.unit, log))
        from slurmfab.on_hosts.agent.services import damaged_state

        if self.unit == slurmctld_state.UNIT and (name := damaged_state.damaged_file(messages)):
            file = "%s/%s" % (slurmctld_state.location(context), name)
            seen = context.run(["sh", "-c", damaged_state.look_at(context.path(file))]).stdout.decode(errors="replace")
            messages += " | " + damaged_state.way_out(file, seen, FAB)
        if state == "active":
            raise ResourceFailed("%s runs, but does not answer: %s" % (self.unit, messages))
        result, status = shown.get("Result", ""), shown.get("ExecMainStatus", "0")
        state = result if result not in ("", "success") else state
        state += " %s" % status if result in ("exit-code", "signal") and status.strip("0") else ""
        raise ResourceFailed("%s does not stay active (%s): %s" % (self.unit, state, messages))

    def watched(self, context: Context) -> Dict[str, str]:
        """Wait until a started daemon works with one and the same process; its properties if it does not."""
        deadline = time.monotonic() + START_SECONDS
        process, since = "", 0.0
        while True:
            shown = show(context, self.unit)
            state, now = shown.get("ActiveState"), time.monotonic()
            if state == "active":
                if shown.get("MainPID", "") != process or not since:
                    process, since = shown.get("MainPID", ""), now
                if self.works(context, main_pid(shown), now - since):
                    return {}
            is_given_up = state in ("failed", "inactive") or has_ended(shown)
            if is_given_up or now > deadline:
                return shown
            time.sleep(POLL_SECONDS)

    def works(self, context: Context, pid: int, seconds: float) -> bool:
        """Whether the daemon answers; one that cannot be asked has to listen, and to stay active for a while.

        `pid`: of the main process; 0 if there is none. `seconds`: for how long it has been active.
        """
        if self.answers:
            try:
                return context.run(self.answers, seconds=ANSWER_SECONDS).returncode == 0
            except ResourceFailed:
                pass  # the program is missing, or waits for the daemon
        return seconds >= STAY_SECONDS and not self.answers and not self.is_silent(pid)

    def remark_errors(self, context: Context, log: Position) -> None:
        """Tell what slurmctld, which goes on all the same, wrote against the files that it has just read."""
        from slurmfab.on_hosts.agent.services import daemon_log

        found = daemon_log.complaints(log) if self.unit == slurmctld_state.UNIT else []
        if found:
            context.remark = "slurmctld logged errors when it read the files: %s" % " | ".join(found)

    def require_its_state(self, log: Position) -> None:
        """Make sure that slurmctld, if this is its unit, has not started without its jobs.

        `log`: where the daemon's log ended before the start. Raises ResourceFailed if it has; with the line of its log.
        """
        from slurmfab.on_hosts.agent.services.daemon_log import written_since

        line = ""
        if self.unit == slurmctld_state.UNIT:
            with suppress(ResourceFailed, OSError):
                line = slurmctld_state.unread_state(written_since(log))
        if line:
            text = "slurmctld runs without the jobs that it knew before, because it could not read its state: %s"
            raise ResourceFailed(text % line)


def show(context: Context, unit: str) -> Dict[str, str]:
    """The values of `PROPERTIES` of a unit, by name; empty where systemd does not run.

    A dry run changes no unit, so it asks systemd once for all units of the request.
    """
    if not context.dry_run:
        return ask(context, [unit])[unit]
    name = full_name(unit)
    if name not in context.units_shown:
        everything = tuple(dict.fromkeys((name, *map(full_name, context.units))))
        context.units_shown.update(ask(context, everything) or ask(context, [name]))
    return context.units_shown[name]


def full_name(unit: str) -> str:
    """The name of a unit with its kind, as systemctl understands a name without one: `munge` is `munge.service`."""
    return unit if unit.rpartition(".")[2] in KINDS else unit + ".service"


def ask(context: Context, units: Sequence[str]) -> Dict[str, Dict[str, str]]:
    """The values of `PROPERTIES` by unit and name; empty if systemctl leaves out a unit because its name is invalid."""
    shown = context.run(systemctl.show_command(units, PROPERTIES)).stdout.decode(errors="replace")
    return systemctl.parse_show(units, shown)


def ends(shown: Dict[str, str]) -> str:
    """How often systemd has started a daemon again because it ended by itself, such as `2 times`; or `NEVER`."""
    count = shown.get("NRestarts", "0")
    return NEVER if count in ("", "0") else "%s time%s" % (count, "" if count == "1" else "s")


def has_ended(shown: Dict[str, str]) -> bool:
    """Whether a daemon has ended and systemd will start it again, but not for ever."""
    return shown.get("SubState") == ENDED and shown.get("StartLimitIntervalUSec", UNLIMITED) != UNLIMITED


def is_active(context: Context, unit: str) -> bool:
    """Whether a unit's daemon runs."""
    return show(context, unit).get("ActiveState") in RUNS


def main_pid(shown: Dict[str, str]) -> int:
    """The PID of a unit's main process; 0 if it has none."""
    return int(shown.get("MainPID", "0") or 0)


def is_touched(context: Context, path: str) -> bool:
    """Whether an earlier resource would change a file in a dry run, or what it is a link to."""
    top = context.path("/").rstrip("/")
    return path in context.touched or os.path.realpath(context.path(path))[len(top) :] in context.touched


def changed_at(path: str) -> float:
    """When a file's content, owner, mode or name last changed, in seconds since 1970; 0 when there is no file.

    This is the ctime, which no program can set; of a link, its own or that of the file, whichever is later. One in the
    future counts as 0: the clock was set back.
    """
    try:
        changed = max(os.stat(path).st_ctime, os.lstat(path).st_ctime)
    except FileNotFoundError:
        return 0.0
    return changed if changed <= time.time() + 1 else 0.0
