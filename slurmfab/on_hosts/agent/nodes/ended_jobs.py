"""Jobs that have ended and still hold their nodes: since when, and what they wait for there.

slurmctld gives a job's node free when its epilog and its last process have ended. Until then the job is COMPLETING, and
its record says how its script ended, as if all were over.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import number_of
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.lost_jobs import clock, seconds_of

ASKED_AGAIN_SECONDS = 300.0  # within which slurmctld asks again a slurmd that it has not reached
LATE_SECONDS = 60.0  # after the end of a job; its processes get KillWait to end, which is 30 s

LOOK = (
    "ps -e -o pid= -o ppid= -o uid= -o stat= -o etimes= -o args=; "
    "for child in $(cat /proc/$(systemctl show --property=MainPID --value slurmd)/task/*/children 2>/dev/null); do "
    r"""tr '\0' '\n' <"/proc/$child/environ" 2>/dev/null | """
    r"""sed -n "s/^SLURM_JOB_ID=\([0-9]*\)$/job $child \1/p"; done; :"""
)
"""Prints a node's processes, and of which job each prolog or epilog is that slurmd has started."""

_PROCESS = r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\d+)\s+(.*)"
_SCRIPT_OF = r"job (\d+) (\d+)"
_SECONDS = 20.0
_SHOWN = 100  # how many characters of a command line are told
_CHAIN = 50  # processes that can be below one another


class Ended(NamedTuple):
    """A job that has ended and still has nodes."""

    number: int  # its own number, by which step daemons have it
    id: str  # as squeue shows it
    user: str
    at: float  # its end, in seconds since 1970
    node_list: str  # the nodes that it still has, as a hostlist
    seconds: float  # since then

    @property
    def text(self) -> str:
        """It with its end: `job 12 of ann, which ended at 18:55:27`."""
        return "job %s of %s, which ended at %s" % (self.id, self.user, clock(self.at))


class Process(NamedTuple):
    """A process of a node."""

    pid: int
    parent: int
    uid: int
    state: str  # as ps(1) has it in STAT
    seconds: int  # its age
    command: str

    @property
    def shown(self) -> str:
        """Its command line, as far as it is told, and its PID."""
        text = "".join(letter if letter.isprintable() else "?" for letter in self.command[:_SHOWN])
        return "`%s%s` (PID %d)" % (text, "..." if len(self.command) > _SHOWN else "", self.pid)


class Wait(NamedTuple):
    """What a job waits for on a node."""

    text: str
    repair: str
    is_over: bool = False  # whether nothing of it is left there: slurmctld gives the node free some minutes later


def read(request: Mapping[str, Any], context: Context) -> Dict[str, List[str]]:
    """What each of `jobs`, numbers of jobs that have ended, waits for on this node, and its repair."""
    shown = context.must(("sh", "-c", LOOK), seconds=_SECONDS)
    return {str(number): [wait.text, wait.repair] for number, wait in waits(request["jobs"], shown).items()}


def late(shown: str, now: float) -> List[Ended]:
    """The jobs that ended more than a minute ago, from what `commands.COMPLETING_JOBS` printed."""
    found = []
    for line in shown.split("\n"):
        values = line.split("|")
        if len(values) != len(commands.COMPLETING_FIELDS) + 1 or not commands.is_job_id(values[1]):
            continue
        number, ident, user, end, nodes = values[:-1]
        at = seconds_of(end)
        if number_of(number) is not None and at is not None and now - at > LATE_SECONDS:
            found.append(Ended(int(number), ident, user, at, nodes, now - at))
    return found


def waits(numbers: Iterable[int], shown: str) -> Dict[int, Wait]:
    """What each of these jobs waits for on a node, from what `LOOK` printed there."""
    processes: Dict[int, Process] = {}
    scripts: Dict[int, List[int]] = {}
    for line in shown.split("\n"):
        match = re.fullmatch(_PROCESS, line)
        if match:
            pid, parent, uid, state, seconds, command = match.groups()
            processes[int(pid)] = Process(int(pid), int(parent), int(uid), state, int(seconds), command.strip())
        elif match := re.fullmatch(_SCRIPT_OF, line):
            scripts.setdefault(int(match[2]), []).append(int(match[1]))
    return {number: _wait(number, processes, scripts.get(number, ())) for number in numbers}


def _wait(number: int, processes: Dict[int, Process], scripts: Iterable[int]) -> Wait:
    """What a job waits for: its prolog or epilog, or else what is below its step daemons."""
    for script in scripts:
        if script in processes:
            chain = _below(processes[script], processes)  # from the program that slurm.conf names
            name = "prolog" if "prolog" in chain[0].command else "epilog"
            last, site = chain[-1], chain[min(1, len(chain) - 1)]
            text = "its %s has run for %d s: %s" % (name, chain[0].seconds, site.shown)
            text += ", which waits for " + last.shown if last is not site else ""
            end = "kill %d there; as the %s then fails, Slurm drains the node until it is resumed" % (last.pid, name)
            return _stuck(last, text) or Wait(text, end)
    named = re.compile(r"slurmstepd: \[%d\.(\w+)\]" % number)
    daemons = [(one, match[1]) for one in processes.values() if not one.uid and (match := named.match(one.command))]
    texts = {one: "slurmstepd of its step %s, PID %d," % (step, one.pid) for one, step in daemons}
    own = {below: "its process " + below.shown for one in texts for below in _all_below(one, processes)}
    for one, text in (*texts.items(), *own.items()):
        # A signal ends a process of the job that was stopped, but slurmstepd has to send it.
        stuck = _stuck(one, text) if one in texts or one.state.startswith("D") else None
        if stuck:
            return stuck
    for one, text in texts.items():
        return Wait(text + " does not end", "see slurmd's log there; kill -9 %d ends it" % one.pid)
    return Wait(
        "nothing of it runs there any more, and slurmctld has not heard of that",
        "wait some minutes, for slurmctld asks again; if slurmd does not answer it, see the other checks of the node",
        is_over=True,
    )


def _stuck(one: Process, text: str) -> Optional[Wait]:
    """What keeps a process from going on, if it is not itself. `text`: what it is."""
    if one.state.startswith("T"):
        return Wait(text + " was stopped by a signal (SIGSTOP)", "kill -CONT %d there" % one.pid)
    if one.state.startswith("D"):
        repair = "see what its file systems and devices say (dmesg there); if they stay away, only a reboot ends it"
        return Wait(text + " hangs in the kernel (state D), where no signal reaches it", repair)
    return None


def _below(one: Process, processes: Dict[int, Process]) -> List[Process]:
    """A process, a child of it, a child of that, and so on."""
    chain = [one]
    while len(chain) < _CHAIN:
        child = next((other for other in processes.values() if other.parent == chain[-1].pid), None)
        if child is None:
            break
        chain.append(child)
    return chain


def _all_below(one: Process, processes: Dict[int, Process]) -> List[Process]:
    """All processes below one."""
    found: List[Process] = []
    left = [one.pid]
    while left and len(found) < len(processes):
        new = [other for other in processes.values() if other.parent == left[0]]
        found, left = found + new, left[1:] + [other.pid for other in new]
    return found


def held_since(node_list: str, end: float) -> str:
    """What its user is told of such a job."""
    return (
        "It ended at %s and still holds %s: the epilog or a process of it there has not ended. "
        "Your administrators can see what it waits for." % (clock(end), node_list)
    )
