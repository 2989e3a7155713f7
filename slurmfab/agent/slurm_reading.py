"""What Slurm says of the cluster: read on a controller, passed on as text, changed nothing.

`slurmfab.status.snapshot` reads the texts. Only forms of output are asked for that are the same from Slurm 22.05 to
26.05.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

from slurmfab.agent import user_limits
from slurmfab.agent.node_states import SHOW
from slurmfab.agent.resource import Context, ResourceFailed

JOB_FIELDS = (
    "JobArrayID", "JobID", "UserName", "Partition", "State", "Reason", "NumNodes", "NumCPUs", "NumTasks", "TimeUsed",
    "TimeLimit", "NodeList", "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task", "Name",
)  # fmt: skip
"""What is asked of jobs, in the words of squeue(1), --Format; the name is last, since it may hold the separator."""

PARTS = {
    "nodes": SHOW,
    "partitions": ("scontrol", "--all", "--oneliner", "show", "partition"),
    "jobs": ("squeue", "--all", "--noheader", "--Format=" + ",".join(field + ":|" for field in JOB_FIELDS)),
}
"""The commands by what they tell."""

PING = ("scontrol", "ping")
SECONDS = 60.0
AT_ONCE = 1000
"""How many jobs one command names."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, str]:
    """What Slurm says.

    Args:
        request: `parts`: which of `PARTS`; all when left out. `numbers`: of jobs to tell of besides, also of those
            that have ended; slurmctld knows of them for MinJobAge. `user`: whose limits to tell.
        context: runs the programs.

    Returns:
        `ping`: what `scontrol ping` printed, and the text of each part. Without a slurmctld that answers there are no
        parts, and `trouble` has the last words that there are. `named`: the jobs of these numbers, as far as they are
        known. `associations` and `qos`: the user's, where slurmdbd answers.
    """
    answer = {"ping": "", "trouble": ""}
    try:
        # One after another would be tried for half a minute each, if nobody answered.
        done = context.run(PING, seconds=SECONDS)
        answer["ping"] = done.stdout.decode(errors="replace")
        if " is UP" not in answer["ping"]:
            answer["trouble"] = done.stderr.decode(errors="replace").strip()
            return answer
        for part in request.get("parts", PARTS):
            # Without this the tasks of large arrays are cut off (squeue(1), SLURM_BITSTR_LEN).
            answer[part] = context.must(PARTS[part], seconds=SECONDS, env={"SLURM_BITSTR_LEN": "0"})
        if request.get("numbers"):
            answer["named"] = named_jobs(context, request["numbers"])
        if request.get("user"):
            answer.update(user_limits.read(request["user"], context))
    except ResourceFailed as error:
        answer["trouble"] = str(error)
    return answer


def named_jobs(context: Context, numbers: Sequence[str]) -> str:
    """What squeue tells of jobs, also of ended ones; nothing of those that slurmctld does not know any more."""
    told = []
    for first in range(0, len(numbers), AT_ONCE):
        some = ",".join(numbers[first : first + AT_ONCE])
        # A single job that is unknown is an error to squeue, one among others is not.
        told.append(context.run([*PARTS["jobs"], "--states=all", "--jobs=" + some], seconds=SECONDS).stdout)
    return b"".join(told).decode(errors="replace")
