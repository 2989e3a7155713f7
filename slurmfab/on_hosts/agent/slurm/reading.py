"""What Slurm's commands say, in formats of 22.05 to 26.05, on a controller; parsed by `core.status.snapshot`."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Sequence

from slurmfab.on_hosts.agent.accounting import user_limits
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

JOB_FIELDS = (
    "JobArrayID", "JobID", "UserName", "Partition", "State", "Reason", "NumNodes", "NumCPUs", "NumTasks", "TimeUsed",
    "TimeLimit", "NodeList", "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task", "Account",
    "Name",
)  # fmt: skip
"""Fields of a job, as named by squeue(1), --Format."""

PARTS = ("nodes", "partitions", "jobs")  # the parts of the answer
LOST = "lost"  # a further part: jobs that cannot be running, as sentences
ENDED = "ended"  # a further part: jobs that ended more than a minute ago and still hold nodes
OPEN = "open"  # a further part: records of jobs that slurmctld does not know
LIMITS = "limits"  # a further part, which is large: all accounts, users and QOS with their limits and use

SLURM_TIMEOUT = 60.0
JOBS_PER_COMMAND = 1000  # highest number of jobs that one command names


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Run Slurm's commands and return what they say.

    `request`: `parts`: some of `PARTS`, `LIMITS`, `LOST`, `ENDED` and `OPEN`, all of `PARTS` if missing. `seconds`:
    time limit of a part; `SLURM_TIMEOUT` if missing. `numbers`: ids of further jobs, also of ended ones, which
    slurmctld knows for MinJobAge. `user`: the user whose limits are read. Returns `ping`: the output of `scontrol
    ping`; `nodes`, `partitions` and `limits`: scontrol's output; `jobs`: of each job, the values of `JOB_FIELDS`;
    `lost` and `open`: rows of the jobs that a crash has lost; `ended`: rows of those that have ended and still hold
    nodes. If no slurmctld answers, the parts are missing and `trouble` has the last error. `named`: the same of the
    jobs of `numbers` that slurmctld knows. `associations` and `qos`: sacctmgr's output for the user, if slurmdbd
    answers; with partitions also `usage`, as `qos_usage.read` returns it.
    """
    answer: Dict[str, Any] = {"ping": "", "trouble": ""}
    try:
        # Without an answering slurmctld each of the other commands would take half a minute to fail.
        done = context.run(commands.PING, seconds=SLURM_TIMEOUT)
        answer["ping"] = done.stdout.decode(errors="replace")
        if not commands.any_answers(answer["ping"]):
            answer["trouble"] = done.stderr.decode(errors="replace").strip()
            return answer
        for part in request.get("parts", PARTS):
            if part == OPEN:
                answer.update(open_jobs(context))
                continue
            answer[part] = read_part(part, context, request.get("seconds", SLURM_TIMEOUT))
        if request.get("numbers"):
            answer["named"] = named_jobs(context, request["numbers"])
        if request.get("user"):
            answer.update(user_limits.read(request["user"], context))
        if "associations" in answer and "partitions" in answer:
            accounts = user_limits.accounts_in(answer["associations"])
            answer["usage"] = user_limits.read_qos_usage(request["user"], accounts, answer["partitions"], context)
    except ResourceFailed as error:
        answer["trouble"] = str(error)
    return answer


def open_jobs(context: Context) -> Dict[str, Any]:
    """The records of jobs that slurmctld does not know as `open`; nothing while slurmdbd does not answer."""
    from slurmfab.on_hosts.agent.nodes import lost_jobs  # only `status` asks

    try:
        return {OPEN: [list(map(str, one)) for one in lost_jobs.runaway(context)]}
    except ResourceFailed:
        return {}


def read_part(part: str, context: Context, seconds: float) -> Any:
    """One of `PARTS`, or `LIMITS`, as `read` returns it. Raises ResourceFailed if slurmctld does not answer."""
    if part == "jobs":
        return commands.jobs(JOB_FIELDS).ask(context, seconds)
    if part == LOST:
        from slurmfab.on_hosts.agent.nodes import lost_jobs  # only `status` asks

        return [[one.job.id, one.job.user, one.job.node_list, one.name, one.why] for one in lost_jobs.by_slurm(context)]
    if part == ENDED:
        from slurmfab.on_hosts.agent.nodes import ended_jobs  # only `status` asks

        shown = context.must(commands.COMPLETING_JOBS, seconds=seconds, env=commands.IN_SECONDS)
        return [[one.id, one.user, one.node_list, str(int(one.at))] for one in ended_jobs.late(shown, time.time())]
    if part == LIMITS:
        return context.must(commands.SHOW_ASSOCIATIONS, seconds=seconds)
    if part == "nodes":
        from slurmfab.on_hosts.agent.nodes.states import shown_nodes

        return shown_nodes(context, seconds)
    return context.must(commands.SHOW_PARTITIONS, seconds=seconds)


def named_jobs(context: Context, numbers: Sequence[str]) -> List[List[str]]:
    """The values of `JOB_FIELDS` of jobs, also of ended ones; jobs that slurmctld no longer knows are missing."""
    found = []
    for first in range(0, len(numbers), JOBS_PER_COMMAND):
        some = ",".join(commands.job_ids(numbers[first : first + JOBS_PER_COMMAND]))
        table = commands.jobs(JOB_FIELDS, "--states=all", "--jobs=" + some)
        # squeue fails for a single unknown job, but not for unknown jobs among known ones.
        done = context.run(table.argv, seconds=SLURM_TIMEOUT, env=table.env)
        found += table.rows(done.stdout.decode(errors="replace"))
    return found
