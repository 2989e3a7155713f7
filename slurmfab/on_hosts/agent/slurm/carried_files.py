"""Configless Slurm, controller's side: whether every slurmd has the files that slurmctld hands out.

Only slurmctld is asked, whatever the number of nodes. Two things show that a slurmd has other files than slurmctld.
From Slurm 23.11 on, new files start a new slurmd process, so a slurmd that is older than the files does not have them.
And each slurmd registers with the hash of its slurm.conf: slurmctld logs when that differs from its own (proc_req.c;
the same text from 22.05 to 26.05).
"""

from __future__ import annotations

import re
import time
from typing import AbstractSet, Callable, ClassVar, Dict, List, Optional, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import read_end
from slurmfab.on_hosts.agent.nodes.states import NAMED_NODES, poll_intervals, records, short_name, shown_nodes, state_of
from slurmfab.on_hosts.agent.services.service import changed_at, is_active

EVERYWHERE = "loaded by every slurmd that answers"
OTHER = "its slurm.conf differs from slurmctld's"
"""The reason for a node that has read another slurm.conf; waiting does not help there."""

CLOCK_TOLERANCE = 5.0  # seconds by which a node's clock may be behind the controller's
CARRY_SECONDS = 10.0  # time that slurmctld gets to send the files by itself, before it is told to reconfigure

AGAIN_SECONDS = 45.0
"""Time that it gets after that. slurmctld gives up on a node without an answer after MessageTimeout (10 to 30 s)."""

RECONFIGURES = 2
"""How often slurmctld is told to reconfigure. Up to 23.02 a restarted slurmctld sends no files until then. A node that
registers before it has taken the files is complained of, and the complaint stays in the log until the next time."""

REGISTER_SECONDS = 3.0
"""Time in which a node registers again after slurmctld was told to reconfigure."""

START_SECONDS = 10.0
"""Time in which slurmctld shows that a slurmd was started, on a busy machine; spent in vain where its files differ."""

LOG_BYTES = 1 << 20  # size of the part at the end of slurmctld's log that is read

_FRESH = re.compile(r"slurmctld version \S+ started|Processing Reconfiguration Request")
"""Lines after which slurmctld complains anew. “Relinquishing control” is none of them: the old process may log it after
the first complaints of the new one (controller.c, slurm-24.11)."""

_OTHER = re.compile(r"Node (\S+) appears to have a different slurm\.conf")


class CarriedFiles(Resource):
    """Every slurmd that answers has slurmctld's files; one that does not answer fetches them when it starts."""

    kind: ClassVar[str] = "carried-files"
    wanted_state: ClassVar[State] = {"files": EVERYWHERE}
    nodes: Tuple[str, ...]  # NodeNames
    watches: Tuple[str, ...]  # absolute paths of the files on the controller
    log: str  # path of slurmctld's log; empty where it has none
    renews: bool  # whether new files start a new slurmd process (from Slurm 23.11)

    def name(self) -> str:
        """The nodes."""
        return short_name(self.nodes)

    def actual(self, context: Context) -> State:
        """The nodes without the files; empty while slurmctld does not answer or is not installed yet."""
        if context.dry_run and context.touched & set(self.watches):
            return {"files": "before their change"}
        try:
            # Until a slurmd that has just started has registered, slurmctld shows the start of the former one, which
            # its complaints were about.
            is_up = is_active(context, "slurmctld")
            late = self.poll(context, START_SECONDS, lambda reasons: reasons != {OTHER}) if is_up else None
        except ResourceFailed:
            late = None
        if late is None:
            return {}
        return {"files": "not loaded by %s" % format_outdated(late) if late else EVERYWHERE}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """See that the files reach every node, twice if one registers with its former files after the others.

        Raises ResourceFailed if some slurmd does not load them; the text names each node and says what to try.
        """
        for _ in range(2):
            self.carry(context)
            if self.actual(context).get("files", EVERYWHERE) == EVERYWHERE:
                return

    def carry(self, context: Context) -> None:
        """Wait for the files to reach every node; where they do not, tell slurmctld to reconfigure and wait again."""
        late = self.poll(context, CARRY_SECONDS) if self.renews else self.late(context)
        for _ in range(RECONFIGURES):
            if not late:
                return
            context.must(commands.RECONFIGURE)
            # It forgets its complaints then, and repeats them when nodes register again.
            late = self.poll(context, AGAIN_SECONDS) or self.poll(context, REGISTER_SECONDS, bool)
        if late:
            again = " --hosts %s" % ",".join(sorted(late)) if len(late) <= NAMED_NODES else ""
            text = "slurmctld has the new files, but these nodes have not loaded them: %s. Try: %s deploy%s"
            raise ResourceFailed(text % (format_outdated(late), FAB, again))

    def poll(
        self, context: Context, seconds: float, is_end: Callable[[AbstractSet[str]], bool] = {OTHER}.issuperset
    ) -> Dict[str, str]:
        """The nodes that lack the files, each with the reason, once `is_end` of the reasons, or after so many seconds.

        By default that no node is late any more: a slurmd that has read another slurm.conf does not read it again by
        itself. Raises ResourceFailed if slurmctld does not answer.
        """
        deadline, rests = time.monotonic() + seconds, poll_intervals()
        while True:
            late = self.late(context)
            if is_end({*late.values()}) or time.monotonic() > deadline:
                return late
            time.sleep(next(rests))

    def late(self, context: Context) -> Dict[str, str]:
        """The nodes that answer without having the files, and why; ResourceFailed if slurmctld does not answer."""
        wanted = set(self.nodes)
        changed = max([changed_at(context.path(path)) for path in self.watches] or [0.0])
        shown = records(shown_nodes(context, 60))
        # Read after the nodes were shown: slurmctld logs a wrong hash before it shows the registration.
        others = hash_complaints(tail(context.path(self.log))) if self.log else {}
        late = {}
        for fields in shown:
            node, state = fields["NodeName"], state_of(fields)
            if node in wanted and state.answers and "DOWN" not in state.flags:
                reason = self.reason(commands.moment(fields.get("SlurmdStartTime", "")), changed, others.get(node, 0.0))
                if reason:
                    late[node] = reason
        return late

    def reason(self, started: Optional[float], changed: float, complained: float) -> str:
        """Why a node is taken to have other files; empty if nothing shows that.

        `started`: when its slurmd started, in seconds since 1970; `None` if it has not registered with this slurmctld.
        `changed`: when the files changed. `complained`: when slurmctld last logged a different hash for the node, 0 for
        never.
        """
        if started is None:
            return "not registered yet"
        if self.renews and started + CLOCK_TOLERANCE < int(changed):
            return "slurmd started before the files changed"
        return OTHER if started <= complained else ""


def hash_complaints(log: str) -> Dict[str, float]:
    """When slurmctld, since it read its slurm.conf, last logged that nodes differ: seconds since 1970, by name."""
    found: Dict[str, float] = {}
    for line in log.splitlines():
        if _FRESH.search(line):
            found.clear()
        match = _OTHER.search(line)
        if match:
            # A slurmd that started later has read the file anew. A line without a time counts as later than any start.
            found[match[1]] = commands.moment(line[1:20]) or float("inf")
    return found


def tail(path: str) -> str:
    """The last `LOG_BYTES` of a log; empty if there is no log, or a link of another user in its place."""
    try:
        return (read_end(path, LOG_BYTES) or b"").decode(errors="replace")
    except ResourceFailed:
        return ""


def format_outdated(late: Dict[str, str]) -> str:
    """Nodes grouped by reason: `n1,n2 (not registered yet)`."""
    by_reason: Dict[str, List[str]] = {}
    for node in sorted(late):
        by_reason.setdefault(late[node], []).append(node)
    return "; ".join("%s (%s)" % (short_name(tuple(nodes)), reason) for reason, nodes in by_reason.items())
