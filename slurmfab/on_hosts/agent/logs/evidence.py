"""What Slurm has on record about a job, nodes or a user, and what they had to share the cluster with; on a controller.

Only records and present states are read here; `reading` reads the lines of logs. Rows are bounded, the newest are kept.
"""

from __future__ import annotations

import pwd
import re
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.accounting import user_limits
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import LATEST, moment_of, number_of
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.logs.period import printable_line
from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.agent.nodes.states import records, shown_nodes

MEMORY_FIELDS = (
    "JobArrayID", "JobID", "UserName", "Account", "QOS", "Partition", "State", "exit_code", "Reason", "SubmitTime",
    "EligibleTime", "StartTime", "EndTime", "NodeList", "NumCPUs", "MinMemory", "TimeLimit", "tres-alloc", "Dependency",
    "ReqNodes", "Reservation", "restartcnt", "Licenses", "PriorityLong", "Name", "OverSubscribe",
    "tres-per-node", "tres-per-job", "tres-per-task",
)  # fmt: skip
"""What slurmctld remembers of a job, by squeue(1), --Format."""

RECORD_FIELDS = (
    "JobID", "JobIDRaw", "User", "Account", "QOS", "Partition", "State", "ExitCode", "Reason", "Submit", "Eligible",
    "Start", "End", "NodeList", "NCPUS", "ReqMem", "Timelimit", "AllocTRES", "MaxRSS", "JobName", "SubmitLine",
    "AdminComment",
)  # fmt: skip
"""What slurmdbd has of a job and of its steps, by sacct(1)."""

EVENT_FIELDS = ("NodeName", "Start", "End", "State", "User", "Reason")  # sacctmgr(1); the free text is the last
RESERVATION_FIELDS = 4  # of `commands.past_reservations`
SHADOW_EXPIRES, DAY = 7, 86400  # the field of shadow(5) with the day on which an account expires
USER_EVENTS = 86400  # how far back a user's jobs are read, in seconds
QUEUE_SECONDS = 3600  # how long before the last start of a job other jobs are read; those that ran then are all there
WITH_NODES = (
    "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,COMPLETED,FAILED,TIMEOUT,NODE_FAIL,CANCELLED,OUT_OF_MEMORY,PREEMPTED"
)
"""The states of jobs that have nodes, or had some until minutes ago."""

MOST_AHEAD = 500  # how many jobs that wait are told, those with the highest priority
MOST_ROWS = 4000  # how many rows of other jobs, or of events, are told; of more the last
MARGIN = 60.0  # seconds before a job's submission and after its end whose jobs and events are read, too
SECONDS = 20.0  # time limit of each question
SHOWN = 300  # how many characters of an error are told
HOME_SECONDS = 5.0  # the same for a home directory
EPOCH = commands.IN_SECONDS
_NAMED = r"(?:after\w*|singleton|expand):([\d_+:?,]+)"  # the jobs of a dependency, in squeue's and sbatch's words
MOST_NAMED = 50


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What is on record about `job`, `nodes` or `user`, from `since` for the last two.

    With `uids` instead, their login names as `names`; with `home`, what this host has of that user, as `account`.

    Returns `now`; `ping` and `nodes`, `partitions` and `reservations` as scontrol prints them, `completing`, what
    `commands.COMPLETING_JOBS` prints, and `memory`, rows of `MEMORY_FIELDS`, while slurmctld answers; `records` and
    `others`, rows of `RECORD_FIELDS`, and `events`, rows of `EVENT_FIELDS`, where slurmdbd does; and `missing`: what
    did not answer, each with the reason.
    """
    if "uids" in request:
        return {"names": {uid: name_of(uid) for uid in request["uids"]}}
    if "home" in request:
        return {"account": account_of(request["home"], context)}
    answer: Dict[str, Any] = {
        "now": time.time(),
        "missing": [],
        "memory": [],
        "records": [],
        "others": [],
        "events": [],
    }
    shown = context.run(commands.PING, seconds=SECONDS).stdout.decode(errors="replace")
    answer["ping"] = shown
    if commands.any_answers(shown):
        of_memory(request, context, answer)
    else:
        answer["missing"].append(["slurmctld", "it does not answer"])
    attempt(answer, "slurmdbd", lambda: of_database(request, context, answer))
    attempt(answer, "slurmctld", lambda: add_limits(request, context, answer))
    return answer


def attempt(answer: Dict[str, Any], what: str, work: Callable[[], None]) -> None:
    """Do a part of the reading; where it fails, the answer goes on without it and says so."""
    try:
        work()
    except ResourceFailed as error:
        if what not in dict(answer["missing"]):
            # The program's own words; of one that did not end, its name without its arguments.
            silent = re.fullmatch(r"(\S+) .*(did not end within .*)", str(error), re.DOTALL)
            said = " ".join(silent.groups()) if silent else str(error).rpartition(" ended with exit code ")[2]
            answer["missing"].append([what, said.rpartition("error: ")[2][:SHOWN]])


def of_memory(request: Mapping[str, Any], context: Context, answer: Dict[str, Any]) -> None:
    """Add what slurmctld knows."""

    def present() -> None:
        answer["nodes"] = shown_nodes(context, SECONDS)
        answer["partitions"] = context.must(commands.SHOW_PARTITIONS, seconds=SECONDS)
        answer["reservations"] = context.must(commands.show_reservations(), seconds=SECONDS)
        answer["completing"] = context.must(commands.COMPLETING_JOBS, seconds=SECONDS, env=EPOCH)

    def jobs() -> None:
        filters = {"job": "--jobs=", "user": "--user="}
        for name in filters.keys() & request.keys():
            answer["memory"] += known_jobs(context, "--states=all", filters[name] + str(request[name]))
        named = jobs_named(row[18] for row in answer["memory"])
        answer["memory"] += known_jobs(context, "--states=all", "--jobs=" + ",".join(named)) if named else []
        answer["memory"] += known_jobs(context, "--states=" + WITH_NODES, *filter_of(request))[-MOST_ROWS:]
        if any(row[6] == "PENDING" for row in answer["memory"]):  # by priority, so that those before it are the first
            answer["memory"] += known_jobs(context, "--states=PENDING", "--sort=-p")[:MOST_AHEAD]

    def running() -> None:
        """Add what says whether a job that is called running can be: `running`, and when its nodes booted."""
        found = [
            one
            for one in lost_jobs.jobs_in(context.must(lost_jobs.RUNNING, seconds=SECONDS))
            if str(request["job"]) in (one.id, str(one.number), re.split("[_+]", one.id)[0])
        ]
        answer["running"] = [list(one) for one in found[:MOST_NAMED]]
        answer["boots"] = lost_jobs.boots_in(records(answer.get("nodes", "")))

    for work in (present, jobs, *([running] if request.get("job") else [])):
        attempt(answer, "slurmctld", work)


def add_limits(request: Mapping[str, Any], context: Context, answer: Dict[str, Any]) -> None:
    """Add the limits of the user, or of the job's user, and how much of them is used."""
    rows = [*answer["records"], *own(request, answer)]
    # Steps, whose rows follow those of their job, have no user.
    user = request.get("user") or next((row[2] for row in reversed(rows) if row[2] and request.get("job")), "")
    if user:
        answer.update(user_limits.read(user, context))
        if commands.any_answers(answer["ping"]):
            answer["limits"] = context.must(commands.SHOW_ASSOCIATIONS, seconds=SECONDS)


def known_jobs(context: Context, *options: str) -> List[List[str]]:
    """The jobs that slurmctld remembers; none where it has forgotten the only one that was asked for."""
    table = commands.jobs(MEMORY_FIELDS, *options)
    done = context.run(table.argv, seconds=SECONDS, env={**table.env, **EPOCH})
    return table.rows(done.stdout.decode(errors="replace"))


def asked_in_seconds(context: Context, table: commands.Table) -> List[List[str]]:
    """The rows of sacct, times as seconds since 1970, at most `MOST_ROWS`; command lines of users without secrets."""
    shown = context.must(table.argv, seconds=SECONDS, env={**table.env, **EPOCH})
    return [[*row[:-1], printable_line(row[-1])] for row in table.rows(shown)[-MOST_ROWS:]]


def filter_of(request: Mapping[str, Any]) -> List[str]:
    """The option by which squeue and sacct tell the jobs of some nodes alone."""
    return ["--nodelist=" + ",".join(request["nodes"])] if request.get("nodes") else []


def of_database(request: Mapping[str, Any], context: Context, answer: Dict[str, Any]) -> None:
    """Add what slurmdbd knows. Raises ResourceFailed if it does not answer, which the jobs themselves show."""
    now = int(answer["now"])
    since, until = int(request.get("since", now - USER_EVENTS)), now
    if request.get("job"):
        answer["records"] = asked_in_seconds(context, commands.records_of([request["job"]], RECORD_FIELDS))
        since, until = window_of([*answer["records"]], own(request, answer), now)
    elif request.get("user"):
        options = ("--user=" + request["user"], "--allocations")
        answer["records"] = asked_in_seconds(context, commands.job_records(since, until, RECORD_FIELDS, *options))
    attempt(answer, "slurmdbd", lambda: add_events(request, context, answer, (since, until)))
    attempt(answer, "slurmdbd", lambda: add_others(request, context, answer, (since, until)))


def window_of(records: Sequence[Sequence[str]], known: Sequence[Sequence[str]], now: int) -> Tuple[int, int]:
    """When a job was there, from its first submission to its last end; the last day where that is not known."""
    times = [at for row in (*records, *known) if (at := moment_of(row[9]))]
    ends = [moment_of(row[12]) or now for row in (*records, *known)]
    since = min(times) if times else now - USER_EVENTS
    return int(since - MARGIN), int(min(now, max(ends, default=now) + MARGIN))


def add_events(request: Mapping[str, Any], context: Context, answer: Dict[str, Any], window: Tuple[int, int]) -> None:
    """Add the times that nodes were out of service."""
    command = commands.node_events(*window, EVENT_FIELDS, request.get("nodes", ()))
    shown = context.must(command, seconds=SECONDS, env=EPOCH)
    rows = [line.split("|", len(EVENT_FIELDS) - 1) for line in shown.split("\n") if line]
    answer["events"] = [row for row in rows if len(row) == len(EVENT_FIELDS)][-MOST_ROWS:]
    if request.get("job"):
        shown = context.must(commands.past_reservations(*window), seconds=SECONDS, env=EPOCH)
        rows = [line.split("|") for line in shown.split("\n") if line]
        answer["past_reservations"] = [row for row in rows if len(row) == RESERVATION_FIELDS][-MOST_ROWS:]


def add_others(request: Mapping[str, Any], context: Context, answer: Dict[str, Any], window: Tuple[int, int]) -> None:
    """Add the jobs that had nodes at the end of the wait, or on these nodes, and those of dependencies."""
    if request.get("user"):
        return  # their own are there already, and squeue told who has nodes now
    since, until = window
    if request.get("job"):
        starts = [at for row in answer["records"] if (at := moment_of(row[11]))]
        since = max(since, max(starts, default=until) - QUEUE_SECONDS)
    options = ("--allocations", *filter_of(request))
    answer["others"] = asked_in_seconds(context, commands.job_records(since, until, RECORD_FIELDS, *options))
    named = jobs_named([*(row[-1] for row in answer["records"]), *(row[18] for row in own(request, answer))])
    if named:
        answer["others"] += asked_in_seconds(context, commands.records_of(named, RECORD_FIELDS, "--allocations"))


def own(request: Mapping[str, Any], answer: Mapping[str, Any]) -> List[Sequence[str]]:
    """The rows of slurmctld's memory that are about the job."""
    job = request.get("job", "")
    return [row for row in answer["memory"] if job and job in (row[0], row[1], re.split("[_+]", row[0])[0])]


def jobs_named(texts: Iterable[str]) -> List[str]:
    """The ids of jobs that dependencies name."""
    words = (word for text in texts for found in re.findall(_NAMED, text) for word in re.split(r"[:?,]", found))
    ids = {word.partition("+")[0] for word in words}  # `after:12+5` is five minutes after job 12
    return sorted(one for one in ids if commands.is_job_id(one))[:MOST_NAMED]


def name_of(uid: str) -> str:
    """The login name of a user; empty if this host knows none."""
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError, OverflowError):
        return ""


def expired(user: str, context: Context) -> str:
    """The day since 1970 on which a user has expired; empty where that is not so, or not known."""
    try:
        shadow = context.must(("getent", "shadow", user), seconds=HOME_SECONDS).split(":")
    except ResourceFailed:
        return ""
    day = shadow[SHADOW_EXPIRES] if len(shadow) > SHADOW_EXPIRES else ""
    return day if (number_of(day) or LATEST) * DAY <= time.time() else ""


def account_of(user: str, context: Context) -> Dict[str, str]:
    """What a host has of a user: `uid`, `home`, its `owner`, `free` MiB and `files` there; or the `trouble`.

    Also the `shell`, and the day since 1970 on which the account has `expired`, empty where it has not.
    """
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return {"trouble": "there is no such user"}
    answer = {"uid": str(found.pw_uid), "home": found.pw_dir, "shell": found.pw_shell, "trouble": ""}
    answer["expired"] = expired(user, context)
    try:  # a file server that hangs keeps a program waiting, and not the agent
        owner = context.must(("stat", "--format=%u", found.pw_dir), seconds=HOME_SECONDS)
        free = context.must(("stat", "--file-system", "--format=%a %S %d %c", found.pw_dir), seconds=HOME_SECONDS)
        blocks, size, files, most = map(int, free.split())
    except (ResourceFailed, ValueError) as error:
        return {**answer, "trouble": str(error)}
    answer.update(owner=owner.strip(), free=str(blocks * size >> 20), files=str(files) if most else "")
    return answer
