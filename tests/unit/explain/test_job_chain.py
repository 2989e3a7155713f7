"""The chain of a job from what Slurm 22.05 and 24.11 tell: causes that are on record, and none that is not."""

from __future__ import annotations

import pytest
from told_jobs import NODES, PARTITIONS, at, line, record, remembered, told

from slurmfab.commands.explain.ending import by_log
from slurmfab.commands.explain.evidence import LOG, Attempt, Evidence
from slurmfab.commands.explain.job_chain import links
from slurmfab.commands.explain.waiting import PARTS

BATCH = {"JobID": "3.batch", "User": "", "State": "OUT_OF_MEMORY", "ExitCode": "0:125", "MaxRSS": "60812K"}
GROUP = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=batch,mems_allowed=0,oom_memcg=/slurm/uid_4001/job_3/"
    "step_batch,task_memcg=/slurm/uid_4001/job_3/step_batch/task_0,task=python3,pid=8120,uid=4001"
)
KERNEL = (
    "Memory cgroup out of memory: Killed process 8120 (python3) total-vm:318468kB, anon-rss:61440kB, file-rss:5000kB,"
    " shmem-rss:0kB, UID:4001 pgtables:180kB oom_score_adj:0"
)
FIRST = {"JobID": "2", "Start": "13:00:00", "End": "14:31:00", "QOS": "narrow"}
BOBS = {"JobID": "2", "User": "bob", "Start": "13:00:00", "End": "14:31:00"}
NO_END = {"Start": "Unknown", "End": "Unknown", "NodeList": "None assigned", "State": "PENDING", "AllocTRES": ""}
DRAIN = ["n2", "14:05:00", "14:29:57", "DRAIN", "root(0)", "broken fan"]

CASES = {
    "22.05: an exit code": (
        told(
            records=[record(State="FAILED", ExitCode="3:0")],
            lines=[line("14:30:00", "ctl", "slurmctld", "_job_complete: JobId=3 WEXITSTATUS 3")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: its script ended with exit code 3",
            "nothing in the logs of n1 speaks of a fault of the node",
        ],
    ),
    "24.11: out of memory, with what the kernel says": (
        told(
            records=[record(State="OUT_OF_MEMORY", ExitCode="0:125"), record(**BATCH)],
            lines=[
                line("14:30:00", "n1", "kernel", GROUP),
                line("14:30:00", "n1", "kernel", KERNEL.replace("8120 (python3)", "77 (other)")),
                line("14:30:00", "n1", "kernel", KERNEL),
                line("14:30:00", "n1", "slurmd", "[3.batch] error: Detected 1 oom_kill event in StepId=3.batch. Some of"
                                                 " the step tasks have been OOM Killed."),
                line("14:30:00", "ctl", "slurmctld", "_job_complete: JobId=3 OOM failure"),
            ],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: out of memory: it asked for 60M, process python3 with 60 MiB was killed, the"
            " most that was measured of one task before is 59 MiB",
            "the node was not at fault",
        ],
    ),
    "24.11: a process of another job that was killed is none of this one": (
        told(
            records=[record(State="OUT_OF_MEMORY", ExitCode="0:125")],
            lines=[
                line("14:30:00", "n1", "kernel", GROUP.replace("job_3/", "job_30/")),
                line("14:30:00", "n1", "kernel", KERNEL),
            ],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: out of memory: it asked for 60M",
            "the node was not at fault",
        ],
    ),
    "24.11: a signal that somebody sent by Slurm": (
        told(
            records=[record(State="FAILED", ExitCode="0:10")],
            lines=[line("14:29:59", "ctl", "slurmctld", "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=3 uid 0")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: was killed by signal 10 (SIGUSR1), after root asked Slurm to send one",
            "nothing in the logs of n1 speaks of a fault of the node",
        ],
    ),
    "22.05: a signal is no failed launch, although squeue calls it JobLaunchFailure": (
        told(
            memory=[remembered(State="FAILED", Reason="JobLaunchFailure", exit_code="11", StartTime="14:00:01",
                               EndTime="14:30:00", NodeList="n1")],
            lines=[line("14:30:00", "ctl", "slurmctld", "_job_complete: JobId=3 WTERMSIG 11")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: was killed by signal 11 (SIGSEGV); who sent it is not on record, and Slurm's"
            " log has no request to",
            "nothing in the logs of n1 speaks of a fault of the node",
        ],
    ),
    "24.11: no output file": (
        told(
            records=[record(State="FAILED", ExitCode="0:53")],
            lines=[line("14:00:02", "n1", "slurmd",
                        "[3.batch] error: Could not open stdout file /nowhere/at/all: No such file or directory")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: could not be started: its output file or its directory could not be opened"
            " (/nowhere/at/all: No such file or directory)",
            "nothing in the logs of n1 speaks of a fault of the node",
        ],
    ),
    "24.11: a limit of a QOS, which another job held until then": (
        told(
            records=[record(QOS="narrow", Reason="QOSMaxCpuPerUserLimit", Start="14:31:01", End="14:40:00")],
            others=[record(**FIRST)],
        ),
        [
            "waited 31 min 1 s: QOS narrow allows ann 1 CPU, which job 2 held until 14:31:00",
            "14:31:01 on n1",
            "14:40:00 after 8 min 59 s: ended well",
        ],
    ),
    "24.11: a limit of a QOS is not all of a wait, as nobody gave it back shortly before the start": (
        told(
            records=[record(QOS="narrow", Reason="QOSMaxCpuPerUserLimit", Start="14:50:00", End="14:55:00")],
            others=[record(**FIRST)],
        ),
        [
            "waited 50 min: QOS narrow allows ann 1 CPU, by the last reason on record (QOSMaxCpuPerUserLimit)",
            "14:50:00 on n1",
            "14:55:00 after 5 min: ended well",
        ],
    ),
    "24.11: a reservation of today is no cause of a wait that is over": (
        told(
            records=[record(Reason="ReqNodeNotAvail", Start="14:50:00", NodeList="n2", End="14:55:00")],
            reservations="ReservationName=works StartTime=2026-11-27T14:58:00 EndTime=2026-11-27T18:00:00"
            " Duration=03:02:00 Nodes=n2 NodeCnt=1\n",
        ),
        [
            "waited 50 min: by the last reason on record, which need not have held all the time: A node that it needs"
            " is down, drained or reserved. Without --nodelist, other nodes can take it; else wait, or ask your"
            " administrators [ReqNodeNotAvail]",
            "14:50:00 on n2",
            "14:55:00 after 5 min: ended well",
        ],
    ),
    "24.11: an option of the job's own script is none of sbatch": (
        told(
            records=[record(Eligible="14:20:00", Start="14:20:01", SubmitLine="sbatch --wrap 'tar -b 20 -d x --hold'")],
        ),
        [
            "waited 20 min: why is not on record, for Slurm keeps the last reason of a wait alone",
            "14:20:01 on n1",
            "14:30:00 after 9 min 59 s: ended well",
        ],
    ),
    "22.05: a limit of the user": (
        told(
            memory=[remembered(UserName="bob", Account="maths", Reason="AssocMaxJobsLimit"),
                    remembered(JobArrayID="2", UserName="bob", Account="maths", State="RUNNING", StartTime="13:00:00",
                               NodeList="n1")],
        ),
        ["has waited 1 h: account maths allows bob 1 running job, which job 2 has since 13:00:00"],
    ),
    "24.11: a node that was drained": (
        told(
            records=[record(Reason="ReqNodeNotAvail", Start="14:30:00", NodeList="n2", End="14:40:00",
                            SubmitLine="sbatch --nodelist=n2 job.sh")],
            events=[DRAIN],
        ),
        [
            "waited 30 min: it asks for n2; n2 was drained 14:05:00 to 14:29:57 by root: broken fan",
            "14:30:00 on n2",
            "14:40:00 after 10 min: ended well",
        ],
    ),
    "a node that came back long before the start is no cause": (
        told(
            records=[record(Start="14:50:00", NodeList="n2", End="14:55:00", SubmitLine="sbatch --nodelist=n2 job.sh")],
            events=[DRAIN],
        ),
        [
            "waited 50 min: n2 was drained 14:05:00 to 14:29:57 by root: broken fan; then what came after is not on "
            "record",
            "14:50:00 on n2",
            "14:55:00 after 5 min: ended well",
        ],
    ),
    "a full node, as the job that had it ended shortly before": (
        told(
            records=[record(Start="14:31:01", End="14:40:00")],
            others=[record(**BOBS, NCPUS="2", AllocTRES="cpu=2,mem=100M")],
        ),
        [
            "waited 31 min 1 s: n1 had no room for it beside job 2 of bob (until 14:31:00)",
            "14:31:01 on n1",
            "14:40:00 after 8 min 59 s: ended well",
        ],
    ),
    "a job that ended shortly before on a node with room is no cause": (
        told(
            records=[record(Start="14:31:01", End="14:40:00")],
            others=[record(**BOBS)],
        ),
        [
            "waited 31 min 1 s: why is not on record, for Slurm keeps the last reason of a wait alone",
            "14:31:01 on n1",
            "14:40:00 after 8 min 59 s: ended well",
        ],
    ),
    "24.11: a dependency that was met": (
        told(
            records=[record(Reason="Dependency", Eligible="14:20:00", Start="14:20:01",
                            SubmitLine="sbatch --dependency=afterok:2 job.sh")],
            others=[record(JobID="2", User="bob", End="14:20:00")],
        ),
        [
            "waited 20 min: it depended by afterok on job 2 of bob (COMPLETED at 14:20:00)",
            "14:20:01 on n1",
            "14:30:00 after 9 min 59 s: ended well",
        ],
    ),
    "22.05: a hold, and who released it": (
        told(
            records=[record(Eligible="14:20:01", Start="14:20:01", SubmitLine="sbatch --hold job.sh")],
            lines=[line("14:20:00", "ctl", "slurmctld", "sched: _release_job_rec: release hold on JobId=3 by uid 0")],
        ),
        [
            "waited 20 min 1 s: ann submitted it on hold (--hold), until root released it at 14:20:00",
            "14:20:01 on n1",
            "14:30:00 after 9 min 59 s: ended well",
        ],
    ),
    "24.11: cancelled, by whom sacct knows": (
        told(records=[record(State="CANCELLED by 4001")]),
        ["14:00:01 on n1, 1 s after it was submitted", "14:30:00 after 29 min 59 s: cancelled by ann, whose job it is"],
    ),
    "22.05: a node that was set down": (
        told(
            records=[record(State="NODE_FAIL", ExitCode="1:0", NodeList="n2")],
            events=[["n2", "14:30:00", "Unknown", "DOWN", "root(0)", "smoke"]],
            lines=[line("14:30:00", "ctl", "slurmctld", "Killing JobId=3 on failed node n2")],
        ),
        [
            "14:00:01 on n2, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: its node failed: n2 is down since 14:30:00 by root: smoke",
            "n2: the node was taken down",
        ],
    ),
    "24.11: preempted, and waiting again": (
        told(
            records=[record(State="PREEMPTED", Start="14:00:01"),
                     record(**{**NO_END, "Submit": "14:30:00", "Eligible": "15:02:01"})],
            memory=[remembered(Reason="BeginTime", SubmitTime="14:30:00", EligibleTime="15:02:01")],
            others=[record(JobID="4", User="bob", Start="14:30:01", End="Unknown", State="RUNNING")],
            lines=[line("14:30:00", "ctl", "slurmctld",
                        "preempted JobId=3 has been requeued to reclaim resources for JobId=4")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: it had to give way for job 4 of bob, which may preempt it",
            "the node was not at fault",
            "has waited 30 min: Slurm puts off a job that was put back, to 15:02:01",
        ],
    ),
    "22.05: a record that is incomplete, as slurmdbd heard of the end first": (
        told(
            records=[record(State="OUT_OF_MEMORY", ExitCode="0:125", ReqMem="16?", QOS="Unknown", Partition="")],
            memory=[remembered(State="OUT_OF_MEMORY", MinMemory="60M", NodeList="n1", StartTime="14:00:01")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: out of memory: it asked for 60M",
            "the node was not at fault",
        ],
    ),
    "22.05: cancelled while it waited, by an incomplete record": (
        told(
            records=[record(State="CANCELLED by 0", Start="None", End="14:10:00", NodeList="None assigned",
                            Eligible="Unknown", SubmitLine="", AllocTRES="")],
            memory=[remembered(State="CANCELLED", Reason="BeginTime", EligibleTime="15:00:00", EndTime="14:10:00")],
        ),
        [
            "waited 10 min: it was submitted to begin at 15:00:00 (--begin)",
            "14:10:00: cancelled before it had started by root",
        ],
    ),
    "22.05: put back a moment ago, before slurmdbd has heard of the new attempt": (
        told(
            records=[record(State="REQUEUED", End="14:59:00")],
            memory=[remembered(Reason="BeginTime", SubmitTime="14:59:00", EligibleTime="15:02:01", restartcnt="1")],
            lines=[line("14:59:00", "ctl", "slurmctld", "Requeuing JobId=3")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:59:00 after 58 min 59 s: put back into the queue; by whom is not on record",
            "nothing in the logs of n1 speaks of a fault of the node",
            "has waited 1 min: Slurm puts off a job that was put back, to 15:02:01",
        ],
    ),
    "22.05: the limit of an array, whose tasks are not eligible meanwhile": (
        told(
            memory=[remembered(JobArrayID="3_1", JobID="4", State="RUNNING", StartTime="14:00:01", NodeList="n1"),
                    remembered(JobArrayID="3_2", JobID="3", Reason="JobArrayTaskLimit", EligibleTime="N/A")],
        ),
        [
            "job 3_1: RUNNING",
            "14:00:01 on n1, 1 s after it was submitted, and has run for 59 min 59 s",
            "job 3_2: PENDING",
            "has waited 1 h: as many tasks of its array run as --array allows at once: job 3_1 since 14:00:01",
        ],
    ),
    "24.11: nodes without room, where sacct counts no CPUs of a job that waits": (
        told(
            records=[record(**{**NO_END, "NCPUS": "0"})],
            memory=[remembered(Reason="Resources"),
                    remembered(JobArrayID="2", UserName="bob", State="RUNNING", StartTime="13:00:00", NumCPUs="4",
                               NodeList="n[1-2]")],
        ),
        ["has waited 1 h: n1 and n2 have no room for it beside job 2 of bob (since 13:00:00)"],
    ),
    "22.05: licences, which another job has": (
        told(
            memory=[remembered(Reason="Licenses", Licenses="sim:1"),
                    remembered(JobArrayID="2", UserName="bob", State="RUNNING", StartTime="13:00:00", NodeList="n1",
                               Licenses="sim:1")],
        ),
        ["has waited 1 h: all licences of sim were in use, by job 2 of bob since 13:00:00"],
    ),
    "22.05: put back, where Slurm keeps no records": (
        told(memory=[remembered(Reason="BeginTime", EligibleTime="15:02:01", restartcnt="1")]),
        ["has waited 1 h: Slurm puts off a job that was put back, to 15:02:01"],
    ),
    "24.11: a failed prolog": (
        told(
            records=[record(State="REQUEUED", ExitCode="0:54", End="14:00:01"),
                     record(**{**NO_END, "Submit": "14:00:01", "Eligible": "14:02:02"})],
            memory=[remembered(Reason="launch failed requeued held", SubmitTime="14:00:01", EligibleTime="14:02:02")],
            lines=[line("14:00:01", "ctl", "slurmctld", "error: Prolog launch failure, JobId=3"),
                   line("14:00:01", "n1", "slurmd", "error: [job 3] prolog failed status=1:0")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:00:01 after 0 s: put back into the queue: the prolog failed on n1",
            "n1: the node was at fault, its prolog failed",
            "has waited 59 min 59 s: It could not be started on its node. See whether its directory and its output file"
            " can be written there; then ask your administrators. Then: scontrol release 3"
            " [launch failed requeued held]",
        ],
    ),
    "three causes, one after the other": (
        told(
            records=[record(QOS="narrow", Reason="ReqNodeNotAvail", Start="14:50:01", End="14:51:00", NodeList="n2",
                            Timelimit="60", SubmitLine="sbatch --nodelist=n2 job.sh")],
            others=[record(JobID="2", QOS="narrow", Start="13:00:00", End="14:10:00",
                           AllocTRES="cpu=1,mem=50M,node=1")],
            events=[["n2", "14:05:00", "14:29:57", "DRAIN", "root(0)", "broken fan"]],
            past_reservations=[["works", str(at("14:20:00")), str(at("14:49:59")), "n2"]],
        ),
        [
            "waited 50 min 1 s: QOS narrow allows ann 1 CPU, which job 2 held until 14:10:00; then n2 was drained"
            " 14:05:00 to 14:29:57 by root: broken fan; then n2 was reserved (works) until 14:49:59",
            "14:50:01 on n2",
        ],
    ),
    "a reservation that was deleted before it began, of which the log alone tells": (
        told(
            records=[record(Start="14:50:01", End="14:51:00", NodeList="n2", Timelimit="60:00",
                            SubmitLine="sbatch -w n2 job.sh")],
            lines=[
                line("14:00:30", "ctl", "slurmctld", "sched: Created reservation=works users=root nodes=n2 cores=2 "
                     "licenses=(null) tres=cpu=2 start=2026-11-27T14:58:00 end=2026-11-27T16:00:00"),
                line("14:50:00", "ctl", "slurmctld", "_slurm_rpc_resv_delete complete for works usec=28"),
            ],
        ),
        [
            "waited 50 min 1 s: n2 was reserved (works) from 14:58:00 on, into which its time limit reached, until "
            "14:50:00",
        ],
    ),
    "a generic resource that another job has on the one node that has it": (
        told(
            nodes=NODES.replace("NodeName=n2", "NodeName=n2 Gres=tape:1"),
            records=[record(**NO_END)],
            memory=[remembered(Reason="Resources", **{"tres-alloc": "cpu=1,mem=50M,node=1,gres/tape=1"}),
                    remembered(JobArrayID="2", UserName="bob", State="RUNNING", StartTime="13:00:00", NodeList="n2",
                               **{"tres-alloc": "cpu=1,mem=50M,node=1,gres/tape=1"})],
        ),
        ["has waited 1 h: n2 has no tape left for it beside job 2 of bob (since 13:00:00)"],
    ),
    "GPUs that another job has, where Slurm counts none: 22.05's words": (
        told(
            nodes=NODES.replace("NodeName=n2", "NodeName=n2 Gres=gpu:a100:4(S:0-1)"),
            records=[record(**NO_END)],
            memory=[remembered(Reason="Resources", **{"tres-per-node": "gres:gpu:2"}),
                    remembered(JobArrayID="2", UserName="bob", State="RUNNING", StartTime="13:00:00", NodeList="n2",
                               **{"tres-per-job": "gres:gpu:a100:3"})],
        ),
        ["has waited 1 h: n2 has no GPUs left for it beside job 2 of bob (since 13:00:00)"],
    ),
    "a node that has not done with a job that has ended": (
        told(
            memory=[remembered(Reason="Resources", ReqNodes="n2", NumCPUs="2"),
                    remembered(JobArrayID="2", UserName="bob", State="COMPLETING", StartTime="13:00:00",
                               EndTime="13:30:00", NodeList="n2", NumCPUs="2")],
            others=[record(JobID="2", User="bob", Submit="14:00:00", Start="13:00:00", End="13:30:00", NodeList="n2")],
        ),
        [
            "has waited 1 h: n2 has no room for it beside job 2 of bob (which has ended, but not yet its epilog or its"
            " processes there)",
        ],
    ),
    "a job that was cancelled while it waited, which the nodes of today say nothing about": (
        told(
            nodes=NODES.replace("State=IDLE", "State=DOWN Reason=psu [root@2026-11-27T14:50:00]"),
            records=[record(**{**NO_END, "State": "CANCELLED by 0", "End": "14:20:00", "NCPUS": "2", "Reason":
                               "Resources"})],
            others=[record(**{**BOBS, "End": "14:19:00", "NodeList": "n[1-2]"}),
                    record(**{**BOBS, "JobID": "4", "Start": "14:18:00", "End": "14:40:00", "NodeList": "n[1-2]",
                              "NCPUS": "4", "AllocTRES": "cpu=4,mem=50M,node=2"})],
        ),
        [
            "waited 20 min: n1 and n2 had no room for it beside job 4 of bob (until 14:40:00)",
            "14:20:00: cancelled before it had started by root",
        ],
    ),
    "a job that wants nodes for itself alone": (
        told(
            memory=[remembered(Reason="Resources", NumCPUs="2", OverSubscribe="NO", **{"tres-alloc": "cpu=2,node=2"}),
                    remembered(JobArrayID="2", UserName="bob", State="RUNNING", StartTime="13:00:00", NodeList="n1")],
        ),
        ["has waited 1 h: n1 has no room for it beside job 2 of bob (since 13:00:00)"],
    ),
    "a job with a higher priority, and what that waits for": (
        told(
            memory=[remembered(Reason="Priority", PriorityLong="5"),
                    remembered(JobArrayID="4", UserName="cid", Reason="Resources", PriorityLong="9", NumCPUs="4",
                               **{"tres-alloc": "cpu=4,node=2"}),
                    remembered(JobArrayID="2", UserName="bob", State="RUNNING", StartTime="13:00:00", NodeList="n2")],
        ),
        [
            "has waited 1 h: job 4 of cid comes first, with a higher priority; that one waits itself: n2 has no room"
            " for it beside job 2 of bob (since 13:00:00)",
        ],
    ),
    "more than a limit allows at all": (
        told(records=[record(**{**NO_END, "QOS": "narrow", "NCPUS": "2"})],
             memory=[remembered(Reason="QOSMaxCpuPerUserLimit", QOS="narrow", NumCPUs="2")]),
        ["has waited 1 h: QOS narrow allows ann 1 CPU, and it asks for 2, so it never starts"],
    ),
    "a longer time than its partition allows": (
        told(partitions=PARTITIONS.replace("UNLIMITED", "00:02:00"),
             memory=[remembered(Reason="PartitionTimeLimit", TimeLimit="10:00")]),
        ["has waited 1 h: partition main allows jobs of 2 min at most, and this one asks for 10 min"],
    ),
    "a singleton, which waits for the job of the same name": (
        told(
            memory=[remembered(Reason="Dependency", EligibleTime="N/A", Dependency="singleton(unfulfilled)"),
                    remembered(JobArrayID="2", State="RUNNING", StartTime="13:00:00", NodeList="n2")],
        ),
        [
            "has waited 1 h: it depends on job 2 (which runs since 13:00:00) by singleton, as all jobs of ann with its"
            " name start one after the other",
        ],
    ),
    "the parts of a heterogeneous job": (
        told(
            memory=[remembered(JobArrayID="3+0", JobID="3", Reason="None"),
                    remembered(JobArrayID="3+1", JobID="4", Reason="None")],
        ),
        ["job 3+0: PENDING", f"has waited 1 h: {PARTS}", "job 3+1: PENDING"],
    ),
    "24.11: an interpreter that is not there": (
        told(
            records=[record(State="FAILED", ExitCode="2:0")],
            lines=[line("14:29:59", "n1", "slurmd", "[3.batch] error: execve(): bad interpreter(/no/such/python): No "
                        "such file or directory")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: its interpreter /no/such/python could not be started: No such file or "
            "directory",
        ],
    ),
    "24.11: a node that booted, and lost its job": (
        told(
            records=[record(State="NODE_FAIL", ExitCode="1:0")],
            lines=[line("14:30:00", "ctl", "slurmctld", "Batch JobId=3 missing from batch node n1 (not found "
                        "BatchStartTime after startup)")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: its node failed: its slurmd had started anew, as after a boot, and did not "
            "have the job any more",
            "n1: the node was at fault, it lost the job",
        ],
    ),
    "24.11: a daemon that was killed before its node was missed": (
        told(
            records=[record(State="NODE_FAIL", ExitCode="1:0")],
            events=[["n1", "14:30:00", "Unknown", "DOWN*", "slurm(64030)", "Not responding"]],
            lines=[line("14:29:00", "n1", "munge", "systemd: Stopped munge.service."),
                   line("14:29:05", "n1", "munge", "systemd: Started munge.service."),
                   line("14:29:30", "n1", "slurmd", "systemd: slurmd.service: Main process exited, code=killed, "
                        "status=9/KILL")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: its node failed: n1 is down since 14:30:00 by slurmctld itself: Not "
            "responding; slurmd of n1 was killed at 14:29:30",
        ],
    ),
    "24.11: a step without memory in a job that ended well": (
        told(records=[record(), record(JobID="3.0", State="OUT_OF_MEMORY", ExitCode="0:125")]),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: ended well, although its step 3.0 ran out of memory, which its script did not"
            " take for a failure",
        ],
    ),
    "24.11: srun whose terminal ended": (
        told(records=[record(State="FAILED", ExitCode="0:9", SubmitLine="srun sleep 600"),
                      record(JobID="3.0", State="CANCELLED by 4001", ExitCode="0:9")]),
        [
            "14:00:01 on n1, 1 s after it was submitted",
            "14:30:00 after 29 min 59 s: was killed by signal 9 (SIGKILL); its step was cancelled by ann, as happens "
            "when srun or its terminal ends",
        ],
    ),
    "24.11: cancelled, as what it depended on failed": (
        told(
            records=[record(State="CANCELLED", Start="None", End="14:00:04", NodeList="None assigned")],
            lines=[line("14:00:04", "ctl", "slurmctld", "_kill_dependent: Job dependency can't be satisfied, cancelling"
                        " JobId=3")],
        ),
        ["14:00:04: cancelled before it had started by Slurm: what it depended on can no longer be met"],
    ),
    "24.11: suspended": (
        told(
            memory=[remembered(State="SUSPENDED", StartTime="14:00:01", NodeList="n1")],
            lines=[line("14:40:00", "ctl", "slurmctld", "_slurm_rpc_suspend(suspend) for 3 usec=172")],
        ),
        [
            "14:00:01 on n1, 1 s after it was submitted, and has run for 59 min 59 s",
            "it is suspended since 14:40:00, and keeps its nodes. To let it go on: scontrol resume 3",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_job_when_its_records_are_known_then_each_link_has_its_cause(case: str) -> None:
    known, wanted = CASES[case]
    assert [link.text for link in links(known)][: len(wanted)] == wanted


def test_a_link_when_it_rests_on_a_line_then_the_line_is_quoted_with_its_place() -> None:
    known, _ = CASES["24.11: out of memory, with what the kernel says"]
    quotes = [(one.host, one.place) for link in links(known) if link.what == "ended" for one in link.quotes]
    assert quotes == [
        ("n1", "journalctl -k"),
        ("n1", "journalctl -k"),
        ("n1", "/var/log/slurmd/slurmd.log"),
        ("ctl", "sacct -j 3"),
    ]


def test_a_node_when_it_did_not_answer_then_its_fault_is_not_denied() -> None:
    known: Evidence = told(records=[record(State="FAILED", ExitCode="1:0", NodeList="n2")])
    last = links(known)[-1]
    assert (last.what, last.text) == ("fault", "whether the node was at fault is not known: n2 could not be asked")


def test_times_of_records_when_they_are_read_then_they_are_seconds() -> None:
    assert told(records=[record()]).jobs[0].ended == at("14:30:00")


@pytest.mark.parametrize(
    ("text", "state", "code"),
    [
        ("_job_complete: JobId=3 WEXITSTATUS 0", "COMPLETED", "0:0"),
        ("_job_complete: JobId=3 WEXITSTATUS 3", "FAILED", "3:0"),
        ("_job_complete: JobId=3 WTERMSIG 11", "FAILED", "0:11"),
        ("_job_complete: JobId=3 OOM failure", "OUT_OF_MEMORY", "0:125"),
        ("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=3 uid 0", "CANCELLED", "0:0"),
        ("Time limit exhausted for JobId=3", "TIMEOUT", "0:0"),
        ("Killing JobId=3 on failed node n2", "NODE_FAIL", "0:0"),
        ("_job_complete: JobId=30 WEXITSTATUS 3", "", ""),
    ],
)
def test_a_job_when_only_slurmctlds_log_tells_of_it_then_its_lines_say_how_it_ended(
    text: str, state: str, code: str
) -> None:
    known = told(lines=[line("14:30:00", "ctl", "slurmctld", text)])
    ended = by_log(known, Attempt("3", "3", origin=LOG))
    assert (ended.state, ended.code) == (state, code)
