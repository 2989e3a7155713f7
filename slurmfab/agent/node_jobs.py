"""Jobs that have nodes, or ask for them by name: told as they are, and ended where that is wanted."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Dict, List, Mapping, Tuple

from slurmfab.agent.node_states import node_states, our_reason, update
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

FIELDS = ("id", "user", "state", "wants", "name")
FORMAT = "%i|%u|%T|%n|%j"
"""squeue(1): the name is last, since it may hold the separator."""

PATIENCE_SECONDS = 20.0
"""After how long nodes that do not answer are set DOWN, which ends their jobs (scontrol(1), State=DOWN)."""

END_SECONDS = 180.0
"""How long cancelled jobs may take until nothing of them is left: KillWait, and an epilog."""

POLL_SECONDS = 0.5


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """What hangs on nodes by name.

    Returns:
        `pending`: pending jobs that ask for nodes by name, each with `FIELDS`; `reservations`: their nodes, by name.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    waiting = [job for job in jobs(context) if job["state"] == "PENDING" and job["wants"] not in ("", "(null)")]
    return {"pending": waiting, "reservations": reservations(context)}


def jobs(context: Context) -> List[Dict[str, str]]:
    """All jobs that have not ended, each with `FIELDS`."""
    shown = context.must(["squeue", "-h", "-a", "-o", FORMAT], env={"SLURM_BITSTR_LEN": "0"})
    rows = (line.split("|", len(FIELDS) - 1) for line in shown.splitlines() if line.strip())
    return [dict(zip(FIELDS, (field.strip() for field in row))) for row in rows]  # noqa: B905 - zip(strict=) is 3.10's


def reservations(context: Context) -> Dict[str, str]:
    """The nodes of each reservation, as a hostlist."""
    found = {}
    for line in context.must(["scontrol", "--oneliner", "show", "reservation"]).splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if fields.get("Nodes", "(null)") != "(null)":
            found[fields.get("ReservationName", "")] = fields["Nodes"]
    return found


class JobsEnded(Resource):
    """Jobs that are no more.

    Args:
        ids: as squeue shows them.
        nodes: those that they are ended for.
        stamp: who and when, for nodes that have to be set DOWN because they do not answer.
    """

    kind: ClassVar[str] = "jobs-ended"
    ids: Tuple[str, ...]
    nodes: Tuple[str, ...]
    stamp: str

    def name(self) -> str:
        """Their ids."""
        return ",".join(self.ids)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of them left."""
        return dict.fromkeys(self.ids)

    def actual(self, context: Context) -> State:
        """The state of those that are left."""
        wanted = set(self.ids)
        return {job["id"]: job["state"] for job in jobs(context) if job["id"] in wanted}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Cancel them, and wait until nothing of them is left.

        Raises:
            ResourceFailed: some do not end.
        """
        context.run(["scancel", *sorted(differing)])
        begun = time.monotonic()
        are_down = False
        while True:
            left = self.actual(context)
            seconds = time.monotonic() - begun
            if not left:
                return
            if seconds > END_SECONDS:
                states = ", ".join("%s (%s)" % one for one in sorted(left.items()))
                raise ResourceFailed("not ended within %.0f s: %s" % (END_SECONDS, states))
            if seconds > PATIENCE_SECONDS and not are_down:
                are_down = True
                silent = [node for node, state in node_states(context, self.nodes).items() if not state.answers]
                if silent:
                    update(context, silent, "State=DOWN", "Reason=" + our_reason("it leaves the cluster", self.stamp))
            time.sleep(POLL_SECONDS)
