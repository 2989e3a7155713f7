"""The lines of many hosts as one story: equal lines told once, with hosts and number, in the order of their times."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from slurmfab.base.folding import fold_texts, without_name
from slurmfab.base.hostlist import fold
from slurmfab.on_hosts.agent.logs.what_matters import jobs_in

_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_CLIENT_PORT = re.compile(
    r"(\d{1,3}(?:\.\d{1,3}){3}):(?:3[2-9]|[45]\d|6[0-5])\d{3}(?!\d)|((?<=\[)\d{1,3}(?:\.\d{1,3}){3}|\[[\w.-]{1,255}\]):\d{1,5}(?=\])"
)
"""An address or name with a port of the kernel's choice, which tells nothing and makes equal lines differ."""

_PROCESS = re.compile(r"\b(pid|process)([ =]+)\d+")

_NAME = re.compile(
    r"(?<![\w.-])([A-Za-z][A-Za-z0-9-]*?)(\d*)\[([\d,-]{1,4096})\]|(?<![\w.-])([A-Za-z0-9][A-Za-z0-9-]*)(?![\w-])"
)


class HostLine(NamedTuple):
    """A line of one host."""

    source: str  # the log, such as `slurmd`
    text: str  # without its time
    first: float  # when it came first, in seconds since 1970
    last: float  # when it came last
    number: int


class Told(NamedTuple):
    """A line of a log; equal ones, of one or many hosts, are one."""

    hosts: tuple[str, ...]  # on which they are
    source: str  # `slurmctld`, `slurmdbd`, `slurmd`, `munge` or `kernel`
    text: str  # without time
    first: float  # time of the first one
    last: float  # time of the last one
    number: int  # how many these are

    @property
    def hostlist(self) -> str:
        """The hosts, as in `n[1-96]`."""
        return fold(self.hosts)


def merge(by_host: Mapping[str, Iterable[HostLine]]) -> list[Told]:
    """The lines of all hosts by their first time, those told once that differ only in name or addresses."""
    groups: dict[tuple[str, str], list[tuple[str, HostLine]]] = {}
    for host, lines in by_host.items():
        for line in lines:
            text = _CLIENT_PORT.sub(r"\1\2", line.text)
            key = _PROCESS.sub(r"\1\2", _ADDRESS.sub("\1", without_name(host, text)))
            groups.setdefault((line.source, key), []).append((host, line._replace(text=text)))
    return sorted(map(_told, groups.values()), key=lambda line: (line.first, line.source, line.text))


def _told(members: Sequence[tuple[str, HostLine]]) -> Told:
    """The line of a group."""
    hosts = tuple(dict.fromkeys(host for host, _ in members))
    lines = [line for _, line in members]
    text = fold_texts((host, (line.text,)) for host, line in members)[0].texts[0] if hosts[1:] else lines[0].text
    first, last = min(line.first for line in lines), max(line.last for line in lines)
    return Told(hosts, lines[0].source, text, first, last, sum(line.number for line in lines))


def is_about(text: str, nodes: Collection[str], all_hosts: Collection[str], jobs: Collection[str] = ()) -> bool:
    """Whether a line of a controller's log is about some nodes, or about no node in particular.

    Args:
        all_hosts: all hosts of the cluster.
        jobs: ids of a job; a line that names it is about its nodes. Without, a line about jobs has to name a node.
    """
    named_jobs = jobs_in(text)
    if not named_jobs.isdisjoint(jobs):
        return True
    named = bool(named_jobs)
    for prefix, more, ranges, word in _NAME.findall(text):
        if ranges:
            stem = prefix + more
            of_list = [host for host in nodes if _is_in(host, stem, ranges)]
            if of_list:
                return True
            named = named or any(host.startswith(prefix) for host in all_hosts)
        elif word in nodes:
            return True
        else:
            named = named or word in all_hosts
    return not named


def _is_in(host: str, stem: str, ranges: str) -> bool:
    """Whether a host is in a list, given what is before the brackets and in them; no list is expanded."""
    number = host[len(stem) :]
    if not host.startswith(stem) or not number.isdecimal():
        return False
    for one in ranges.split(","):
        low, _, high = one.partition("-")
        if low.isdecimal() and int(low) <= int(number) <= int(high if high.isdecimal() else low):
            return True
    return False
