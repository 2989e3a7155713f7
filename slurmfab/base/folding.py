"""Equal texts of many hosts told once, with the hosts as a hostlist."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import family
from slurmfab.base.terminal import hang

HOST, ADDRESS = "\0", "\1"  # what stands in a text for the host's name, and for an IP address

_IPV4, _IPV6 = r"\d{1,3}(?:\.\d{1,3}){3}", r"[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:]*"
_ADDRESS_LIKE = re.compile(rf"(?<![\w.:-])(?:{_IPV4}|{_IPV6})(?![\w:-])")


class Folded(NamedTuple):
    """Texts, and the hosts that they are about."""

    hosts: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def hostlist(self) -> str:
        """The hosts, as in `n[1-96]`."""
        return fold(self.hosts)


class _Template(NamedTuple):
    """Texts with gaps where a host's name and addresses stood."""

    texts: tuple[str, ...]
    place: str


def fold_lines(lines: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each group of hosts with the same text, as in `n[2-96]: no answer.`; further lines are indented."""
    return [f"{one.hostlist}: {hang(one.texts[0])}" for one in fold_texts((host, (text,)) for host, text in lines)]


def fold_texts(host_texts: Iterable[tuple[str, Sequence[str]]], *, apart: bool = False) -> list[Folded]:
    """The texts of hosts, those put together that differ in nothing but the host's name and IP addresses.

    Names and addresses that differ become hostlists, so none is lost:

    >>> fold_texts([("n1", ("no answer from 10.0.0.1",)), ("n2", ("no answer from 10.0.0.2",))])
    [Folded(hosts=('n1', 'n2'), texts=('no answer from 10.0.0.[1-2]',))]

    Args:
        host_texts: a host with its texts, of which each host may have several; those of one group are all equal.
        apart: whether to keep all hosts apart.

    Returns:
        The groups, in the order of their first host.
    """
    pairs = list(dict.fromkeys((host, tuple(texts)) for host, texts in host_texts))
    # A text that several hosts share word for word is about none of them, even if it names one.
    shared = Counter(texts for _, texts in pairs)
    groups: dict[_Template, list[tuple[str, list[str]]]] = {}
    for host, texts in pairs:
        place = host if apart else ""
        if shared[texts] > 1:
            groups.setdefault(_Template(texts, place), []).append((host, []))
            continue
        addresses: list[str] = []
        gapped = tuple(_without_addresses(without_name(host, text), addresses) for text in texts)
        groups.setdefault(_Template(gapped, place), []).append((host, addresses))
    return [_filled(template, members) for template, members in groups.items()]


def without_name(host: str, text: str) -> str:
    """A text with gaps where it names a host."""
    if host not in text:  # a pattern for each of ten thousand hosts takes its time
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", HOST, text)


def _without_addresses(text: str, addresses: list[str]) -> str:
    """A text with gaps where it names IP addresses, which are appended to a list."""

    def gap(match: re.Match[str]) -> str:
        if not family(match[0]):
            return match[0]
        addresses.append(match[0])
        return ADDRESS

    return _ADDRESS_LIKE.sub(gap, text)


def _filled(template: _Template, members: Sequence[tuple[str, Sequence[str]]]) -> Folded:
    """A group with the names and addresses of its members in the gaps of its texts."""
    hosts = tuple(dict.fromkeys(host for host, _ in members))
    folded = iter([fold(of_gap) for of_gap in zip(*(addresses for _, addresses in members), strict=True)])
    names = fold(hosts)
    texts = [re.sub(ADDRESS, lambda _: next(folded), text.replace(HOST, names)) for text in template.texts]
    return Folded(hosts, tuple(texts))
