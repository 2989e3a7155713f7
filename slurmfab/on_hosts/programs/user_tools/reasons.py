"""Why jobs wait, in plain words, by Slurm's reasons (squeue(1), JOB REASON CODES): what it means, and what to do.

Each of Slurm's limits has a reason of its own, such as `QOSMaxGRESPerUser` or `AssocGrpCPUMinutesLimit`. Their names
are made of a few parts, and so are the sentences.
"""

from __future__ import annotations

import re
from typing import Dict, Match, Optional, Tuple

ASK = "ask your administrators"
ALONE = "If none of them runs, it asks for too much by itself: submit it with less."
SHORTER = "scontrol update JobId={job} TimeLimit=HH:MM:SS"

REASONS: Dict[str, str] = {
    "None": "Slurm has not looked at it yet; wait a moment.",
    "Resources": "It is next in line, and starts as soon as what it asks for is free. Asking for less, or for a "
                 "shorter time, can start it earlier.",
    "Priority": "Jobs with a higher priority come first. A shorter time limit can let it start in a gap: " + SHORTER,
    "Dependency": "It waits for another job, as --dependency says.",
    "DependencyNeverSatisfied": "The job that it depends on did not end as --dependency asks, so it never starts: "
                                "scancel {job}, and submit it again without that.",
    "BeginTime": "It starts at the time that --begin says, or Slurm tries it again after a short pause.",
    "JobHeldUser": "You hold it (--hold). To let it go: scontrol release {job}",
    "JobHeldAdmin": "An administrator holds it, or Slurm does after it failed to start; " + ASK + ".",
    "JobHoldMaxRequeue": "It was started and put back too often, so Slurm holds it. See what its output says, then: "
                         "scontrol release {job}",
    "JobArrayTaskLimit": "As many tasks of its array run as you allow with % in --array.",
    "JobLaunchFailure": "It could not be started on its node. See whether its directory and its output file can be "
                        "written there; then " + ASK + ".",
    "Licenses": "All licences that it asks for (--licenses) are in use; it starts when other jobs give them back.",
    "PartitionDown": "Its partition is down: jobs wait until an administrator opens it again. Another partition may "
                     "take it: scontrol update JobId={job} Partition=NAME",
    "PartitionInactive": "Its partition is closed and starts no jobs; choose another: "
                         "scontrol update JobId={job} Partition=NAME",
    "PartitionNodeLimit": "It asks for more or fewer nodes than its partition allows, or for more than are in service. "
                          "See: scontrol show partition",
    "PartitionTimeLimit": "Its time limit is longer than its partition allows. Shorten it: " + SHORTER,
    "PartitionConfig": "What it asks for does not fit its partition. See: scontrol show partition",
    "ReqNodeNotAvail": "A node that it needs is down, drained or reserved. Without --nodelist, other nodes can take "
                       "it; else wait, or " + ASK + ".",
    "NodeDown": "A node that it needs is down; wait, or " + ASK + ".",
    "FrontEndDown": "The host that starts jobs is down; " + ASK + ".",
    "BadConstraints": "No node has what it asks for (--constraint, --gres, CPUs or memory), so it never starts: "
                      "scancel {job}, and ask for what the nodes have (sinfo -o '%N %c %m %G %f').",
    "Reservation": "Its reservation has not begun, or is full. See: scontrol show reservation",
    "ReservationDeleted": "Its reservation is gone: scancel {job}, and submit it without --reservation.",
    "InvalidAccount": "Its account does not exist any more, or you are not in it: "
                      "scontrol update JobId={job} Account=NAME, or " + ASK + ".",
    "AccountNotAllowed": "Its account may not use this partition: choose another account or partition.",
    "AccountingPolicy": "It is beyond a limit of your account or of its QOS; " + ASK + ".",
    "InvalidQOS": "Its QOS does not exist any more, or you may not use it: scontrol update JobId={job} QOS=NAME",
    "QOSNotAllowed": "Its QOS may not be used with this account or partition: scontrol update JobId={job} QOS=NAME",
    "QOSJobLimit": "As many jobs run with its QOS as may run at once; it starts when some of them end.",
    "QOSResourceLimit": "It is beyond a limit of its QOS. It starts when other jobs end, or with less.",
    "QOSTimeLimit": "Its time limit is longer than its QOS allows. Shorten it: " + SHORTER,
    "QOSUsageThreshold": "You have used so much lately that its QOS lets you wait; use another QOS, or wait.",
    "AssociationJobLimit": "As many jobs of your account run as may run at once; it starts when some of them end.",
    "AssociationResourceLimit": "It is beyond a limit of your account. It starts when other jobs end, or with less.",
    "AssociationTimeLimit": "Your account has used up its time; " + ASK + ".",
    "MaxMemPerLimit": "It asks for more memory for each CPU or node than its partition allows: ask for less, or for "
                      "more CPUs.",
    "Cleaning": "It was put back, and its earlier run is being cleaned up; wait a moment.",
    "Prolog": "Its nodes are being prepared for it; it starts in a moment.",
    "SchedDefer": "Slurm puts off starting jobs while many are submitted; wait a moment.",
    "PowerNotAvail": "Too little electric power is free for its nodes; it starts when other jobs end.",
    "PowerReserved": "Electric power is reserved for others; it starts when that ends.",
    "BurstBufferResources": "The burst buffer is full; it starts when other jobs give space back.",
    "BurstBufferStageIn": "Its data is being copied into the burst buffer; it starts after that.",
    "BurstBufferOperation": "The burst buffer has failed for it; " + ASK + ".",
    "Deadline": "It can no longer end before its --deadline: scancel {job}, and submit it with a later one.",
    "FedJobLock": "Another cluster of the federation is deciding about it; wait a moment.",
    "NonZeroExitCode": "It failed and was put back. See what its output says.",
    "OutOfMemory": "It needed more memory than it asked for, and was put back: submit it with more (--mem).",
    "TimeLimit": "It reached its time limit, and was put back.",
    "SystemFailure": "A fault of Slurm or of a node stopped it; " + ASK + ".",
}  # fmt: skip
"""The sentence for each reason; {job} stands for the job's ID."""

TEXTS: Tuple[Tuple[str, str], ...] = (
    (r"ReqNodeNotAvail, *Reserved for maintenance", "A maintenance is planned, and it could not end before that "
     "begins. It starts after the maintenance; a shorter time limit can start it before: " + SHORTER),
    (r"ReqNodeNotAvail, *May be reserved for other job", "The nodes that it needs are kept for a job with a higher "
     "priority. A shorter time limit can let it start in the gap: " + SHORTER),
    (r"ReqNodeNotAvail, *UnavailableNodes: *(?P<rest>\S.*)", "These nodes are down, drained or reserved: {rest}. Wait, "
     "let other nodes take it (without --nodelist), or " + ASK + "."),
    (r"Nodes required for job are DOWN, DRAINED or reserved", "The nodes that fit are down, drained, or reserved for "
     "partitions with a higher priority. See: sinfo -R; wait, or " + ASK + "."),
    (r"launch failed requeued held", REASONS["JobLaunchFailure"] + " Then: scontrol release {job}"),
    (r"job requeued in held state", "It was put back and is held. To let it go: scontrol release {job}"),
    (r"user env retrieval failed requeued held", "Your login environment could not be read on its node; look at your "
     "shell's files, then: scontrol release {job}"),
    (r"Job's (?:QOS|account) not permitted to use this partition", "Its QOS or its account may not use this partition: "
     "choose another partition, account or QOS."),
)  # fmt: skip
"""Sentences for reasons that Slurm tells in words of its own, by how these begin."""

_LIMIT = re.compile(
    r"(?P<of>QOS|Assoc)?(?P<kind>Grp|Max|Min)"
    r"(?P<what>CPU|Cpu|GRES|Memory|Mem|Node|SubmitJob|Job|WallDuration|Wall|License|Billing|BB|Energy|Unknown)s?"
    r"(?P<time>RunMinutes|Minutes)?(?:Per(?P<per>Job|Node|User|Account))?(?:Limit|NotSatisfied)?"
)

_NOUNS = {
    "cpu": "CPUs", "gres": "GPUs or other generic resources", "mem": "memory", "memory": "memory", "node": "nodes",
    "job": "running jobs", "submitjob": "jobs in the queue", "wall": "run time", "wallduration": "run time",
    "license": "licences", "billing": "billing units", "bb": "burst buffer", "energy": "energy",
    "unknown": "resources",
}  # fmt: skip
_QOS = "the QOS of the job or of its partition"
_OF = {"QOS": _QOS, "Assoc": "your account (or your own limit in it)", None: "your account"}
_BY = {"QOS": _QOS, "Assoc": "your own limit in its account", None: "your account"}  # of limits of one user or job


def explained(reason: str, job: str = "JOBID") -> str:
    """What squeue's reason means, and what the user of that job can do; empty if unknown."""
    for pattern, sentence in TEXTS:
        found = re.match(pattern, reason)
        if found:
            return filled(sentence, job, found.groupdict().get("rest", ""))
    word = re.split(r"[,(:]", reason, maxsplit=1)[0].strip()
    limit = _LIMIT.fullmatch(word)
    return filled(REASONS.get(word) or (of_limit(limit) if limit else ""), job)


def filled(sentence: str, job: str, rest: str = "") -> str:
    """A sentence with what its gaps stand for; of a job that is an array, commands name the array."""
    return sentence.replace("{job}", job.partition("_")[0]).replace("{rest}", rest)


def of_limit(limit: Match[str]) -> str:
    """The sentence about one of Slurm's limits, from the parts of its name."""
    noun, of, per, time = _NOUNS[limit["what"].lower()], _OF[limit["of"]], limit["per"], limit["time"]
    if limit["kind"] != "Grp":
        of = _BY[limit["of"]]
    if limit["kind"] == "Min":
        return "It asks for less than %s wants (%s): submit it with more." % (of, noun)
    if limit["kind"] == "Grp":
        return of_all(noun, of, time, is_wall=limit["what"] == "Wall")
    if limit["what"] == "WallDuration":
        return "Its time limit is longer than %s allows. Shorten it: %s" % (of, SHORTER)
    if time:
        return ("It asks for more %s for its time limit than one job may have, by %s. "
                "Shorten it, or ask for less: %s" % (noun, of, SHORTER))  # fmt: skip
    if per in ("Job", "Node"):
        where = "on one node" if per == "Node" else "in one job"
        return "It asks for more %s %s than %s allows, so it never starts: submit it with less." % (noun, where, of)
    return of_one(noun, of, per)


def of_all(noun: str, of: str, time: Optional[str], *, is_wall: bool) -> str:
    """The sentence about a limit of all jobs of an account or QOS together.

    Args:
        noun: what is limited.
        of: whose limit it is.
        time: `Minutes` for use over time, `RunMinutes` for what running jobs may still use.
        is_wall: whether run time is limited.
    """
    if time == "RunMinutes":
        return ("Running jobs may still use as many %s, for as long, as %s allows. It starts when some of them end; "
                "a shorter time limit helps: %s" % (noun, of, SHORTER))  # fmt: skip
    if time or is_wall:
        what = "run time" if is_wall else "time on %s" % noun
        return "The %s of %s is used up. Use another account or QOS, or %s." % (what, of, ASK)
    return ("With it, all jobs together would use more %s than %s allows; it starts when some of them end. %s"
            % (noun, of, ALONE))  # fmt: skip


def of_one(noun: str, of: str, per: Optional[str]) -> str:
    """The sentence about a limit of one user or account; the arguments are those of `of_all`, and whose jobs count."""
    whose = "jobs of your account" if per == "Account" else "jobs of yours"
    return ("With it, %s would have more %s than allowed at once, by %s; it starts when %s end. %s"
            % ("your account" if per == "Account" else "you", noun, of, whose, ALONE))  # fmt: skip
