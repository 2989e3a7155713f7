"""The power program: slurmctld runs it to switch nodes off and on, and a timer to choose the nodes that may sleep."""

from __future__ import annotations

import os
import syslog
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes.states import NodeState, records, shown_nodes, state_of
from slurmfab.on_hosts.programs import starting
from slurmfab.on_hosts.programs.power import switches

HARMLESS = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"})
"""Flags that an idle node may have: they say how it came into the cluster."""

IDLE = frozenset({"IDLE"})
IN_SERVICE = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED"})
"""States and flags of a node that is on and takes jobs, now or next."""

LAST_BUSY = "%Y-%m-%dT%H:%M:%S"


def choose_sleepers(nodes: Iterable[Mapping[str, str]], wanted: Mapping[str, Any], now: float) -> List[str]:
    """The nodes that are to be switched off, the longest idle first.

    Args:
        nodes: the fields of `scontrol show node` of each node.
        wanted: the settings: `nodes` (those that may sleep), `always_on`, `after` (seconds), `keep` (number of nodes in
            service that stay on) and `rate` (most nodes at once).

    Returns:
        NodeNames; none that is drained, reserved, planned for a job, down or on its way up or down.
    """
    may_sleep = set(wanted["nodes"])
    found = {record["NodeName"]: dict(record) for record in nodes if record["NodeName"] in may_sleep}
    flags = {name: state_of(record).flags - HARMLESS for name, record in found.items()}
    in_service = [name for name, has in flags.items() if has <= IN_SERVICE]
    idle = []
    for name in in_service:
        since = idle_since(found[name].get("LastBusyTime", ""))
        is_free = flags[name] == IDLE and name not in wanted["always_on"]
        if is_free and since is not None and now - since >= wanted["after"]:
            idle.append((since, name))
    room = min(len(in_service) - wanted["keep"], wanted["rate"])
    return [name for _, name in sorted(idle)[: max(0, room)]]


def idle_since(text: str) -> Optional[float]:
    """LastBusyTime in seconds since 1970; `None` where Slurm knows none."""
    try:
        return time.mktime(time.strptime(text, LAST_BUSY))
    except (ValueError, OverflowError):
        return None


SUSPEND, RESUME, CHOOSE = "suspend", "resume", "choose"

AT_ONCE = 32  # how many nodes are switched at the same time

SCONTROL_SECONDS = 30.0

SPARED = frozenset({
    "DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE", "RESERVED", "RES", "PLANNED", "FAIL", "FAILING", "DOWN",
    "ALLOCATED", "MIXED", "COMPLETING", "POWERING_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED", "UNKNOWN", "ERROR",
})  # fmt: skip
"""States and flags with which a node is never switched off."""


def main(word: str, settings: str, hostlist: str = "") -> int:
    """Switch nodes, or choose those that are switched off.

    Args:
        word: `suspend`, `resume` or `choose`.
        settings: path of a JSON file; `switches` and `sleepers` say what is in it.
        hostlist: the nodes; slurmctld gives it.

    Returns:
        The exit code: 1 if something failed or was refused, which slurmctld logs; the reasons are in the journal.
    """
    syslog.openlog("slurmfab-power", syslog.LOG_PID, syslog.LOG_DAEMON)
    wanted = starting.begin(settings)
    if not wanted.get("nodes") or word not in (SUSPEND, RESUME, CHOOSE):
        return log_failure("%s is missing or names no nodes; the next deployment writes it" % settings)
    try:
        if word == CHOOSE:
            return choose(wanted)
        nodes = Context().must(commands.hostnames(hostlist), seconds=SCONTROL_SECONDS).split()
        return switch_all(wanted, word, nodes)
    except ResourceFailed as failed:
        return log_failure("%s %s: %s" % (word, hostlist, failed))


def log_failure(text: str) -> int:
    """Log an error, and return exit code 1."""
    syslog.syslog(syslog.LOG_ERR, text)
    return starting.log(text)


def choose(wanted: Mapping[str, Any]) -> int:
    """Have Slurm switch off nodes that were idle for long enough; ResourceFailed if slurmctld fails or refuses."""
    context = Context()
    found = records(shown_nodes(context, SCONTROL_SECONDS))
    nodes = choose_sleepers(found, wanted, time.time())
    if nodes:
        context.must(commands.update_nodes(nodes, "State=POWER_DOWN"), seconds=SCONTROL_SECONDS)
        syslog.syslog(syslog.LOG_INFO, "idle for %d s, so Slurm switches off: %s" % (wanted["after"], ",".join(nodes)))
    return 0


def switch_all(wanted: Mapping[str, Any], word: str, nodes: Sequence[str]) -> int:
    """Switch nodes (`suspend`, `resume`) at once; 1 if one was not, ResourceFailed without slurmctld."""
    states = states_of(Context(), nodes) if word == SUSPEND else {}
    deadline = time.monotonic() + float(wanted[word + "_timeout"])

    def one(node: str) -> str:
        reason = why_not(wanted, node, states.get(node)) if word == SUSPEND else unknown(wanted, node)
        if reason:
            return reason
        try:
            switch = switches.switch_for(wanted, node, deadline)
            (switch.off if word == SUSPEND else switch.on)()
        except ResourceFailed as failed:
            return str(failed)
        return ""

    with ThreadPoolExecutor(max_workers=min(AT_ONCE, max(1, len(nodes)))) as pool:
        reasons: List[str] = list(pool.map(one, nodes))
    for node, reason in zip(nodes, reasons):  # noqa: B905 - zip(strict=) is Python 3.10's
        note(wanted["failures"], word, node, reason)
    return 1 if any(reasons) else 0


def states_of(context: Context, nodes: Sequence[str]) -> Dict[str, NodeState]:
    """The states of nodes by NodeName. Raises ResourceFailed if slurmctld does not answer."""
    wanted = set(nodes)
    found = records(shown_nodes(context, SCONTROL_SECONDS))
    return {record["NodeName"]: state_of(record) for record in found if record["NodeName"] in wanted}


def unknown(wanted: Mapping[str, Any], node: str) -> str:
    """Why a node is not switched at all; empty if the cluster file lets it sleep."""
    return "" if node in wanted["nodes"] else "the cluster file does not let it sleep (power.nodes)"


def why_not(wanted: Mapping[str, Any], node: str, state: Optional[NodeState]) -> str:
    """Why a node is not switched off; empty if it may be. Its state in Slurm is `None` for an unknown node."""
    if unknown(wanted, node):
        return unknown(wanted, node)
    if node in wanted["always_on"]:
        return "the cluster file keeps it on (power.keep)"
    if state is None:
        return "slurmctld does not know it"
    spared = sorted(state.flags & SPARED)
    return "left on, because it is %s" % state.with_reason if spared else ""


def note(directory: str, word: str, node: str, reason: str) -> None:
    """Log what was done, and keep the reason of a failure, a file each, until the node is switched again."""
    path = os.path.join(directory, node)
    try:
        if reason:
            with open(path, "w", encoding="utf-8") as file:
                file.write("%s: %s\n" % (word, " ".join(reason.split())))
        elif os.path.exists(path):
            os.unlink(path)
    except OSError as error:
        log_failure("%s: %s" % (path, error.strerror))
    if reason:
        log_failure("%s %s: %s" % (word, node, reason))
    else:
        syslog.syslog(syslog.LOG_INFO, "%s %s: done" % (word, node))
