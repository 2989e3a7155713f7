"""Slurm's commands: how each is asked, and how its answer is read; no other module runs one of these programs.

A job's name, comment, directory and wanted nodes are texts of its user, and each may hold line breaks and whatever
Slurm prints itself. So squeue is asked with a random mark behind every field, without the texts that nobody needs,
and scontrol is not asked about jobs. The mark is new each time, and goes to squeue in the environment: other users
can see arguments (proc(5)). Answers are cut at line feeds alone, and the id of a job has to match in full.
"""

from __future__ import annotations

import os
import re
import time
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client.amounts import number_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

Command = Tuple[str, ...]

PARTITION = "slurmfab"
"""The hidden partition of all compute nodes, for jobs of slurmfab itself; only root and the slurm user may use it."""

MARK_BYTES = 6  # random bytes of a mark: too many to guess in all the names of a full queue
SHOWN_BYTES = 80  # how much of an answer that cannot be read is shown
TABLE_SECONDS = 60.0  # time limit of one table of squeue or sinfo
PING: Command = ("scontrol", "ping")  # tells which slurmctld answers; succeeds if any does

PRIMARY_ANSWERS: Command = ("sh", "-c", "scontrol ping | grep -q '^Slurmctld(primary) .* is UP'")
"""Succeeds if the primary slurmctld answers."""

RECONFIGURE: Command = ("scontrol", "reconfigure")
TAKEOVER: Command = ("scontrol", "takeover")
SHOW_ASSOCIATIONS: Command = ("scontrol", "show", "assoc_mgr", "flags=assoc,qos")
"""Shows the associations in slurmctld's memory, which can differ from those in slurmdbd."""

SHOW_CONFIG: Command = ("scontrol", "show", "config")
SHOW_PARTITIONS: Command = ("scontrol", "--all", "--oneliner", "show", "partition")
SHOW_SLURMD: Command = ("scontrol", "show", "slurmd")  # succeeds if the host's own slurmd answers (scontrol(1))

DIAGNOSTICS: Command = ("sdiag",)
"""Shows what slurmctld's scheduler and its remote procedure calls do, as `Name: number`, in sections."""

RUNAWAY_JOBS: Command = ("sacctmgr", "-nP", "show", "runawayjobs", "format=ID,State,TimeSubmit")
"""Prints jobs that slurmdbd has as active and slurmctld does not know; asks whether to end them, for ever at an end."""

END_RUNAWAY_JOBS: Command = ("sacctmgr", "--immediate", *RUNAWAY_JOBS[1:])
"""Ends these in slurmdbd, which then counts the use of all accounts anew since the first of them."""

OUT_OF_SERVICE: Command = ("sinfo", "--all", "--list-reasons", "--long")
"""Shows nodes that are down or drained, since when, by whom and why."""

QUEUE_WITHOUT_TEXTS: Command = ("squeue", "--all", "--format=%i|%P|%u|%T|%r|%M|%l|%D|%C|%b|%N")
"""Shows the jobs without what their users have named or written; for people, who see it if a text breaks a line."""

NODE_VERSION: Command = ("slurmd", "-V")
NODE_HARDWARE: Command = ("slurmd", "-C")  # prints the hardware as slurmd sees it, as a line of slurm.conf

SHARE_WIDTHS = {"Account": 320, "User": 16, "NormShares": 24, "EffectvUsage": 24, "LevelFS": 24}
"""What sshare prints of shares, each with the number of its bytes; accounts are indented by level."""

VERSION: Command = ("scontrol", "--version")  # prints `slurm` and the version, without asking a daemon

DATABASE_VERSION: Command = ("slurmdbd", "-V")
"""Prints the same where Slurm's commands find no slurm.conf, without which they print nothing."""

# Texts, not compiled patterns: most requests use none.
_PING = r"^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)"
_JOB_ID = r"\d+(?:\+\d+|_(?:\d+|\[[\d,:-]+(?:%\d+)?\]))?"
_RESERVATION = r"^ReservationName=(.+?) StartTime=\S+ EndTime=\S+ Duration=\S+ Nodes=(\S+)"


def in_widths(widths: Mapping[str, int]) -> str:
    """The value of `format` with which sacctmgr and sshare print fields of so many bytes, to the left."""
    return ",".join("%s%%-%d" % one for one in widths.items())


def rows_of_widths(shown: bytes, widths: Mapping[str, int], program: str) -> List[List[str]]:
    """Rows of fields of so many bytes, cut texts ending in `+`, so no text forges; ResourceFailed for others."""
    sizes = list(widths.values())
    starts = [sum(sizes[:number]) + number for number in range(len(sizes))]
    whole = sum(sizes) + len(sizes) + 1
    if len(shown) % whole:
        raise ResourceFailed(
            "%s answered with other fields than it was asked for, at %s" % (program, ascii(shown[-SHOWN_BYTES:]))
        )
    return [
        [
            shown[first + start : first + start + size].rstrip(b" ").decode(errors="replace")
            for start, size in zip(starts, sizes)  # noqa: B905 - zip(strict=) is Python 3.10's
        ]
        for first in range(0, len(shown), whole)
    ]


def shares(context: Context, seconds: float) -> List[List[str]]:
    """Fields of `SHARE_WIDTHS` of all accounts, and of user root; ResourceFailed if sshare fails or gives others."""
    done = context.run(("sshare", "--noheader", "--users=root", "--format=" + in_widths(SHARE_WIDTHS)), seconds=seconds)
    if done.returncode:
        raise ResourceFailed("sshare failed: " + ascii(done.stderr[-SHOWN_BYTES:]))
    return rows_of_widths(done.stdout, SHARE_WIDTHS, "sshare")


class Table:
    """A question to squeue, sinfo or sacct, for one use: the answer has the same fields for every job or node.

    Args:
        argv: the program and its options, without the format.
        fields: what the program calls them: squeue(1), --Format; sacct(1); for sinfo the letters of --format.
    """

    def __init__(self, argv: Sequence[str], fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self.mark = "|%s|" % os.urandom(MARK_BYTES).hex()
        self.argv: Command = tuple(argv)
        # Without a limit of 0, squeue truncates the task lists of large arrays (squeue(1), SLURM_BITSTR_LEN).
        self.env: Dict[str, str] = {"SLURM_BITSTR_LEN": "0"}
        if argv[0] == "sinfo":
            self.argv += ("--format=" + "".join("%%%s%s" % (field, self.mark) for field in fields),)
        elif argv[0] == "sacct":
            self.argv += ("--parsable", "--delimiter=" + self.mark, "--format=" + ",".join(fields))
            self.env.update(IN_SECONDS)
        else:
            self.env["SQUEUE_FORMAT2"] = ",".join("%s:%s" % (field, self.mark) for field in fields)

    def rows(self, shown: str) -> List[List[str]]:
        """The values of each job or node, in field order; ResourceFailed for other fields, as of a cut answer."""
        return list(self.each(shown))

    def each(self, shown: str) -> Iterator[List[str]]:
        """The same one by one, for months of records; raises as `rows`, after the rows that were whole."""
        row: List[str] = []
        begin, end = 0, shown.find(self.mark)
        while end >= 0:
            row.append(shown[begin:end] if row else shown[begin:end].lstrip("\n"))
            if len(row) == len(self.fields):
                yield row
                row = []
            begin = end + len(self.mark)
            end = shown.find(self.mark, begin)
        if row or shown[begin:].strip():
            raise ResourceFailed("%s answered with other fields than it was asked for" % self.argv[0])

    def ask(self, context: Context, seconds: float = TABLE_SECONDS) -> List[List[str]]:
        """Run the program and return its rows. Raises ResourceFailed if it fails, or `rows` does."""
        return self.rows(context.must(self.argv, seconds=seconds, env=self.env))


def jobs(fields: Sequence[str], *options: str) -> Table:
    """All jobs that have not ended, in fields of squeue(1)'s --Format, with options as `--states=all`."""
    return Table(("squeue", "--all", "--noheader", *options), fields)


def node_reasons() -> Table:
    """Name, state, reason and its author of all nodes, for each node and partition."""
    return Table(("sinfo", "--Node", "--noheader"), ("N", "T", "E", "u"))


def moment(text: str) -> Optional[float]:
    """A time as Slurm's commands print it, in seconds since 1970; `None` for other texts, such as `Unknown`."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def is_job_id(text: str) -> bool:
    """Whether a text is the id of a job as squeue prints it: `12`, `12_3`, `12_[4-9%2]` or `12+1`."""
    return bool(re.fullmatch(_JOB_ID, text, re.ASCII))


def job_ids(ids: Iterable[str]) -> Tuple[str, ...]:
    """The ids of jobs as arguments of a command. Raises ResourceFailed if one of them is none."""
    found = tuple(ids)
    wrong = next((one for one in found if not is_job_id(one)), None)
    if wrong is not None:
        raise ResourceFailed("%s is not the id of a job" % ascii(wrong[:80]))
    # A limit of running tasks is printed with the id, and is no part of it.
    return tuple(re.sub(r"%\d+\]$", "]", one) for one in found)


def cancel(ids: Iterable[str]) -> Command:
    """Cancels jobs; those that have ended are no error. Raises ResourceFailed if a text is not the id of a job."""
    return ("scancel", "--quiet", "--", *job_ids(ids))


def cancel_named(name: str, user: str = "") -> Command:
    """Cancels the jobs of this name. `user`: whose they are; empty for those of all users."""
    return ("scancel", "--quiet", "--name=" + name, *(["--user=" + user] if user else []))


def requeue(job: str) -> Command:
    """Has a job wait again, from its beginning. Raises ResourceFailed if `job` is not the id of a job."""
    return ("scontrol", "requeue", *job_ids([job]))


def update_job(job: str, *settings: str) -> Command:
    """Changes a job. Raises ResourceFailed if `job` is not the id of a job."""
    return ("scontrol", "update", "JobId=" + job_ids([job])[0], *settings)


def cancel_all_of(user: str) -> Command:
    """Cancels all jobs of a user."""
    return ("scancel", "--user", user)


def signal_batch(job: str, signal: str) -> Command:
    """Sends a signal to the script of a job. Raises ResourceFailed if `job` is not the id of a job."""
    return ("scancel", "--batch", "--signal=" + signal, "--", *job_ids([job]))


def on_nodes(hostlist: str) -> Command:
    """The options of squeue for jobs on nodes: none for `localhost`, a cluster's one node, which squeue renames."""
    return () if hostlist == "localhost" else ("--nodelist=" + hostlist,)


def ids_of_jobs(*options: str) -> Command:
    """Prints the ids of jobs, one per line; the options are those of squeue."""
    return ("squeue", "--all", "--noheader", "--format=%i", *options)


def known_job_ids() -> Command:
    """Prints the numeric ids of all jobs that slurmctld knows, ended ones and tasks of arrays too, one per line."""
    return ("squeue", "--all", "--array", "--noheader", "--states=all", "--format=%A")


def own_states(name: str) -> Command:
    """Prints comment and state of the user's own jobs of this name, one per line; also of ended ones."""
    return ("squeue", "--me", "--all", "--noheader", "--states=all", "--name=" + name, "--format=%k %T")


RUNNING_FIELDS = (
    "JobID", "JobArrayID", "UserName", "State", "BatchFlag", "BatchHost", "NodeList", "StartTime", "Requeue",
)  # fmt: skip
RUNNING_JOBS: Command = (
    "squeue", "--all", "--noheader", "--states=RUNNING,SUSPENDED",
    "--Format=" + ",".join(one + ":|" for one in RUNNING_FIELDS),
)  # fmt: skip
"""Prints the jobs that have nodes, without those that are starting or completing; no text of a user is among it."""

COMPLETING_FIELDS = ("JobID", "JobArrayID", "UserName", "EndTime", "NodeList")
COMPLETING_JOBS: Command = (
    "squeue", "--all", "--noheader", "--states=COMPLETING",
    "--Format=" + ",".join(one + ":|" for one in COMPLETING_FIELDS),
)  # fmt: skip
"""Prints the jobs that have ended and still hold nodes, with these; no text of a user is among it."""

SUBMISSIONS: Command = ("squeue", "--all", "--array", "--noheader", "--states=all", "--Format=JobID:|,SubmitTime:|")
"""Prints the numbers of all jobs that slurmctld remembers, and when they were submitted."""


class JobState(NamedTuple):
    """What slurmctld knows of a job."""

    state: str  # such as `RUNNING`; `GONE` for a job that it does not know
    reason: str = ""  # why it waits
    nodes: str = ""  # where it runs or ran, as a hostlist
    code: str = ""  # exit code and signal, as in `0:0`
    start: str = ""  # as Slurm prints it; it changes if the job is requeued and starts again


def job_states(jobs: Iterable[str]) -> Command:
    """Prints what `states` reads about jobs, also ended ones; ResourceFailed if a text is no job's id."""
    fields = ",".join(field + ":|" for field in ("JobID", "State", "Reason", "NodeList", "exit_code", "StartTime"))
    return ("squeue", "--all", "--noheader", "--states=all", "--jobs=" + ",".join(job_ids(jobs)), "--Format=" + fields)


def what_jobs_got(jobs: Iterable[str]) -> Command:
    """Prints number, partition, account, QOS, time limit, TRES and nodes of jobs, each with a bar behind it.

    Ended jobs are among them; ResourceFailed if a text is no job's id.
    """
    names = ("JobID", "Partition", "Account", "QOS", "TimeLimit", "tres-alloc", "NodeList")
    fields = ",".join(name + ":|" for name in names)
    return ("squeue", "--all", "--noheader", "--states=all", "--jobs=" + ",".join(job_ids(jobs)), "--Format=" + fields)


def states(shown: str) -> Dict[str, JobState]:
    """Jobs by ID, from what `job_states` printed; unknown ones are missing."""
    rows = [line.split("|") for line in shown.split("\n")]
    return {
        row[0]: JobState(row[1], row[2], row[3], exit_code(row[4]), row[5])
        for row in rows
        if len(row) == 7  # noqa: PLR2004
    }


def reasons_named(name: str) -> Command:
    """Prints why the jobs of this name wait, or waited when they were cancelled, one per line, newest first."""
    return ("squeue", "--all", "--noheader", "--states=all", "--sort=-i", "--name=" + name, "--format=%r")


def waiting_named(name: str) -> Command:
    """Prints ID and reason of each job of this name that waits, separated by a space."""
    return ("squeue", "--all", "--noheader", "--states=PENDING", "--name=" + name, "--format=%i %r")


def exit_code(text: str) -> str:
    """Exit code and signal in Slurm's form, from the status in squeue's (wait(2)).

    >>> exit_code("1792")
    '7:0'
    """
    status = number_of(text)
    return text if status is None else "%d:%d" % (status >> 8, status & 0x7F)


def recorded(job: str, *fields: str) -> Command:
    """Prints fields of a job in slurmdbd, separated by `|`. Raises ResourceFailed if `job` is not the id of a job."""
    return ("sacct", "--noheader", "--parsable2", "--allocations", "--jobs=" + ",".join(job_ids([job])),
            "--format=" + ",".join(fields))  # fmt: skip


def show_nodes(*names: str) -> Command:
    """Prints one line for each node, with the generic resources in use; without names, for all nodes."""
    return ("scontrol", "--all", "--details", "--oneliner", "show", "node", *names)


def update_nodes(names: Iterable[str], *settings: str) -> Command:
    """Changes nodes. `names`: NodeNames."""
    return ("scontrol", "update", "NodeName=" + ",".join(names), *settings)


def update_partition(name: str, *settings: str) -> Command:
    """Changes a partition; the arguments are those of `update_nodes`."""
    return ("scontrol", "update", "PartitionName=" + name, *settings)


def reboot(node: str, reason: str) -> Command:
    """Reboots a node as soon as its jobs have ended, and puts it back into service (scontrol(1), reboot)."""
    return ("scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=" + reason, node)


def reserve(name: str, user: str, nodes: Iterable[str], duration: str) -> Command:
    """Reserves nodes, also those with jobs, for a user at once; for minutes, or `UNLIMITED`."""
    return ("scontrol", "create", "reservation", "ReservationName=" + name, "Users=" + user,
            "Nodes=" + ",".join(nodes), "StartTime=now", "Duration=" + duration, "Flags=IGNORE_JOBS")  # fmt: skip


def reserve_idle(name: str, user: str, node: str, minutes: int) -> Command:
    """Reserves a node for a user at once; Slurm refuses one that has a job, or another reservation."""
    return ("scontrol", "create", "reservation", "ReservationName=" + name, "Users=" + user, "Nodes=" + node,
            "StartTime=now", "Duration=%d" % minutes)  # fmt: skip


def reserve_turn(name: str, users: str, node: str, minutes: int) -> Command:
    """Reserves a core of a node, so that jobs of users pass those that wait, on any node: FLEX (scontrol(1)).

    A job with a reservation waits for no job without one (`_top_priority` in Slurm's source).
    """
    return ("scontrol", "create", "reservation", "ReservationName=" + name, "Users=" + users, "Nodes=" + node,
            "CoreCnt=1", "StartTime=now", "Duration=%d" % minutes, "Flags=IGNORE_JOBS,FLEX")  # fmt: skip


def delete_reservation(name: str) -> Command:
    """Deletes a reservation."""
    return ("scontrol", "delete", "ReservationName=" + name)


def show_reservations(*names: str) -> Command:
    """Prints one line for each reservation; fails for an unknown name."""
    return ("scontrol", "--oneliner", "show", "reservation", *names)


def reserved_nodes(shown: str) -> Dict[str, str]:
    """The nodes of each reservation as a hostlist, by name, from the fields between its two texts."""
    found: Dict[str, str] = {}
    for name, nodes in re.findall(_RESERVATION, shown, re.MULTILINE | re.DOTALL):
        if nodes != "(null)":
            found.setdefault(name, nodes)
    return found


def hostnames(hostlist: str) -> Command:
    """Prints the names in a hostlist, one per line; reads slurm.conf, and asks no daemon."""
    return ("scontrol", "show", "hostnames", hostlist)


PARTITION_STATES: Command = ("sinfo", "--all", "--noheader", "--format=%R|%a")
"""Prints names and states of all partitions as `NAME|up`, one per line."""


def names_of_nodes(*options: str) -> Command:
    """Prints names of nodes, one per line; the options are those of sinfo, such as `--states=idle`."""
    return ("sinfo", "--all", "--noheader", "--Node", *options, "--format=%N")


def idle_count(partition: str) -> Command:
    """Prints numbers of idle nodes in a partition, which add up."""
    return ("sinfo", "--all", "--noheader", "--partition=" + partition, "--states=idle", "--format=%D")


def controllers(shown: str) -> List[Tuple[str, str, bool]]:
    """Role (`primary`, `backup`, `backup1` ...), host and whether it answers, of each slurmctld that `PING` printed."""
    return [(role, host, state == "UP") for role, host, state in re.findall(_PING, shown, re.MULTILINE)]


def any_answers(shown: str) -> bool:
    """Whether some slurmctld answers, from what `PING` printed."""
    return any(is_up for _, _, is_up in controllers(shown))


def show_qos_usage(names: Iterable[str]) -> Command:
    """Prints the limits of QOS and how much of each is used, from slurmctld's memory."""
    return ("scontrol", "show", "assoc_mgr", "flags=qos", "qos=" + ",".join(names))


def admin_level(user: str) -> Command:
    """Prints, from slurmctld's memory, what a user may do with all of Slurm; nothing of it without accounting."""
    return ("scontrol", "show", "assoc_mgr", "flags=users", "users=" + user)


def accounts(what: str, fields: Sequence[str], *arguments: str) -> Command:
    """Prints rows of slurmdbd by `|`: sacctmgr's word, fields without free text but the last, further words."""
    return ("sacctmgr", "--noheader", "--parsable2", "show", what, *arguments, "format=" + ",".join(fields))


def job_records(since: int, until: int, fields: Sequence[str], *options: str) -> Table:
    """The records of all jobs that were eligible or ran between two times, with times as seconds since 1970.

    A job that was requeued or resized has a record for each part. `since`: seconds since 1970. `fields`: as named by
    sacct(1). `options`: further ones, such as `--truncate`, which cuts times off where the window begins and ends.
    """
    window = ("--starttime=uts%d" % since, "--endtime=uts%d" % until)
    return Table(("sacct", "--allusers", "--duplicates", "--noheader", *window, *options), fields)


def records_of(ids: Iterable[str], fields: Sequence[str], *options: str) -> Table:
    """The records of jobs and their steps, one for each time that they were put back; as `job_records`."""
    return Table(("sacct", "--duplicates", "--noheader", "--jobs=" + ",".join(job_ids(ids)), *options), fields)


def open_records(user: str = "") -> Table:
    """The records of all jobs that have not ended by slurmdbd, or those of a user."""
    whose = ("--user=" + user,) if user else ("--allusers",)
    options = ("--duplicates", "--noheader", "--allocations", "--starttime=now", "--state=PENDING,RUNNING,SUSPENDED")
    return Table(("sacct", *whose, *options), ("JobIDRaw", "JobID", "User", "State", "Submit", "End"))


def token(user: str, seconds: int) -> Command:
    """Prints `SLURM_JWT=` and a new token of a user, which counts for so long."""
    return ("scontrol", "token", "username=" + user, "lifespan=%d" % seconds)


LOST = "lost by a crash: slurmctld had not saved it"
"""The comment of an administrator (AdminComment) on the record of a lost job that was ended."""


def comment_on(job: str) -> Command:
    """Says in the record of a lost job, which slurmdbd takes for completed, what became of it."""
    (number,) = job_ids([job])
    return (
        "sacctmgr",
        "--immediate",
        "--quiet",
        "modify",
        "job",
        "where",
        "JobID=" + number,
        "set",
        "AdminComment=" + LOST,
    )


def lost_records(user: str, since: int) -> Table:
    """The ended records of a user since a time (seconds since 1970); `AdminComment` says which are of lost jobs."""
    window = ("--starttime=uts%d" % since, "--endtime=now")
    options = ("--noheader", "--allocations", "--state=COMPLETED")
    return Table(
        ("sacct", "--user=" + user, *options, *window), ("JobIDRaw", "JobID", "User", "State", "Submit", "AdminComment")
    )


def node_events(since: int, until: int, fields: Sequence[str], nodes: Sequence[str] = ()) -> Command:
    """Prints when nodes (empty: all) were out of service; rows of `|`, fields without free text but the last."""
    times = ("start=uts%d" % since, "end=uts%d" % until)
    names = ("nodes=" + ",".join(nodes),) if nodes else ()
    return ("sacctmgr", "--noheader", "--parsable2", "show", "event", *times, *names, "format=" + ",".join(fields))


def past_reservations(since: int, until: int) -> Command:
    """Prints reservations of this time, those of the present included: name, start, end and nodes, by `|`."""
    times = ("start=uts%d" % since, "end=uts%d" % until)
    return ("sacctmgr", "--noheader", "--parsable2", "show", "reservation", *times, "format=Name,Start,End,NodeNames")


def use_by_steps(jobs: Iterable[str]) -> Command:
    """Prints ID and two lists of TRES, by `|`, of running jobs' steps; ResourceFailed for no job's id."""
    return ("sstat", "--allsteps", "--noheader", "--parsable2", "--jobs=" + ",".join(job_ids(jobs)),
            "--format=JobID,TRESUsageInMax,TRESUsageInTot")  # fmt: skip


IN_SECONDS: Dict[str, str] = {"SLURM_TIME_FORMAT": "%s"}
"""The environment in which sacct and sacctmgr print times as seconds since 1970."""

NO_RECORDS = "accounting storage is disabled"  # what sacct says where Slurm keeps no records of jobs
