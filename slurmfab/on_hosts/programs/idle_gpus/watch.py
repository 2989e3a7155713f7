"""Looks on a node for jobs whose GPUs are idle, and notes them; runs as long as the node does.

NVIDIA's driver keeps the use of a GPU of the last 14 s, in samples of 0.2 s; one nvidia-smi that prints their highest
every 10 s misses none (driver 580 on an H100: kernels of 50 ms every 11 s were seen in each report, 0.4 % of use was
not; a report costs 15 ms of processor time). Where a report is missing, or a GPU tells nothing, as in MIG mode, the GPU
counts as busy.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from typing import Callable, Dict, FrozenSet, Iterator, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.facts import nvidia_gpus
from slurmfab.on_hosts.agent.facts.pci import address
from slurmfab.on_hosts.programs import starting
from slurmfab.on_hosts.programs.idle_gpus import notes
from slurmfab.on_hosts.programs.starting import DAMAGED, log

EVERY = 10  # seconds between two reports
LONGEST_GAP = 13.5  # seconds between two reports within which every sample is in one of them
TELL_EVERY = 60.0  # seconds between two rounds of notes
REPEAT = 240.0  # seconds after which an unchanged note is written again, since an old one does not count

REMOVALS = 5
"""How many rounds a removed note is looked for, because a controller may have written it at the same moment."""

JOBS = "/run/slurmfab-idle-gpus"
"""A file for each job with GPUs of this node, by its number, with the numbers of their device files; the prolog makes
it, the epilog removes it."""

SMI = ("nvidia-smi", "-q", "-d", "UTILIZATION", "-l", str(EVERY))
SAMPLES = "GPU Utilization Samples"


def main(settings: str) -> int:
    """Look at GPUs until nvidia-smi ends, by JSON with `node` and `after`; 1, and systemd starts it again."""
    wanted = starting.begin(settings)
    if not isinstance(wanted.get("node"), str) or not isinstance(wanted.get("after"), int):
        return log(DAMAGED % settings)
    minors = {
        str(gpu["bus"]): int(gpu["minor"])
        for gpu in (nvidia_gpus.driver_gpus("") or nvidia_gpus.parse_details(nvidia_gpus.run_smi("", "-q")))
    }
    if not minors:
        return log("NVIDIA's driver names no GPU")
    watch = Watch(wanted["node"], wanted["after"], time.time())
    with subprocess.Popen(SMI, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        try:
            watch_reports(watch, minors, run)
        finally:
            run.kill()
    return log("nvidia-smi has ended with exit code %s" % run.returncode)


def watch_reports(watch: Watch, minors: Dict[str, int], run: subprocess.Popen[bytes]) -> None:
    """Give nvidia-smi's reports to the watch, and have it write notes; `minors`: device numbers by slot."""
    assert run.stdout is not None
    context, told = Context(), time.monotonic()
    parser = Reports()
    while True:
        ready = select.select([run.stdout], [], [], 1.0)[0]
        data = os.read(run.stdout.fileno(), 1 << 16) if ready else b""
        if ready and not data:
            return
        for bus, most in parser.feed(data):
            if bus in minors:
                watch.report(minors[bus], most, time.time())
        if time.monotonic() - told >= min(TELL_EVERY, watch.after / 4):
            told = time.monotonic()
            watch.tell(held(), time.time(), lambda job, idle: note(context, job, watch.node, idle))


class Reports:
    """Reads what nvidia-smi prints, in pieces of any length."""

    def __init__(self) -> None:
        self.rest, self.bus, self.section = "", "", ""

    def feed(self, data: bytes) -> Iterator[Tuple[str, Optional[int]]]:
        """Yield the slot of each GPU whose samples are complete, and their highest in percent; `None` if unknown."""
        *lines, self.rest = (self.rest + data.decode("ascii", "replace"))[-(1 << 16) :].split("\n")
        for line in lines:
            if line.startswith("GPU "):
                self.bus = address(line[4:].strip())
            elif line.rstrip().endswith(" Samples"):
                self.section = line.strip()
            elif self.section == SAMPLES and re.match(r"\s+Max\s*:", line):
                value = re.search(r": (\d+) %", line)
                yield self.bus, int(value[1]) if value else None


class Watch:
    """Since when each GPU is idle, from `now` on, and notes on jobs after so many seconds without work."""

    def __init__(self, node: str, after: int, now: float) -> None:
        self.node, self.after, self.begin = node, after, now
        self.busy: Dict[int, float] = {}
        self.reported: Dict[int, float] = {}
        self.noted: Dict[str, float] = {}
        self.removals: Dict[str, int] = {}

    def report(self, minor: int, most: Optional[int], now: float) -> None:
        """Take the highest use of a GPU since the last report, in percent; `None` if it is unknown."""
        is_whole = 0 <= now - self.reported.get(minor, -1.0) <= LONGEST_GAP
        if most != 0 or not is_whole:
            self.busy[minor] = now
        self.reported[minor] = now

    def since(self, minors: FrozenSet[int], started: float, now: float) -> float:
        """When one of these GPUs was last busy, or the job began."""
        if any(now - self.reported.get(minor, 0.0) > LONGEST_GAP for minor in minors):
            return now
        return max(started, self.begin, *(self.busy.get(minor, now) for minor in minors))

    def tell(
        self,
        jobs: Dict[str, Tuple[FrozenSet[int], float]],
        now: float,
        note: Callable[[str, Optional[notes.Idle]], bool],
    ) -> None:
        """Note the jobs whose GPUs are idle for long enough, and remove the notes of those that work.

        Args:
            jobs: the GPUs of each job on this node, and when it began.
            note: writes or removes the note of this node on a job, and returns whether slurmctld has taken it.
        """
        for job, (minors, started) in jobs.items():
            since = self.since(minors, started, now)
            if now - since >= self.after:
                if now - self.noted.get(job, 0.0) >= REPEAT and note(job, notes.Idle(int(since), int(now))):
                    self.noted[job] = now
                    self.removals[job] = REMOVALS
            elif self.removals.get(job) and note(job, None):
                self.noted.pop(job, None)
                self.removals[job] -= 1
        for job in set(self.noted) - set(jobs):
            self.removals.pop(job, None)
            del self.noted[job]


def held(directory: str = JOBS) -> Dict[str, Tuple[FrozenSet[int], float]]:
    """The GPUs of each job on this node, by the numbers of their device files, and when it began."""
    found: Dict[str, Tuple[FrozenSet[int], float]] = {}
    for job in names(directory):
        path = os.path.join(directory, job)
        minors = frozenset(int(word) for word in re.findall(r"\d+", read_text(path)[:4096]))
        try:
            if job.isdecimal() and minors:
                found[job] = minors, os.stat(path).st_mtime
        except OSError:
            continue
    return found


def note(context: Context, job: str, node: str, idle: Optional[notes.Idle]) -> bool:
    """Write or remove the note of a node on a job; whether slurmctld has taken it, or does not run the job."""
    try:
        present = notes.of_job(context, job)
        if present is None:
            return True
        wanted = present.on_node(node, idle)
        if wanted != present:
            notes.write(context, job, wanted)
    except ResourceFailed as error:
        log("job %s: %s" % (job, error))
        return False
    return True
