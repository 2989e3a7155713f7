"""Jobs that use nodes or ask for them by name: read, and cancelled when their nodes leave the cluster."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Dict, List, Mapping, Tuple

from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.nodes.states import node_states, our_reason, update

JOB_KEYS = ("id", "user", "state", "wants", "name")
SQUEUE_FORMAT = "%i|%u|%T|%n|%j"
"""For squeue(1); the name comes last, since it may hold the separator."""

DOWN_AFTER_SECONDS = 20.0
"""Time after which nodes that do not answer are set DOWN, which ends their jobs (scontrol(1), State=DOWN)."""

END_SECONDS = 180.0
"""Time that cancelled jobs get to end completely: KillWait, and an epilog."""

POLL_SECONDS = 0.5


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """Pending jobs and reservations that name nodes.

    Args:
        request: nothing of it is used.
        context: runs the programs.

    Returns:
        `pending`: pending jobs that ask for nodes by name, each with `JOB_KEYS`. `reservations`: their nodes as a
        hostlist, by the reservation's name.

    Raises:
        ResourceFailed: slurmctld does not answer.
    """
    waiting = [job for job in jobs(context) if job["state"] == "PENDING" and job["wants"] not in ("", "(null)")]
    return {"pending": waiting, "reservations": reservations(context)}


def jobs(context: Context) -> List[Dict[str, str]]:
    """All jobs that have not ended, each a dict with `JOB_KEYS`."""
    shown = context.must(["squeue", "-h", "-a", "-o", SQUEUE_FORMAT], env={"SLURM_BITSTR_LEN": "0"})
    rows = (line.split("|", len(JOB_KEYS) - 1) for line in shown.splitlines() if line.strip())
    return [dict(zip(JOB_KEYS, (field.strip() for field in row))) for row in rows]  # noqa: B905 - zip(strict=) is 3.10's


def reservations(context: Context) -> Dict[str, str]:
    """The nodes of each reservation as a hostlist, by the reservation's name."""
    found = {}
    for line in context.must(["scontrol", "--oneliner", "show", "reservation"]).splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if fields.get("Nodes", "(null)") != "(null)":
            found[fields.get("ReservationName", "")] = fields["Nodes"]
    return found


class JobsEnded(Resource):
    """Jobs that are cancelled and have ended.

    Args:
        ids: as squeue prints them.
        nodes: the nodes that are to be free of jobs.
        stamp: who and when, for the reason of nodes that have to be set DOWN because they do not answer.
    """

    kind: ClassVar[str] = "jobs-ended"
    deadline: ClassVar[float] = 600.0
    ids: Tuple[str, ...]
    nodes: Tuple[str, ...]
    stamp: str

    def name(self) -> str:
        """The job ids."""
        return ",".join(self.ids)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of the jobs is left."""
        return dict.fromkeys(self.ids)

    def actual(self, context: Context) -> State:
        """The state of each job that is left."""
        wanted = set(self.ids)
        return {job["id"]: job["state"] for job in jobs(context) if job["id"] in wanted}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Cancel the jobs, and wait until all have ended.

        Raises:
            ResourceFailed: some do not end in time.
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
            if seconds > DOWN_AFTER_SECONDS and not are_down:
                are_down = True
                silent = [node for node, state in node_states(context, self.nodes).items() if not state.answers]
                if silent:
                    update(context, silent, "State=DOWN", "Reason=" + our_reason("it leaves the cluster", self.stamp))
            time.sleep(POLL_SECONDS)
