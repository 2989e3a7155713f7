"""Slurm's files at every slurmd, carried there by slurmctld: asked of slurmctld alone, whatever the number of nodes.

Two things tell that a slurmd has other files than slurmctld. From Slurm 23.11 on new files make a new slurmd, so one
that is older than the files has not got them. And with each registration a slurmd says the hash of its slurm.conf, of
which slurmctld complains in its log when it is another than its own (proc_req.c; 22.05 to 26.05 in the same words).
"""

from __future__ import annotations

import os
import re
import time
from typing import ClassVar, Dict, List, Optional, Tuple

from slurmfab.agent.node_states import FEW, SHOW, named, pauses, records, state_of
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import changed_at, is_active

EVERYWHERE = "with every slurmd that answers"
OTHER = "another slurm.conf than slurmctld"
"""Why a node is late that was not out of reach."""

CLOCKS = 5.0
"""Seconds by which the clock of a node may be behind the controller's."""

CARRY_SECONDS = 10.0
"""How long slurmctld may take to carry files by itself, before it is told to do it once more."""

AGAIN_SECONDS = 45.0
"""How long it may take then: one that does not answer is given up after MessageTimeout, which is 30 s."""

LOG_BYTES = 1 << 20
"""How much of the end of slurmctld's log is looked at."""

_FRESH = re.compile(r"slurmctld version \S+ started|Processing Reconfiguration Request|Relinquishing control")
_OTHER = re.compile(r"Node (\S+) appears to have a different slurm\.conf")


class CarriedFiles(Resource):
    """Every slurmd that answers has the files that slurmctld has; one that does not answer fetches them when it starts.

    Args:
        nodes: NodeNames.
        watches: absolute paths of the files on the controller.
        log: slurmctld's log; empty where it has none.
        renews: whether new files make a new slurmd (from Slurm 23.11).
    """

    kind: ClassVar[str] = "carried-files"
    nodes: Tuple[str, ...]
    watches: Tuple[str, ...]
    log: str
    renews: bool

    def name(self) -> str:
        """The nodes."""
        return named(self.nodes)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """All of them."""
        return {"files": EVERYWHERE}

    def actual(self, context: Context) -> State:
        """Who has not got them; nothing while slurmctld does not answer, or is not there yet."""
        if context.dry_run and context.touched & set(self.watches):
            return {"files": "before their change"}
        try:
            late = self.late(context) if is_active(context, "slurmctld") else None
        except ResourceFailed:
            late = None
        if late is None:
            return {}
        return {"files": "not with %s" % told(late) if late else EVERYWHERE}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """See them come, and have slurmctld carry them once more where they do not.

        Raises:
            ResourceFailed: some slurmd does not take them; the text names each and says what to try.
        """
        late = self.wait(context, CARRY_SECONDS) if self.renews else self.late(context)
        if late:
            # Up to 23.02 a restarted slurmctld carries nothing until it is told to reconfigure.
            context.must(["scontrol", "reconfigure"])
            late = self.wait(context, AGAIN_SECONDS)
        if late:
            again = " --hosts %s" % ",".join(sorted(late)) if len(late) <= FEW else ""
            words = "slurmctld has the new files, and these nodes have not taken them: %s. Try: fab deploy%s"
            raise ResourceFailed(words % (told(late), again))

    def wait(self, context: Context, seconds: float) -> Dict[str, str]:
        """Who has not got them after some time, and why."""
        deadline, rests = time.monotonic() + seconds, pauses()
        while True:
            late = self.late(context)
            # Who has read another slurm.conf has done so for good.
            if set(late.values()) <= {OTHER} or time.monotonic() > deadline:
                return late
            time.sleep(next(rests))

    def late(self, context: Context) -> Dict[str, str]:
        """The nodes that answer and have not got the files, each with what tells that.

        Raises:
            ResourceFailed: slurmctld does not answer.
        """
        wanted = set(self.nodes)
        changed = max([changed_at(context.path(path)) for path in self.watches] or [0.0])
        shown = records(context.must(SHOW, seconds=60))
        # After it, since slurmctld complains of a registration before it shows that.
        others = complained_of(tail(context.path(self.log))) if self.log else {}
        late = {}
        for fields in shown:
            node, state = fields["NodeName"], state_of(fields)
            if node in wanted and state.answers and "DOWN" not in state.flags:
                reason = self.reason(seconds_of(fields.get("SlurmdStartTime", "")), changed, others.get(node, 0.0))
                if reason:
                    late[node] = reason
        return late

    def reason(self, started: Optional[float], changed: float, complained: float) -> str:
        """What tells that a node has other files; empty for nothing.

        Args:
            started: when its slurmd did, `None` where it has not registered with this slurmctld yet.
            changed: when the files did.
            complained: when slurmctld has last complained of its slurm.conf, 0 for never.
        """
        if started is None:
            return "not registered yet"
        if self.renews and started + CLOCKS < int(changed):
            return "slurmd is older than the files"
        return OTHER if started <= complained else ""


def seconds_of(stamp: str) -> Optional[float]:
    """A time as Slurm's commands print it, in seconds since 1970; `None` for none."""
    try:
        return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def complained_of(log: str) -> Dict[str, float]:
    """When slurmctld has last complained of nodes with another slurm.conf, since it has last read its own."""
    found: Dict[str, float] = {}
    for line in log.splitlines():
        if _FRESH.search(line):
            found.clear()
        match = _OTHER.search(line)
        if match:
            # A slurmd that has started since has read another; with no such time in the log, nobody knows.
            found[match[1]] = seconds_of(line[1:20]) or float("inf")
    return found


def tail(path: str) -> str:
    """The end of a log; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - LOG_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def told(late: Dict[str, str]) -> str:
    """Nodes with what is wrong, each reason once."""
    by_reason: Dict[str, List[str]] = {}
    for node in sorted(late):
        by_reason.setdefault(late[node], []).append(node)
    return "; ".join("%s (%s)" % (named(tuple(nodes)), reason) for reason, nodes in by_reason.items())
