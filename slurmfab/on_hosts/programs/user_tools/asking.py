"""Questions to Slurm from a user: several commands at once, with one deadline, and answers of bounded length."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import IN_SECONDS, Table

SECONDS = 15.0  # how long Slurm has to answer all questions. slurmctld on a busy cluster takes some seconds.
PATIENCE = 1.0  # after so many seconds, `scontrol ping` tells whether there is anything to wait for
LONGEST = 64 << 20  # the most bytes of an answer: 100,000 nodes or jobs

TOLD_SECONDS = 7 * 86400  # for so long users are told of a job that a crash has lost
CHUNK = 1 << 16
SITE_SETTINGS = ("SQUEUE_", "SINFO_", "SACCT", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN")
"""Beginnings of the variables with which users change what Slurm's commands print, or which jobs they mean."""

NOT_FOUND = 127
UP = r"^Slurmctld\(\w+\) at \S+ is UP"
NO_CONTROLLER = "no slurmctld answers"


class Silent(Exception):
    """Slurm does not answer; the text is for the user."""


class Question(NamedTuple):
    """A command to ask."""

    argv: Tuple[str, ...]  # the program, which PATH finds, and its arguments
    env: Mapping[str, str] = {}  # variables besides the user's own; other users cannot see them


PING = Question(("scontrol", "ping"))


class Answer(NamedTuple):
    """What a command printed."""

    code: int  # its exit code; `NOT_FOUND` if it is not installed, and -1 if it was stopped
    text: str
    trouble: str  # the last line of its errors, or why it was stopped; empty if it succeeded

    @property
    def must(self) -> str:
        """The text of a command that has to succeed. Raises Silent if it did not."""
        if self.code:
            raise Silent(
                "Slurm does not answer (%s). Running jobs go on, and pending ones keep their place. "
                "Try again in a few minutes; if that does not help, tell your administrators." % self.trouble
            )
        return self.text


class Running:
    """A started command: `answer` once it ended (or `None`), and `streams`, its open descriptors."""

    def __init__(self, question: Question) -> None:
        self.answer: Optional[Answer] = None
        self.parts: List[List[bytes]] = [[], []]
        self.sizes = [0, 0]
        self.streams: Dict[int, int] = {}
        pipes = [os.pipe(), os.pipe()]
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, pipe[1], place) for place, pipe in enumerate(pipes, 1)),
        ]
        try:
            # Faster to start than by subprocess, which takes some milliseconds to be imported.
            self.pid = os.posix_spawnp(
                question.argv[0], question.argv, environment(question.env), file_actions=actions,
                setsigdef=(signal.SIGPIPE,),
            )  # fmt: skip
            self.streams = {pipe[0]: place for place, pipe in enumerate(pipes)}
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            why = "is not installed" if is_missing else "cannot be run: %s" % error.strerror
            self.answer = Answer(NOT_FOUND, "", "%s %s" % (question.argv[0], why))
            for pipe in pipes:
                os.close(pipe[0])
        finally:
            for pipe in pipes:
                os.close(pipe[1])

    def read(self, stream: int) -> None:
        """Take what is there from one of the streams."""
        place, part = self.streams[stream], os.read(stream, CHUNK)
        self.parts[place].append(part)
        self.sizes[place] += len(part)
        if self.sizes[place] > LONGEST:
            self.stop("it printed more than %d bytes" % LONGEST)
        elif not part:
            os.close(stream)
            del self.streams[stream]
            if not self.streams:
                self.end()

    def end(self) -> None:
        """Take the exit code of a command whose streams have ended."""
        status = os.waitpid(self.pid, 0)[1]
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        text, errors = (b"".join(part).decode("utf-8", "replace") for part in self.parts)
        lines = errors.strip().splitlines()
        self.answer = Answer(code, text, (lines[-1] if lines else "exit code %d" % code) if code else "")

    def stop(self, why: str) -> None:
        """End a command that is still running. `why`: it is stopped."""
        if self.answer is not None:
            return
        os.kill(self.pid, signal.SIGKILL)
        for stream in self.streams:
            os.close(stream)
        self.streams = {}
        os.waitpid(self.pid, 0)
        self.answer = Answer(-1, "", why)


class Started:
    """Commands that run side by side while the program does something else. `questions`: by name."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.running = {name: Running(question) for name, question in questions.items()}

    def answers(self, seconds: float = SECONDS, patience: float = PATIENCE) -> Dict[str, Answer]:
        """All answers, stopped after `seconds`, or when no slurmctld answers a ping after `patience`."""
        began = time.monotonic()
        ping: Optional[Running] = None
        while any(one.answer is None for one in self.running.values()):
            passed = time.monotonic() - began
            if passed >= seconds:
                self.stop("no answer within %g s" % seconds)
            elif ping is None and passed >= patience:
                ping = Running(PING)
            elif ping is not None and ping.answer and not re.search(UP, ping.answer.text, re.MULTILINE):
                self.stop(NO_CONTROLLER)
            else:
                self.read((seconds if ping else min(patience, seconds)) - passed, ping)
        if ping is not None:
            ping.stop("it is not needed any more")
        return {name: one.answer for name, one in self.running.items() if one.answer is not None}

    def read(self, seconds: float, ping: Optional[Running]) -> None:
        """Read what comes within some seconds, at most, and return with the first; `ping` is a further command."""
        poll, of = select.poll(), {}
        for one in (*self.running.values(), *((ping,) if ping else ())):
            for stream in one.streams:
                poll.register(stream, select.POLLIN)
                of[stream] = one
        for stream, _ in poll.poll(max(1, int(seconds * 1000))):
            if stream in of[stream].streams:
                of[stream].read(stream)

    def stop(self, why: str) -> None:
        """End the commands that are still running. `why`: they are stopped."""
        for one in self.running.values():
            one.stop(why)


def ask(questions: Mapping[str, Question], seconds: float = SECONDS) -> Dict[str, Answer]:
    """The answers to several questions, by name, asked at once; stopped after so many seconds."""
    return Started(questions).answers(seconds)


def environment(more: Mapping[str, str]) -> Dict[str, str]:
    """The user's environment without what changes the answers of Slurm's commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(SITE_SETTINGS)}
    return {**inherited, "LC_ALL": "C.UTF-8", **more}


JOB_FIELDS = (
    "JobArrayID", "Partition", "UserName", "Account", "QOS", "State", "Reason", "StartTime", "NumNodes", "NumCPUs",
    "NumTasks", "TimeUsed", "TimeLimit", "ReqNodes", "NodeList", "Dependency", "tres-alloc", "tres-per-job",
    "tres-per-node", "tres-per-task", "admin_comment", "JobID", "BatchFlag", "BatchHost", "Requeue",
    "SubmitTime", "EndTime", "Name",
)  # fmt: skip
"""Fields of a job, as named by squeue(1), --Format."""

ASSOCIATION_FIELDS = (
    "Account", "Partition", "DefaultQOS", "QOS", "MaxJobs", "MaxSubmitJobs", "MaxWall", "MaxTRES", "MaxTRESPerNode",
    "MaxTRESMins", "GrpJobs", "GrpSubmitJobs", "GrpTRES", "GrpTRESMins",
)  # fmt: skip
QOS_FIELDS = (
    "Name", "Flags", "MaxWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MinTRES", "MaxJobsPU", "MaxSubmitPU",
    "MaxTRESPU", "MaxJobsPA", "MaxSubmitPA", "MaxTRESPA", "GrpJobs", "GrpSubmitJobs", "GrpTRES", "GrpTRESMins",
)  # fmt: skip
"""What sacctmgr(1) of 22.05 to 26.05 prints; a user's limits include those inherited from accounts above."""

NODES = Question(("scontrol", "--details", "--oneliner", "show", "node"))
"""The nodes that the user may see, one a line; `nodes.read` reads them."""

PARTITIONS = Question(("scontrol", "--oneliner", "show", "partition"))
"""The partitions that are not hidden from the user, one a line; `partitions.read` reads them."""

ALL_PARTITIONS = Question(("scontrol", "--all", "--oneliner", "show", "partition"))
"""Also those that the user may not use, for a script may name one of them; `partitions.read` reads them."""

SBATCH_HELP = Question(("sbatch", "--help"))  # the options of sbatch, also those of plugins

TEST_ONLY = Question(("sbatch", "--test-only"))
"""Whether sbatch takes the script on its standard input, and when it would start; submits nothing (sbatch(1))."""

MODULES = Question(("bash", "-lc", "module -t avail 2>&1"))  # the modules that the user's login shell finds, one a line

MPI_KINDS = Question(("sh", "-c", "srun --mpi=list 2>&1"))
"""The MPI plugins that srun has; it starts nothing (srun(1), --mpi)."""

CONFIG = Question(("scontrol", "show", "config"))
QOS = Question(("sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=" + ",".join(QOS_FIELDS)))
"""All QOS, which `limits.qos` reads; slurmdbd answers, which may be down while slurmctld is not."""


def associations_question(user: str, cluster: str = "") -> Question:
    """A user's accounts, QOS and limits of slurmdbd, in one cluster or all; `limits.associations` reads it."""
    here = ("cluster=" + cluster,) if cluster else ()
    where = ("where", "user=" + user, *here, "format=" + ",".join(ASSOCIATION_FIELDS))
    return Question(("sacctmgr", "--noheader", "--parsable2", "show", "associations", *where))


def use_question(user: str) -> Question:
    """What a user uses of their own limits and of those of all QOS, from slurmctld's memory; `use.read` reads it."""
    return Question(("scontrol", "show", "assoc_mgr", "flags=assoc,qos", "users=" + user))


def jobs_of(user: str) -> Tuple[Question, Table]:
    """The jobs of a user that have not ended, and what reads the rows of the answer."""
    # With --all: a job in a hidden partition is none the less the user's.
    table = Table(("squeue", "--all", "--noheader", "--user=" + user), JOB_FIELDS)
    return Question(table.argv, table.env), table


def open_records(user: str) -> Tuple[Question, Table]:
    """The jobs of a user that slurmdbd has as not ended, and what reads the rows; `lost_jobs.unknown` judges them."""
    table = commands.open_records(user)
    return Question(table.argv, table.env), table


def ended_records(user: str) -> Tuple[Question, Table]:
    """The jobs of a user that slurmdbd has as ended lately, likewise; `lost_jobs.commented` tells the lost ones."""
    table = commands.lost_records(user, int(time.time()) - TOLD_SECONDS)
    return Question(table.argv, table.env), table


REMEMBERED_FIELDS = ("JobArrayID", "State", "Reason", "SubmitTime", "StartTime", "EndTime", "NodeList", "exit_code")
RECORDED_FIELDS = (
    "JobID", "State", "Reason", "Submit", "Start", "End", "NodeList", "ExitCode", "ReqMem", "Timelimit", "MaxRSS",
    "AdminComment", "TotalCPU", "AllocTRES", "TRESUsageInMax", "TRESUsageInTot",
)  # fmt: skip
"""What squeue(1) and sacct(1) tell of one job; no text of a user is among it."""


def remembered_job(job: str) -> Tuple[Question, Table]:
    """What slurmctld still knows of a job, with times as seconds since 1970, and what reads the rows."""
    table = Table(("squeue", "--all", "--noheader", "--states=all", "--jobs=" + job), REMEMBERED_FIELDS)
    return Question(table.argv, {**table.env, **IN_SECONDS}), table


def recorded_job(job: str) -> Tuple[Question, Table]:
    """What slurmdbd has of a job and its steps, likewise."""
    table = Table(("sacct", "--duplicates", "--noheader", "--jobs=" + job), RECORDED_FIELDS)
    return Question(table.argv, table.env), table
