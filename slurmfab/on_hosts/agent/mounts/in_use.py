"""Who uses a file system of this host: running jobs, processes and services; nothing here asks its server."""

from __future__ import annotations

import os
from typing import Iterator, List, Set

from slurmfab.on_hosts.agent.core.listing import first_of
from slurmfab.on_hosts.agent.core.mounts import below
from slurmfab.on_hosts.agent.core.reading import names, read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes import job_processes

TOLD = 4  # how many processes are named


def running_jobs(context: Context) -> List[str]:
    """The ids of the jobs that run on this host, by Slurm's step daemons."""
    steps = job_processes.read({}, context)["steps"]
    return sorted({str(step).partition(".")[0] for step in steps}, key=int)


def told_jobs(jobs: List[str]) -> str:
    """Jobs as a part of a sentence, such as `job 7 runs here`."""
    return ("job %s runs here" if len(jobs) == 1 else "jobs %s run here") % ", ".join(jobs)


def processes(context: Context, path: str) -> List[str]:
    """Processes with files below a directory, as `NAME (PID, user)`, by /proc and without asking servers."""
    proc = context.path("/proc")
    found = []
    for pid in names(proc):
        if pid.isdecimal() and int(pid) != os.getpid() and any(below(file, path) for file in files(proc, pid)):
            name = read_text("%s/%s/comm" % (proc, pid)).strip()
            found.append("%s (PID %s, UID %s)" % (name.encode("ascii", "replace").decode(), pid, owner(proc, pid)))
    return first_of(found, TOLD)


def files(proc: str, pid: str) -> Iterator[str]:
    """The paths of the files and directories that a process uses."""
    directory = "%s/%s" % (proc, pid)
    links = [directory + "/" + name for name in ("cwd", "root", "exe")]
    for link in (*links, *("%s/fd/%s" % (directory, name) for name in names(directory + "/fd"))):
        try:
            yield os.readlink(link)
        except OSError:
            continue
    mapped: Set[bytes] = {
        line.split(None, 5)[-1] for line in read_bytes(directory + "/maps").splitlines() if b"/" in line
    }
    yield from (os.fsdecode(one) for one in mapped)


def owner(proc: str, pid: str) -> str:
    """The real UID of a process; empty if it has ended."""
    found = read_text("%s/%s/status" % (proc, pid)).partition("\nUid:")[2].split()
    return found[0] if found else ""
