"""The directory of a job on its node's own disk: made before the job (Prolog), removed after it (Epilog).

slurmd runs it as root. The work is done by a process of its own, which the disk may stop for as long as it likes: the
prolog then fails, so that Slurm takes the node out of service, and the epilog goes on without it. Directories of jobs
that do not run any more, as after a crash of the node, are removed on the same occasions.
"""

from __future__ import annotations

import os
import pwd
import select
import syslog
import time
from typing import Any, Callable, Mapping

from slurmfab.on_hosts.agent.core import removal
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import Folder
from slurmfab.on_hosts.agent.scratch import job_directories
from slurmfab.on_hosts.programs import starting

PROLOG, EPILOG = "prolog", "epilog"

LONGEST_PROLOG = 60.0  # seconds within which a directory is made, or the prolog fails

LONGEST_EPILOG = 30.0
"""Seconds for which the epilog waits until everything is removed; the rest is removed while it is no longer there."""

LONGEST_REMOVAL = 3600.0  # seconds after which a removal ends; the next job's prolog or epilog goes on with it
DONE = "done"  # what the process says when the job can begin, or does not see its directory any more

Tell = Callable[[str], None]


def main(word: str, settings: str) -> int:
    """Make or remove the directory of the job in the environment (slurm.conf(5), Prolog).

    Args:
        word: `prolog` or `epilog`.
        settings: path of a JSON file: `path` of the directories, `mount` (the mount point that they are on, or empty)
            and `node` (NodeName).

    Returns:
        The exit code: 1 if the directory could not be made. A directory that cannot be removed is only logged: it is
        closed to other users, and another try is made after the next job.
    """
    syslog.openlog("slurmfab-scratch", syslog.LOG_PID, syslog.LOG_DAEMON)
    wanted = starting.begin(settings)
    job, uid = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_JOB_UID", "")
    if not all(isinstance(wanted.get(key), str) for key in ("path", "mount", "node")):
        reason = starting.DAMAGED % settings
    elif not job_directories.is_job(job) or not uid.isdecimal():
        reason = "slurmd gave no job: SLURM_JOB_ID is %s, SLURM_JOB_UID %s" % (ascii(job), ascii(uid))
    elif word == PROLOG:
        reason = watched(lambda tell: before(wanted, job, int(uid), tell), LONGEST_PROLOG, to_the_end=False)
    else:
        reason = watched(lambda tell: after(wanted, job, tell), LONGEST_EPILOG, to_the_end=True)
    if not reason:
        return 0
    log("%s of job %s: %s" % (word, job, reason))
    code = starting.log(reason)  # slurmd logs it
    return code if word == PROLOG else 0


def log(text: str) -> None:
    """Log an error, in one line."""
    syslog.syslog(syslog.LOG_ERR, " ".join(text.split()).encode(errors="backslashreplace").decode())


def before(wanted: Mapping[str, Any], job: str, uid: int, tell: Tell) -> None:
    """Make the job's directory, `tell` that it can begin, and remove old ones; OSError, ResourceFailed."""
    context = Context()
    with job_directories.opened(context, wanted["path"]) as base:
        refuse_wrong_place(context, wanted)
        job_directories.make(context, base, job, uid, group_of(uid))
        tell(DONE)
        clean(context, base, wanted["node"], job)


def after(wanted: Mapping[str, Any], job: str, tell: Tell) -> None:
    """Remove the directory of a job, and those of jobs that do not run any more; the arguments are as for `before`."""
    context = Context()
    with job_directories.opened(context, wanted["path"]) as base:
        refuse_wrong_place(context, wanted)
        removal.set_aside(base, job)
        tell(DONE)
        clean(context, base, wanted["node"], job)


def refuse_wrong_place(context: Context, wanted: Mapping[str, Any]) -> None:
    """Raise ResourceFailed where other nodes could see the directories, or where their disk is not mounted."""
    reason = job_directories.wrong_place(context, wanted["path"], wanted["mount"])
    if reason:
        raise ResourceFailed(reason)


def clean(context: Context, base: Folder, node: str, job: str) -> None:
    """Remove the directories of jobs that have ended, in prolog or epilog of one; what fails is logged."""
    os.nice(10)
    try:
        for name in job_directories.unused(context, base, node, {job}):
            removal.set_aside(base, name)
    except (OSError, ResourceFailed) as error:
        log("directories of earlier jobs in %s are left for another time: %s" % (base.path, error))
    left = removal.empty(base, time.monotonic() + LONGEST_REMOVAL)
    if left:
        log("not removed: %s" % left)


def group_of(uid: int) -> int:
    """The GID of a user: of the job, or the user's own; -1 if neither is known, as nobody else may enter anyway."""
    known = os.environ.get("SLURM_JOB_GID", "")
    if known.isdecimal():
        return int(known)
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return -1


def watched(work: Callable[[Tell], None], seconds: float, *, to_the_end: bool) -> str:
    """Let a process of its own do some work, and wait for it; it goes on when the time is over.

    Args:
        work: is given a function that tells one line.
        seconds: for how long to wait at most.
        to_the_end: whether to wait for the end, and not only for the line.

    Returns:
        Why the work was not done; empty if it was.
    """
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        work_alone(work, writer)
    os.close(writer)
    answer, deadline = b"", time.monotonic() + seconds
    while to_the_end or b"\n" not in answer:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(reader, 4096) if ready else b""
        if not piece:
            break
        answer += piece
    line = answer.decode(errors="replace").partition("\n")[0]
    if line == DONE:
        return ""
    return line or "the disk has not answered for %.0f s" % seconds


def work_alone(work: Callable[[Tell], None], writer: int) -> None:
    """Do the work, which gets a function that tells a line, in this process; slurmd does not wait for its end."""

    def tell(line: str) -> None:
        try:
            os.write(writer, ("%s\n" % " ".join(line.split())).encode())
        except OSError:
            log(line)  # nobody waits any more

    code = 0
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        work(tell)
    except (OSError, ResourceFailed) as error:
        tell(str(error))
    except BaseException as error:  # the process must not go on as another prolog
        tell("%s: %s" % (type(error).__name__, error))
        code = 1
    finally:
        os._exit(code)
