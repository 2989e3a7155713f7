"""What is noted about a job's idle GPUs in its AdminComment, which its user sees and slurmdbd keeps.

Each node of a job writes since when its part of the GPUs is idle, and when it last saw that; a controller writes a
sentence. What an administrator has written there stays in front.
"""

from __future__ import annotations

import re
import time
from typing import Dict, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import bounded
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

SECONDS = 30.0  # time limit of a question to slurmctld

_NOTE = re.compile(r" ?\[idle GPUs: (?P<text>[^\[\]|]*)\|(?P<nodes>[^\[\]|]*)\]")
_NODE = re.compile(r"(\S+) (\d{1,12})-(\d{1,12})")
_EMPTY = ("", "(null)", "N/A")


class Idle(NamedTuple):
    """The GPUs of a job on one node; both times in seconds since 1970."""

    since: int  # when they were last busy
    seen: int  # when the node last looked


class Note(NamedTuple):
    """An AdminComment."""

    others: str = ""  # what is not ours
    text: str = ""  # for the user
    nodes: Tuple[Tuple[str, Idle], ...] = ()  # by NodeName

    @classmethod
    def read(cls, comment: str) -> Note:
        """The note in an AdminComment."""
        whole = "" if comment in _EMPTY else comment
        found = _NOTE.search(whole)
        if found is None:
            return cls(whole)
        nodes = {name: Idle(int(since), int(seen)) for name, since, seen in _NODE.findall(found["nodes"])}
        return cls(whole[: found.start()] + whole[found.end() :], found["text"].strip(), tuple(sorted(nodes.items())))

    def written(self) -> str:
        """The AdminComment with this note; without it where there is nothing to say."""
        if not self.text and not self.nodes:
            return self.others
        nodes = ", ".join("%s %d-%d" % (name, *idle) for name, idle in self.nodes)
        return ("%s [idle GPUs: %s|%s]" % (self.others, self.text, nodes)).lstrip()

    def on_node(self, node: str, idle: Optional[Idle]) -> Note:
        """The note with another time of a node; without the node for `None`."""
        nodes: Dict[str, Idle] = dict(self.nodes)
        nodes.pop(node, None)
        if idle is not None:
            nodes[node] = idle
        return self._replace(nodes=tuple(sorted(nodes.items())))

    def since(self, count: int, now: float, oldest: float) -> Optional[int]:
        """Since when all GPUs of a job on `count` nodes are idle; `None` if one tells nothing for `oldest` seconds."""
        if len(self.nodes) < count or any(not 0 <= now - idle.seen <= oldest for _, idle in self.nodes):
            return None
        return max(idle.since for _, idle in self.nodes)


def of_job(context: Context, job: str) -> Optional[Note]:
    """The note of a running job; `None` for another. Raises ResourceFailed if slurmctld does not answer."""
    table = commands.jobs(("State", "admin_comment"), "--jobs=" + ",".join(commands.job_ids([job])))
    done = context.run(table.argv, seconds=SECONDS, env=table.env)
    error = done.stderr.decode(errors="replace").strip()
    if done.returncode and "Invalid job id" in error:
        return None
    if done.returncode:
        raise ResourceFailed("squeue: %s" % error)
    rows = table.rows(done.stdout.decode(errors="replace"))
    return Note.read(rows[0][1].strip()) if rows and rows[0][0] == "RUNNING" else None


def write(context: Context, job: str, note: Note) -> None:
    """Write an AdminComment. Raises ResourceFailed if slurmctld does not take it."""
    context.must(commands.update_job(job, "AdminComment=" + note.written()), seconds=SECONDS)


def moment(when: float) -> str:
    """A time for people, as `2026-11-26 14:30`, in the host's zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(bounded(when)))
