"""Jobs that use nodes or ask for them by name: read, and cancelled when their nodes leave the cluster."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Dict, List, Mapping, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.nodes.states import node_states, our_reason, update

JOB_FIELDS = {"id": "JobArrayID", "user": "UserName", "state": "State", "wants": "ReqNodes"}
"""What is read of a job, and squeue's names for it."""

DOWN_AFTER_SECONDS = 20.0
"""Time after which nodes that do not answer are set DOWN, which ends their jobs (scontrol(1), State=DOWN)."""

END_SECONDS = 180.0  # time that cancelled jobs get to end completely: KillWait, and an epilog

POLL_SECONDS = 0.5


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """Pending jobs and reservations that name nodes.

    Returns `pending`: pending jobs that ask for nodes by name, each with the keys of `JOB_FIELDS`. `reservations`:
    their nodes as a hostlist, by the reservation's name. Raises ResourceFailed if slurmctld does not answer.
    """
    waiting = [job for job in jobs(context) if job["state"] == "PENDING" and job["wants"] not in ("", "(null)")]
    return {"pending": waiting, "reservations": commands.reserved_nodes(context.must(commands.show_reservations()))}


def jobs(context: Context) -> List[Dict[str, str]]:
    """All jobs that have not ended, each a dict with the keys of `JOB_FIELDS`."""
    rows = commands.jobs(tuple(JOB_FIELDS.values())).ask(context)
    found = [dict(zip(JOB_FIELDS, row)) for row in rows]  # noqa: B905 - zip(strict=) is 3.10's
    # A user may have separated the nodes by white space: Slurm takes it for a comma (hostlist.c).
    return [{**job, "wants": ",".join(job["wants"].replace(",", " ").split())} for job in found]


class JobsEnded(Resource):
    """Jobs that are cancelled and have ended."""

    kind: ClassVar[str] = "jobs-ended"
    named_by: ClassVar[str] = "ids"
    deadline: ClassVar[float] = 600.0
    ids: Tuple[str, ...]  # as squeue prints them
    nodes: Tuple[str, ...]  # the nodes that are to be free of jobs
    stamp: str  # who and when, for the reason of nodes that have to be set DOWN because they do not answer
    abandoned: bool = False  # whether nodes are set DOWN as well that answer, but do not end their jobs

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None of the jobs is left."""
        return dict.fromkeys(self.ids)

    def actual(self, context: Context) -> State:
        """The state of each job that is left."""
        wanted = set(self.ids)
        return {job["id"]: job["state"] for job in jobs(context) if job["id"] in wanted}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Cancel the jobs, and wait until all have ended. Raises ResourceFailed if some do not end in time."""
        context.run(commands.cancel(sorted(differing)))
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
                states_now = node_states(context, self.nodes)
                silent = [node for node in states_now if self.abandoned or not states_now[node].answers]
                if silent:
                    update(context, silent, "State=DOWN", "Reason=" + our_reason("it leaves the cluster", self.stamp))
            time.sleep(POLL_SECONDS)
