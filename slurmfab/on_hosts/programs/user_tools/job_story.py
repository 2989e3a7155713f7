"""What became of one job of a user, as far as Slurm shows it to them: waits, nodes, and how it ended."""

from __future__ import annotations

import time
from typing import Dict, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.accounting.job_records import Evidence, amounts, seconds_of
from slurmfab.on_hosts.agent.client.amounts import bounded, moment_of
from slurmfab.on_hosts.agent.client.commands import LOST, exit_code
from slurmfab.on_hosts.agent.nodes import ended_jobs
from slurmfab.on_hosts.programs.user_tools import asking, endings, reasons
from slurmfab.on_hosts.programs.user_tools.asking import RECORDED_FIELDS, REMEMBERED_FIELDS
from slurmfab.on_hosts.programs.user_tools.wanted import memory_text

WORDS = {
    "State": "State", "Reason": "Reason", "Submit": "SubmitTime", "Start": "StartTime", "End": "EndTime",
    "NodeList": "NodeList", "ExitCode": "exit_code", "JobID": "JobArrayID",
}  # fmt: skip
"""sacct's names, with those of squeue."""

MOST_LINES = 60
NO_NODES = ("", "(null)", "None assigned", "n/a")


def told(job: str) -> List[str]:
    """The lines about a job. Raises Silent if neither slurmctld nor slurmdbd answers or knows it."""
    (question, memory), (other, record) = asking.remembered_job(job), asking.recorded_job(job)
    answers = asking.ask({"memory": question, "record": other})
    now = [dict(zip(REMEMBERED_FIELDS, row)) for row in memory.rows(answers["memory"].text)]  # noqa: B905
    past = [dict(zip(RECORDED_FIELDS, row)) for row in record.rows(answers["record"].text)]  # noqa: B905
    found = story(now, past, time.time())
    if not found:
        raise asking.Silent(
            "Slurm shows you no job %s. It forgets jobs some minutes after their end where it keeps no records, and "
            "may show you none of others." % job
        )
    return found[:MOST_LINES]


def story(now: Sequence[Mapping[str, str]], past: Sequence[Mapping[str, str]], clock: float) -> List[str]:
    """The lines from squeue's and sacct's rows; what squeue says of a job that has not ended is newer."""
    jobs = [dict(row) for row in past if "." not in row["JobID"]]
    peaks: Dict[str, str] = {}
    short: Dict[str, List[str]] = {}
    steps: Dict[str, List[Tuple[str, str]]] = {}
    for row in past:
        name, dot, _ = row["JobID"].partition(".")
        if dot:
            steps.setdefault(name, []).append((row["TRESUsageInMax"], row["TRESUsageInTot"]))
        if dot and row["State"] == "OUT_OF_MEMORY":
            short.setdefault(name, []).append(row["JobID"])
        if dot and row["MaxRSS"] not in ("", "0"):
            peaks[name] = max(peaks.get(name, ""), row["MaxRSS"], key=lambda text: (len(text), text))
    known = {row["JobID"]: place for place, row in enumerate(jobs)}
    for one in now:
        newer = {name: one[other] for name, other in WORDS.items()}
        newer["ExitCode"] = exit_code(newer["ExitCode"])
        # slurmdbd knows no parts of a heterogeneous job that waits.
        place = known.get(newer["JobID"], known.get(newer["JobID"].partition("+0")[0]))
        if place is None:
            jobs.append(newer)
        elif jobs[place]["State"].split(" ")[0] in ("PENDING", "RUNNING", "SUSPENDED"):
            jobs[place].update(newer)
    found: List[str] = []
    held = {one["JobArrayID"]: one for one in now if one["State"] == "COMPLETING"}
    last = {one["JobID"]: place for place, one in enumerate(jobs)}
    for place, one in enumerate(jobs):
        found += of_job(one, peaks.get(one["JobID"], ""), clock)
        over = held.get(one["JobID"]) if last[one["JobID"]] == place else None
        if over and (end := moment_of(over["EndTime"])) and clock - end > ended_jobs.LATE_SECONDS:
            found.append("  " + ended_jobs.held_since(over["NodeList"], end))
        if short.get(one["JobID"]) and one["State"] == "COMPLETED":
            found.append("  A step ran out of memory all the same: %s." % ", ".join(short[one["JobID"]]))
        found += efficiency(one, Evidence.of(steps.get(one["JobID"], ())))
    return found


def of_job(job: Mapping[str, str], peak: str, clock: float) -> List[str]:
    """The lines about one attempt of a job. `peak`: the most memory that was measured; empty where it is not known."""
    state = job["State"].split(" ")[0]
    submitted, end = moment_of(job["Submit"]), moment_of(job["End"])
    if job.get("AdminComment") == LOST:
        return ["Job %s: lost by a crash at %s; it did not run. Submit it again." % (job["JobID"], at(submitted))]
    has_nodes = job["NodeList"] not in NO_NODES and state not in ("PENDING", "REQUEUE_HOLD")
    start = moment_of(job["Start"]) if has_nodes else 0
    found = ["Job %s: %s" % (job["JobID"], state)]
    if start:
        found.append("  Waited %s, started %s on %s." % (length(start - submitted), at(start), job["NodeList"]))
    elif state == "PENDING":
        sentence = reasons.explained(job["Reason"], job["JobID"])
        why = "%s [%s]" % (sentence, job["Reason"]) if sentence else "Slurm says: %s" % job["Reason"]
        found.append("  Has waited %s. %s" % (length(clock - submitted), why))
    if state == "COMPLETING" and start and end:
        found.append("  Ended %s after %s." % (at(end), length(end - start)))
    elif state in ("RUNNING", "SUSPENDED") and start:
        found.append("  It has run for %s." % length(clock - start))
    elif end and state != "PENDING":
        text = endings.meaning(state, job["ExitCode"])
        if state == "OUT_OF_MEMORY" and job.get("ReqMem"):
            text += ": it asked for %s%s" % (job["ReqMem"], ", and %s were measured" % peak if peak else "")
        if state == "TIMEOUT" and job.get("Timelimit"):
            text += " of " + job["Timelimit"]
        took = " after %s" % length(end - start) if start else ""
        found.append("  Ended %s%s: %s." % (at(end), took, text))
    return found


def efficiency(job: Mapping[str, str], seen: Evidence) -> List[str]:
    """The line that says how much of what it had a job used until its end, as far as Slurm has seen it."""
    start, end = moment_of(job["Start"]), moment_of(job["End"])
    had, cpu_used = amounts(job.get("AllocTRES", "")), seconds_of(job.get("TotalCPU", ""))
    cpus, memory = int(had.get("cpu", 0)), had.get("mem", 0.0)
    parts = []
    if 0 < start < end and cpus:
        asked = cpus * (end - start)
        parts.append("%d %% of %s (%s of %s of CPU time)" % (
            round(100 * cpu_used / asked), "1 CPU" if cpus == 1 else "%d CPUs" % cpus, length(cpu_used), length(asked),
        ))  # fmt: skip
    if seen.memory and memory:
        parts.append("%d %% of %s of memory" % (round(100 * seen.memory / memory), memory_text(int(memory))))
    if had.get("gres/gpu") and seen.gpu_peak >= 0:
        parts.append("at most %d %% of a GPU" % round(seen.gpu_peak))
    return ["  It used %s." % "; ".join(parts)] if parts else []


def at(seconds: int) -> str:
    """A time for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(bounded(seconds)))


def length(seconds: float) -> str:
    """How long something took.

    >>> length(65), length(11400)
    ('1 min 5 s', '3 h 10 min')
    """
    left = max(0, int(seconds))
    for size, unit, smaller, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= size:
            rest = left % size // smaller
            return "%d %s" % (left // size, unit) + (" %d %s" % (rest, small) if rest else "")
    return "%d s" % left
