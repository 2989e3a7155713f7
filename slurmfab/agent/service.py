"""A systemd service, and whether it runs with the files that are there now."""

from __future__ import annotations

import os
import time
from typing import ClassVar, Dict, List, Optional, Sequence, Tuple

from slurmfab.agent.reading import read_text
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

PROPERTIES = "LoadState,ActiveState,UnitFileState,MainPID,NeedDaemonReload,ConditionResult,Result"
ENABLED = ("enabled", "enabled-runtime", "alias")
WITHOUT_SWITCH = ("static", "indirect", "generated", "transient")
"""States of units that systemctl cannot enable: others pull them in."""

LOADED, AS_ON_DISK = "loaded", "as on disk"
"""What a daemon has read: the name of that in a state, and how it should be."""

OLDER = "older "
"""How the words begin for a daemon whose files were changed after its start, and not by this run."""

RUNS = ("active", "reloading")
"""ActiveStates of a unit whose daemon is at work."""

START_SECONDS = 30.0
"""How long a started daemon may take until it is active."""

STAY_SECONDS = 0.5
"""How long one that cannot be asked has to stay active, for many a daemon dies right after its start."""

ANSWER_SECONDS = 10.0
"""How long a program that asks a daemon may take."""

POLL_SECONDS = 0.05
"""Between two looks at a daemon that starts."""

RELOAD_SECONDS = 5.0
"""How long a reloaded daemon may take until a new process has taken over."""

TICK = 0.015
"""Seconds by which a process can seem older than it is: /proc counts in 10 ms, and files are stamped by timer ticks."""


class Service(Resource):
    """A unit that is enabled and runs, with a main process that is younger than every file that it watches.

    So a restart is a fact of the host and no event: what an interrupted run left undone, the next run finds.

    Args:
        unit: its name, such as `slurmd`.
        watches: absolute paths; missing ones do not count.
        enabled: whether it starts at boot.
        running: whether it runs; if not, it is not enabled either.
        reload: a program and its arguments after which a new main process takes over; tried before a restart.
        followers: units that are restarted after this one, if they run; nobody believed them while it was out of date.
        answers: a program and its arguments that succeeds when the daemon does its work; a daemon that does has come
            through its start, and any other has to stay active for a while.
    """

    kind: ClassVar[str] = "service"
    unit: str
    watches: Tuple[str, ...] = ()
    enabled: bool = True
    running: bool = True
    reload: Tuple[str, ...] = ()
    followers: Tuple[str, ...] = ()
    answers: Tuple[str, ...] = ()

    def name(self) -> str:
        """The unit."""
        return self.unit

    def units(self) -> Tuple[str, ...]:
        """The unit."""
        return (self.unit,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Enabled, running, and with the files that are on the disk; or neither."""
        if not self.running:
            return {"enabled": "no", "running": "no"}
        return {"enabled": "yes" if self.enabled else "no", "running": "yes", LOADED: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The same as it is; a unit that does not run is shown by systemd's word, such as `failed`."""
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
        """In words, which watched files are newer than the main process, or would be in a dry run; `None` for none."""
        start = process_start(int(shown.get("MainPID", "0") or 0))
        newer = [path for path in self.watches if changed_at(context.path(path)) > start + TICK]
        coming = [path for path in self.watches if context.dry_run and path in context.touched - set(newer)]
        words = [OLDER + ", ".join(map(os.path.basename, newer))] if newer else []
        words += ["%s before its change" % ", ".join(map(os.path.basename, coming))] if coming else []
        return ", ".join(words) if words and start else None

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Enable and start, or renew; or stop and disable.

        Raises:
            ResourceFailed: the unit does not exist, is masked, or does not stay active.
        """
        shown = show(context, self.unit)
        if not self.running:
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
            self.start(context, "start")
        elif LOADED in differing and not self.reloaded(context):
            self.start(context, "restart")
        for unit in self.followers if differing & {"running", LOADED} else ():
            context.must(["systemctl", "try-restart", unit], seconds=180)

    def reloaded(self, context: Context) -> bool:
        """Whether the reload program, if there is one, made a new main process take over."""
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
        """Start or restart, and see the daemon at work, or else the unit stay active.

        Raises:
            ResourceFailed: it does not; the text carries the unit's last words.
        """
        log = context.path("/var/log/slurm/%s.log" % self.unit)
        size = os.path.getsize(log) if os.path.exists(log) else 0
        # Else systemd refuses the sixth start in ten seconds (systemd.unit(5), StartLimitBurst), though each was meant.
        context.run(["systemctl", "reset-failed", self.unit])
        context.run(["systemctl", verb, self.unit], seconds=180)
        deadline = time.monotonic() + START_SECONDS
        active_since = 0.0
        while time.monotonic() < deadline:
            shown = show(context, self.unit)
            if shown.get("ActiveState") == "active":
                active_since = active_since or time.monotonic()
                # In this order, since a question may take longer than a daemon lives.
                if time.monotonic() - active_since >= STAY_SECONDS or self.is_at_work(context):
                    return
            elif shown.get("ActiveState") in ("failed", "inactive"):
                break
            time.sleep(POLL_SECONDS)
        if shown.get("ActiveState") == "inactive" and shown.get("ConditionResult") == "no":
            words = "%s was not started: a condition in its unit file is not met; see: systemctl status %s"
            raise ResourceFailed(words % (self.unit, self.unit))
        result = shown.get("Result", "")
        words = " | ".join(self.last_words(context, log, size))
        state = result if result not in ("", "success") else shown.get("ActiveState", "unknown")
        raise ResourceFailed("%s does not stay active (%s): %s" % (self.unit, state, words))

    def is_at_work(self, context: Context) -> bool:
        """Whether the daemon answers; `False` as well where nothing is there to ask it with."""
        try:
            return bool(self.answers) and context.run(self.answers, seconds=ANSWER_SECONDS).returncode == 0
        except ResourceFailed:
            return False

    def last_words(self, context: Context, log: str, size: int) -> List[str]:
        """The end of the unit's journal, and the errors that it has added to its own log since that had this size."""
        journal = context.run(["journalctl", "-u", self.unit, "-n", "5", "-o", "cat", "--no-pager"])
        words = journal.stdout.decode(errors="replace").strip().splitlines()
        if os.path.exists(log):
            with open(log, "rb") as file:
                file.seek(size if size <= os.path.getsize(log) else 0)
                words += complaints(file.read().decode(errors="replace"))[-3:]
        return list(dict.fromkeys(words)) or ["it left no message; see: systemctl status %s" % self.unit]


def complaints(log: str) -> List[str]:
    """The lines of a Slurm daemon's log that tell of errors."""
    return [line for line in log.splitlines() if "error" in line or "fatal" in line]


def show(context: Context, unit: str) -> Dict[str, str]:
    """The properties of a unit that matter here, by name; empty where systemd does not run.

    A dry run asks systemd once for all units of the request, for it changes none of them.
    """
    if not context.dry_run:
        return ask(context, [unit])[unit]
    if unit not in context.units_shown:
        everything = [unit, *(other for other in context.units if other != unit)]
        context.units_shown.update(ask(context, everything) or ask(context, [unit]))
    return context.units_shown[unit]


def ask(context: Context, units: Sequence[str]) -> Dict[str, Dict[str, str]]:
    """What `systemctl show` prints of units, by unit: a paragraph for each, in the order they are asked for.

    Nothing if it leaves out one of several, as one whose name it does not take.
    """
    shown = context.run(["systemctl", "show", "--property=" + PROPERTIES, *units]).stdout.decode(errors="replace")
    paragraphs = shown.strip().split("\n\n")
    if len(paragraphs) != len(units):
        return {}
    return {unit: parse_show(paragraph) for unit, paragraph in zip(units, paragraphs)}  # noqa: B905 - as Python 3.9 has it


def is_active(context: Context, unit: str) -> bool:
    """Whether a unit runs."""
    return show(context, unit).get("ActiveState") in RUNS


def parse_show(shown: str) -> Dict[str, str]:
    """The lines `NAME=VALUE` of `systemctl show`."""
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)


def process_start(pid: int) -> float:
    """When a process started, in seconds since 1970, as the clock counts now; 0 when there is none."""
    # The command in parentheses can hold spaces and parentheses itself (proc(5)).
    fields = read_text("/proc/%d/stat" % pid).rpartition(")")[2].split() if pid else []
    if not fields:
        return 0.0
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def changed_at(path: str) -> float:
    """When a file's content, owner, mode or name last changed; 0 when there is none.

    The ctime tells, which nobody can set. One in the future comes from a clock that was set back, and tells nothing.
    """
    try:
        changed = os.stat(path).st_ctime
    except FileNotFoundError:
        return 0.0
    return changed if changed <= time.time() + 1 else 0.0
