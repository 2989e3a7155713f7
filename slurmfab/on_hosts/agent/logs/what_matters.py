"""Which lines of a log matter: errors, changes of state, and those that name a job or a node."""

from __future__ import annotations

import re
from typing import Optional, Sequence, Set

GRAVE = re.compile(r"\b(?:fatal|error|warning|critical|emergency|alert)\b *:", re.IGNORECASE)
"""How Slurm's and munge's lines of these levels begin, behind their time."""

STATES = re.compile(
    r"responding|state set to|reason set to|setting .{0,200}\b(?:DOWN|DRAIN|FAIL)|\bdrain|unexpectedly rebooted"
    r"|returned to service|\bversion \S+ started|shut(?:ting)? ?down|terminat|Running as (?:primary|backup)"
    r"|oom|out of memory|power(?:ing|ed) (?:up|down)|Kill task failed|launch fail|requeue|time ?limit|preempt"
    r"|health ?check|reconfig|rpc_suspend|reservation=|(?:resv_delete|delete_reservation) complete"
    r"|SIGKILL|SIGSEGV|core ?dump",
    re.IGNORECASE,
)
"""Changes of the state of nodes, jobs and daemons."""

HARMLESS = re.compile(r"x11 forwarding shutdown complete|restricted to a subset of cpus", re.IGNORECASE)
"""What looks like the end of a daemon, or like an error, and is none: the end of a job's X11, and a slurmd that was
given some of the CPUs."""

SYSTEMD = re.compile(
    r"\bStarted\b|\bStopped\b|fail|exited|killed|SIGKILL|dumped|timed out|start request|restart job|oom|memory",
    re.IGNORECASE,
)
"""What systemd says about a unit when it starts, ends or fails."""

BY_SYSTEMD = "systemd: "

MUNGE = re.compile(
    r"replay|rewound|expired|invalid|unauthorized|decode|fail|denied|unable|Starting|Exiting|Stopping|key",
    re.IGNORECASE,
)
KERNEL = re.compile(
    r"out of memory|oom[-_]|killed process|NVRM|nvidia.*(?:fail|error)|amdgpu.*(?:error|reset|fault|hang)"
    r"|I/O error|blk_update_request|critical (?:medium|target) error|EXT4-fs (?:error|warning)|EXT4-fs.*remount"
    r"|XFS.*(?:error|shut|corrupt)|BTRFS.*(?:error|critical)|read-only|nfs: server|lustre.*error|ceph.*(?:lost|error)"
    r"|nvme.*(?:timeout|reset|abort)|ata\d.*(?:failed|error|exception)|scsi.*(?:offline|error)"
    r"|blocked for more than|soft lockup|hard lockup|stall|link (?:is )?(?:down|up)|carrier|link becomes"
    r"|\bmce\b|machine check|hardware error|EDAC|\bAER\b|PCIe Bus Error|thermal|throttl|temperature"
    r"|segfault|general protection|\bBUG\b|Oops|kernel panic|mlx\d.*(?:err|health|fail)|bnxt.*err|Linux version",
    re.IGNORECASE,
)
"""Killed for memory; errors of GPUs (Xid), disks, file servers, memory and buses; hung tasks; links; boots."""

DEBUG = re.compile(r"(?:\[[^\]]*\] )?debug\d?:")
ANY_JOB = re.compile(
    r"(?:\bJobIds?=|\bStepId=|\bjob_?id[ :=]+|\bjobs? (?:id )?#?|/job_|^\[(?=\d+[.][a-z\d]+(?:\+\d+)?\]))"
    r"(\d+(?:_\d+)?)",
    re.IGNORECASE,
)
"""A job in a line: `JobId=12`, `StepId=12.0`, `[12.batch]`, `job 12`, and its control group `/job_12/`."""


class Matters:
    """Decides for each line whether it matters: it names a node, or the job by one of its ids.

    Lines that name only other jobs never do; otherwise `all_lines` may.
    """

    def __init__(self, nodes: Sequence[str] = (), jobs: Sequence[str] = (), all_lines: bool = False) -> None:
        self.jobs = frozenset(jobs)
        self.nodes: Optional[re.Pattern[str]] = named(nodes) if nodes else None
        self.all_lines = all_lines

    def __call__(self, source: str, text: str) -> bool:
        """Whether a line, without its time, of a log of `slurmfab.on_hosts.agent.logs.period.SOURCES` matters."""
        if self.jobs:
            jobs = jobs_in(text)
            if jobs:
                return not self.jobs.isdisjoint(jobs) and (self.all_lines or not DEBUG.match(text))
        return self.all_lines or self.is_grave(source, text)

    def is_grave(self, source: str, text: str) -> bool:
        """Whether a line tells of an error or a change of state, or names a node; the arguments are as above."""
        if source == "kernel":
            return bool(KERNEL.search(text))
        if text.startswith(BY_SYSTEMD):
            return bool(SYSTEMD.search(text))
        if DEBUG.match(text) or HARMLESS.search(text):
            return False
        words = (GRAVE, STATES, *([MUNGE] if source == "munge" else []), *([self.nodes] if self.nodes else []))
        return any(one.search(text) for one in words)


def jobs_in(text: str) -> Set[str]:
    """The ids of the jobs that a line names; with a task of an array, `12_3`, also the array, `12`."""
    jobs = set(ANY_JOB.findall(text))
    return jobs | {one.partition("_")[0] for one in jobs}


def named(nodes: Sequence[str]) -> re.Pattern[str]:
    """What matches names of hosts, and lists such as `n[1-9]` that may have them; the deployer looks into these."""
    lists = sorted({re.sub(r"\d+$", "", node) for node in nodes})
    words = "|".join(re.escape(node) for node in sorted(nodes))
    return re.compile(r"(?<![\w.-])(?:(?:%s)(?![\w-])|(?:%s)\d*\[)" % (words, "|".join(map(re.escape, lists))))
