"""Output of Slurm's commands about the cluster, read on a controller and returned as text; changes nothing.

`slurmfab.status.snapshot` parses the texts. Only output formats are used that are the same from Slurm 22.05 to 26.05.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence

from slurmfab.agent.accounting import user_limits
from slurmfab.agent.core.resource import Context, ResourceFailed
from slurmfab.agent.nodes.states import SHOW_NODES

JOB_FIELDS = (
    "JobArrayID", "JobID", "UserName", "Partition", "State", "Reason", "NumNodes", "NumCPUs", "NumTasks", "TimeUsed",
    "TimeLimit", "NodeList", "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task", "Name",
)  # fmt: skip
"""Fields of a job, as named by squeue(1), --Format; the name comes last, since it may hold the separator."""

SLURM_COMMANDS = {
    "nodes": SHOW_NODES,
    "partitions": ("scontrol", "--all", "--oneliner", "show", "partition"),
    "jobs": ("squeue", "--all", "--noheader", "--Format=" + ",".join(field + ":|" for field in JOB_FIELDS)),
}
"""The command for each part of the answer."""

PING = ("scontrol", "ping")
SLURM_TIMEOUT = 60.0
JOBS_PER_COMMAND = 1000
"""Highest number of jobs that one command names."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, str]:
    """Run Slurm's commands and return their output.

    Args:
        request: `parts`: keys of `SLURM_COMMANDS`, all if missing. `numbers`: ids of further jobs, also of ended ones,
            which slurmctld knows for MinJobAge. `user`: the user whose limits are read.
        context: runs the programs.

    Returns:
        `ping`: the output of `scontrol ping`; and the text of each part. If no slurmctld answers, the parts are missing
        and `trouble` has the last error. `named`: the jobs of `numbers` that slurmctld knows. `associations` and
        `qos`: of the user, if slurmdbd answers.
    """
    answer = {"ping": "", "trouble": ""}
    try:
        # Without an answering slurmctld each of the other commands would take half a minute to fail.
        done = context.run(PING, seconds=SLURM_TIMEOUT)
        answer["ping"] = done.stdout.decode(errors="replace")
        if " is UP" not in answer["ping"]:
            answer["trouble"] = done.stderr.decode(errors="replace").strip()
            return answer
        for part in request.get("parts", SLURM_COMMANDS):
            # Without this squeue truncates the task lists of large arrays (squeue(1), SLURM_BITSTR_LEN).
            answer[part] = context.must(SLURM_COMMANDS[part], seconds=SLURM_TIMEOUT, env={"SLURM_BITSTR_LEN": "0"})
        if request.get("numbers"):
            answer["named"] = named_jobs(context, request["numbers"])
        if request.get("user"):
            answer.update(user_limits.read(request["user"], context))
    except ResourceFailed as error:
        answer["trouble"] = str(error)
    return answer


def named_jobs(context: Context, numbers: Sequence[str]) -> str:
    """squeue's lines about jobs, also about ended ones; jobs that slurmctld no longer knows are missing."""
    texts = []
    for first in range(0, len(numbers), JOBS_PER_COMMAND):
        some = ",".join(numbers[first : first + JOBS_PER_COMMAND])
        # squeue fails for a single unknown job, but not for unknown jobs among known ones.
        texts.append(
            context.run([*SLURM_COMMANDS["jobs"], "--states=all", "--jobs=" + some], seconds=SLURM_TIMEOUT).stdout
        )
    return b"".join(texts).decode(errors="replace")
