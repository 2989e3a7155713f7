"""Slurm's hostlists, such as `cn[01-16],gpu[1-2]`: expanded, folded and zipped. The one place that knows ClusterShell.

ClusterShell folds. Expanding is done here, because a NodeSet sorts (and the user's first host becomes the controller),
refuses `n[001-1000]`, and knows operators (`@group`, `!`, `&`, `^`, `*`, steps) that Slurm does not.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slurmfab.errors import HostlistError

# slurm.conf(5), MaxNodeCount: Slurm has no more nodes than this.
MOST_HOSTS = 65536
HIGHEST_PORT = 65535

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\+-]*")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_BRACKETED_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\](?::(.*))?")
_OPERATORS = {
    "@": "groups of hosts (@) are not known here",
    "!": "hosts cannot be excluded with !",
    "&": "hostlists cannot be intersected with &",
    "^": "hostlists cannot be combined with ^",
    "*": "there are no wildcards (*) here",
    "/": "ranges have no steps (/) in Slurm",
}


@dataclass(frozen=True)
class Endpoint:
    """Where SSH goes: a name or IP address, with the user and the port if they were said (`""` and `0` if not)."""

    address: str
    user: str = ""
    port: int = 0


def expand(hostlist: str) -> tuple[str, ...]:
    """The host names in a hostlist, in the order in which the user wrote them.

    >>> expand("n3,n[01-02]")
    ('n3', 'n01', 'n02')

    Raises:
        HostlistError: the text is no hostlist, a name is no host name, or a host is in it twice.
    """
    names = _expand_text(hostlist)
    for name in names:
        _check_name(name, hostlist)
    _check_unique(names, hostlist)
    return names


def expand_endpoints(hostlist: str) -> tuple[Endpoint, ...]:
    """The same for what `--hosts` takes: names or addresses, each with `user@` and `:port` if need be.

    >>> expand_endpoints("root@n[1-2]:2222")[1]
    Endpoint(address='n2', user='root', port=2222)

    IPv6 addresses go plain (`fe80::1`), or in brackets when a port follows (`[fe80::1]:2222`).

    Raises:
        HostlistError: as for `expand`; also for a port that is none.
    """
    endpoints = tuple(endpoint for entry in entries(hostlist) for endpoint in _expand_endpoint(entry, hostlist))
    _check_unique([endpoint.address for endpoint in endpoints], hostlist)
    return endpoints


def entries(hostlist: str) -> list[str]:
    """What stands between the commas of a hostlist, leaving those inside brackets alone.

    >>> entries("mn01,cn[01-04,07]")
    ['mn01', 'cn[01-04,07]']

    Raises:
        HostlistError: an entry is empty, or brackets do not match.
    """
    found, depth = [""], 0
    for character in hostlist.strip():
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise HostlistError(f'"{hostlist}" is no hostlist: its brackets do not match.')
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    if depth:
        raise HostlistError(f'"{hostlist}" is no hostlist: a closing bracket is missing.')
    if not all(entry.strip() for entry in found):
        reason = "there is nothing before or after a comma" if hostlist.strip() else "it is empty"
        raise HostlistError(f'"{hostlist}" is no hostlist: {reason}.')
    return [entry.strip() for entry in found]


def fold(names: Iterable[str]) -> str:
    """The shortest hostlist that Slurm reads as these names; their order does not matter.

    Only the number at a name's end becomes a range: not every Slurm since 22.05 reads text behind a bracket.

    >>> fold(["n2", "n1", "n3", "login"])
    'login,n[1-3]'
    """
    plain: list[str] = []
    numbered: list[str] = []
    for name in sorted(set(names)):
        (numbered if name[-1:].isdigit() else plain).append(name)
    return ",".join(part for part in (",".join(plain), _fold_numbered(numbered)) if part)


def extend(some: Iterable[str], names: Iterable[str]) -> list[str]:
    """Entries of a hostlist with further names; each entry stays as it is, or takes in the names that continue it.

    >>> extend(["mn01", "cn[01-04]"], ["cn05", "gpu1"])
    ['mn01', 'cn[01-05]', 'gpu1']
    """
    extended = list(some)
    families: dict[str, list[str]] = defaultdict(list)
    for name in names:
        families[_stem(name)].append(name)
    for family in families.values():
        for number, entry in enumerate(extended):
            inside = expand(entry)
            longer = fold((*inside, *family))
            if fold(inside) == entry and len(entries(longer)) == 1:
                extended[number] = longer
                break
        else:
            extended += entries(fold(family))
    return extended


def zip_hostlists(names: str, addresses: str) -> dict[str, str]:
    """The mapping that two hostlists of one length make, the first name with the first address and so on.

    >>> zip_hostlists("cn[01-02]", "10.0.1.[1-2]")
    {'cn01': '10.0.1.1', 'cn02': '10.0.1.2'}

    Raises:
        HostlistError: one of them is no hostlist, or they are not equally long.
    """
    keys, values = expand(names), _expand_text(addresses)
    if len(keys) != len(values):
        raise HostlistError(
            f'"{names}" is {_count(len(keys), "host")}, but "{addresses}" is '
            f"{_count(len(values), 'address', 'addresses')}. There must be one for each host."
        )
    return dict(zip(keys, values, strict=True))


def zip_fold(addresses: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Pairs of hostlists that `zip_hostlists` reads as these pairs of name and address: one pair where that is exact.

    >>> zip_fold([("cn01", "10.0.1.1"), ("cn02", "10.0.1.2")])
    (('cn[01-02]', '10.0.1.[1-2]'),)
    """
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for name, address in addresses:
        groups[_stem(name), _stem(address)].append((name, address))
    return tuple(pair for group in groups.values() for pair in _zip_group(group))


def _zip_group(group: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """One pair of hostlists where it reproduces the group exactly, else the group."""
    names, addresses = fold(name for name, _ in group), fold(address for _, address in group)
    try:
        exact = zip_hostlists(names, addresses) == dict(group)
    except HostlistError:
        exact = False
    return [(names, addresses)] if exact else group


def _stem(name: str) -> str:
    """A name without the number at its end."""
    return name.rstrip("0123456789")


def _fold_numbered(names: list[str]) -> str:
    """The names, which all end in a number, as a hostlist."""
    if not names:
        return ""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # noqa: PLC0415 - 26 ms that `fab --list` need not pay

    # Names with the same stem go in as one entry, which is parsed three times faster than each name by itself.
    families: dict[str, list[str]] = defaultdict(list)
    for name in names:
        stem = _stem(name)
        families[stem].append(name[len(stem) :])
    listed = [f"{stem}[{','.join(numbers)}]" for stem, numbers in families.items()]
    nodes = NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP)
    nodes.fold_axis = (-1,)
    return str(nodes)


def _expand_text(hostlist: str) -> tuple[str, ...]:
    """The entries of a hostlist with their ranges expanded, whatever the text around the ranges is."""
    return tuple(name for entry in entries(hostlist) for name in _expand_entry(entry, hostlist))


def _expand_entry(entry: str, hostlist: str) -> Iterator[str]:
    """One entry with each of its brackets expanded, the last bracket counting fastest."""
    parts = [
        tuple(_expand_ranges(part, hostlist)) if number % 2 else (part,)
        for number, part in enumerate(re.split(r"\[([^]]*)\]", entry))
    ]
    total = 1
    for part in parts:
        total *= len(part)
    if total > MOST_HOSTS:
        raise HostlistError(f'"{hostlist}" is too long: Slurm knows at most {MOST_HOSTS} nodes.')
    return ("".join(words) for words in itertools.product(*parts))


def _expand_ranges(ranges: str, hostlist: str) -> list[str]:
    """What stands between two brackets, as numbers with their leading zeros."""
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            reason = _OPERATORS["/"] if "/" in part else f'"{part}" is no number and no range such as 1-4'
            raise HostlistError(f'"{hostlist}" is no hostlist: {reason}.')
        low, high = match[1], match[2] or match[1]
        # n[09-010] and n[01-1] say two widths at once; n[001-1000] says one, which 1000 outgrows.
        if int(high) < int(low) or len(high) < len(low) or (len(high) > len(low) and high.startswith("0")):
            raise HostlistError(f'"{hostlist}" is no hostlist: the range {part} does not count upwards.')
        if int(high) - int(low) >= MOST_HOSTS:
            raise HostlistError(f'"{hostlist}" is too long: Slurm knows at most {MOST_HOSTS} nodes.')
        numbers += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return numbers


def _expand_endpoint(entry: str, hostlist: str) -> Iterator[Endpoint]:
    """One entry of `--hosts`, such as `root@n[1-3]:2222`."""
    user, at, place = entry.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise HostlistError(f'"{hostlist}": "{user}" before the @ is no user name.')
    bracketed = _BRACKETED_IPV6.fullmatch(place)
    if bracketed:
        yield Endpoint(_ipv6(bracketed[1], hostlist), user, _port(bracketed[2], hostlist))
        return
    for text in _expand_entry(place, hostlist):
        if text.count(":") > 1:
            yield Endpoint(_ipv6(text, hostlist), user)
            continue
        address, colon, port = text.partition(":")
        _check_name(address, hostlist)
        yield Endpoint(address, user, _port(port if colon else None, hostlist))


def _ipv6(text: str, hostlist: str) -> str:
    """An IPv6 address as the user wrote it, once it is known to be one."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        raise HostlistError(f'"{hostlist}": "{text}" is no IPv6 address.') from None
    return text


def _port(text: str | None, hostlist: str) -> int:
    """A port's number, 0 when none was said."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= HIGHEST_PORT):
        raise HostlistError(f'"{hostlist}": "{text}" is no port. A port is a number from 1 to {HIGHEST_PORT}.')
    return int(text)


def _check_name(name: str, hostlist: str) -> None:
    """Stop at what is no host name, with the reason where it looks like something else that people try."""
    if _NAME.fullmatch(name):
        return
    if any(character.isspace() for character in name):
        raise HostlistError(f'"{hostlist}" is no hostlist: write commas between hosts, and no spaces in them.')
    for character, reason in _OPERATORS.items():
        if character in name:
            raise HostlistError(f'"{hostlist}" is no hostlist: {reason}. Name the hosts, as in n1,n[3-5].')
    raise HostlistError(
        f'"{hostlist}": "{name}" is no host name. It has letters, digits, dots, hyphens and underscores, '
        "and begins with a letter or digit."
    )


def _check_unique(names: Sequence[str], hostlist: str) -> None:
    """Stop at names that are there twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise HostlistError(f'"{hostlist}" names {", ".join(twice)} more than once. Each host goes in once.')


def _count(number: int, word: str, words: str = "") -> str:
    """A number with its noun."""
    return f"{number} {word if number == 1 else words or word + 's'}"
