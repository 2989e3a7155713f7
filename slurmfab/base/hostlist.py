"""Slurm's hostlists, such as `cn[01-16],gpu[1-2]`: expand, fold and zip them. No other module parses such ranges.

It reads and writes the same texts as `scontrol show hostnames` and `scontrol show hostlist`. ClusterShell's NodeSet
does not: it sorts (and the user's first host becomes the controller), refuses `n[001-1000]`, writes `n[1-2]-ib`, which
Slurm refuses, and knows operators (`@group`, `!`, `&`, `^`, `*`, steps) that Slurm does not. It is not faster either.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from slurmfab.base.errors import HostlistError
from slurmfab.base.ip_addresses import IPV6, canonical, family

# slurm.conf(5), MaxNodeCount: the most nodes that Slurm supports.
MOST_HOSTS = 65536
HIGHEST_PORT = 65535

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\+-]*")
_LONGEST_NAME = 253  # the most characters of a name in the DNS (RFC 1035, section 2.3.4)
_LONGEST_AROUND = 512  # the most characters around the brackets of an entry, each of whose names has them
_MOST_DIGITS = 9  # the most digits of a number in brackets; further digits of a name stay before the bracket
_RANGE = re.compile(rf"([0-9]{{1,{_MOST_DIGITS}}})(?:-([0-9]{{1,{_MOST_DIGITS}}}))?")
_BRACKETED_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)\](?::(.*))?")
_OPERATORS = {
    "@": "host groups (@) are not supported",
    "!": "hosts cannot be excluded with !",
    "&": "hostlists cannot be intersected with &",
    "^": "hostlists cannot be combined with ^",
    "*": "wildcards (*) are not supported",
    "/": "ranges have no steps (/) in Slurm",
}


@dataclass(frozen=True)
class Endpoint:
    """Where SSH connects to: a name or IP address, with user and port (`""` and `0` where none was given)."""

    address: str
    user: str = ""
    port: int = 0


def expand(hostlist: str) -> tuple[str, ...]:
    """Expand a hostlist to its host names, in the order in which the user wrote them.

    >>> expand("n3,n[01-02]")
    ('n3', 'n01', 'n02')

    Raises:
        HostlistError: the text is not a hostlist, a name is not a host name, or a host is listed twice.
    """
    names: list[str] = []
    for entry in entries(hostlist):
        expanded = _expand_entry(entry, hostlist)
        _check_name(expanded[0], hostlist)  # the others differ from it in digits only
        names += expanded
        _check_count(len(names), hostlist)
    _check_unique(names, hostlist)
    return tuple(names)


def expand_endpoints(hostlist: str) -> tuple[Endpoint, ...]:
    """Expand a value of `--hosts`: names or addresses, each with an optional `user@` and `:port`.

    >>> expand_endpoints("root@n[1-2]:2222")[1]
    Endpoint(address='n2', user='root', port=2222)

    Write IPv6 addresses plain (`fd83::11`), or in brackets before a port (`[fd83::11]:2222`).

    Raises:
        HostlistError: as for `expand`; also for an invalid port or user name.
    """
    endpoints: list[Endpoint] = []
    for entry in entries(hostlist):
        endpoints += _expand_endpoint(entry, hostlist)
        _check_count(len(endpoints), hostlist)
    _check_unique([canonical(endpoint.address) for endpoint in endpoints], hostlist)
    return tuple(endpoints)


def entries(hostlist: str) -> list[str]:
    """Split a hostlist at its commas, but not at commas inside brackets.

    >>> entries("mn01,cn[01-04,07]")
    ['mn01', 'cn[01-04,07]']

    Raises:
        HostlistError: an entry is empty, or brackets do not match.
    """
    text = hostlist.strip()
    found, begin, depth = [], 0, 0
    for special in re.finditer(r"[\[\],]", text):
        if special[0] == ",":
            if not depth:
                found.append(text[begin : special.start()].strip())
                begin = special.end()
            continue
        depth += 1 if special[0] == "[" else -1
        if depth not in (0, 1):
            raise HostlistError(f'"{hostlist}" is not a hostlist: its brackets do not match.')
    if depth:
        raise HostlistError(f'"{hostlist}" is not a hostlist: a closing bracket is missing.')
    found.append(text[begin:].strip())
    if not all(found):
        reason = "a name is missing before or after a comma" if text else "it is empty"
        raise HostlistError(f'"{hostlist}" is not a hostlist: {reason}.')
    return found


def count_names(text: str) -> int:
    """How many names a hostlist has, found without expanding it; for other texts, one more than they have commas.

    >>> count_names("mn01,cn[01-04,07]"), count_names("n[1-2],")
    (6, 2)
    """
    if "[" not in text:
        return text.count(",") + 1
    try:
        return sum(_count_entry(entry) for entry in entries(text))
    except HostlistError:
        return text.count(",") + 1


def _count_entry(entry: str) -> int:
    """How many names one entry has; at most `MOST_HOSTS`, since a longer one is refused."""
    count = 1
    for ranges in re.findall(r"\[([^]]*)\]", entry):
        matches = map(_RANGE.fullmatch, map(str.strip, ranges.split(",")))
        count *= sum(max(0, int(match[2] or match[1]) - int(match[1]) + 1) for match in matches if match)
    return min(count, MOST_HOSTS)


def expand_files(files: str) -> tuple[str, ...]:
    """Expand a list of device files as in gres.conf(5); a text that is not such a list is returned unchanged.

    >>> expand_files("/dev/nvidia[0-1,3],/dev/accel0")
    ('/dev/nvidia0', '/dev/nvidia1', '/dev/nvidia3', '/dev/accel0')
    """
    try:
        return _expand_text(files) if files.strip() else ()
    except HostlistError:
        return (files.strip(),)


def fold(names: Iterable[str]) -> str:
    """Fold names to the shortest hostlist that Slurm expands to them; their order does not matter.

    Only the number at the end of a name becomes a range: not every Slurm since 22.05 accepts text after a bracket.

    >>> fold(["n2", "n1", "n3", "login"])
    'login,n[1-3]'
    """
    plain: list[str] = []
    families: dict[str, list[str]] = defaultdict(list)
    for name in set(names):
        stem, number = _split(name)
        if number:
            families[stem].append(number)
        else:
            plain.append(name)
    folded = [_bracket(stem, sorted(families[stem], key=_by_width)) for stem in sorted(families, key=natural)]
    return ",".join((*sorted(plain), *folded))


def shell_word(names: Iterable[str]) -> str:
    """The same as one word of a command that people copy; zsh would expand brackets without the quotes.

    >>> shell_word(["n1", "n2"]), shell_word(["n1"])
    ("'n[1-2]'", 'n1')
    """
    return shlex.quote(fold(names))


def fold_in_order(names: Iterable[str]) -> str:
    """Fold names without changing their order, as Slurm pairs NodeName and NodeAddr by position.

    Slurm expands the result to the same names in the same order, including repeated names.

    >>> fold_in_order(("n1", "n2", "n4", "gate", "n3"))
    'n[1-2,4],gate,n3'
    """
    families = groupby(map(_split, names), lambda parts: (parts[0], bool(parts[1])))
    return ",".join(_bracket(stem, [number for _, number in family]) for (stem, _), family in families)


def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """A sort key that puts n2 before n10."""
    parts = re.split("([0-9]+)", name)
    # Python converts no texts of thousands of digits.
    return tuple(int(word[:1000]) if number % 2 else word for number, word in enumerate(parts)), name


def extend(some: Iterable[str], names: Iterable[str]) -> list[str]:
    """Add names to the entries of a hostlist; an entry that the names continue becomes longer, others stay unchanged.

    >>> extend(["mn01", "cn[01-04]"], ["cn05", "gpu1"])
    ['mn01', 'cn[01-05]', 'gpu1']
    """
    extended = list(some)
    families: dict[str, list[str]] = defaultdict(list)
    for name in names:
        families[_split(name)[0]].append(name)
    for members in families.values():
        for number, entry in enumerate(extended):
            inside = expand(entry)
            longer = fold((*inside, *members))
            if fold(inside) == entry and len(entries(longer)) == 1:
                extended[number] = longer
                break
        else:
            extended += entries(fold(members))
    return extended


def zip_hostlists(names: str, addresses: str) -> dict[str, str]:
    """Pair two hostlists of the same length: the first name with the first address, and so on.

    >>> zip_hostlists("cn[01-02]", "10.0.1.[1-2]")
    {'cn01': '10.0.1.1', 'cn02': '10.0.1.2'}

    Raises:
        HostlistError: one of them is not a hostlist, or they have different lengths.
    """
    keys, values = expand(names), _expand_text(addresses)
    if len(keys) != len(values):
        raise HostlistError(
            f'"{names}" has {_count(len(keys), "host")}, but "{addresses}" has '
            f"{_count(len(values), 'address', 'addresses')}. Each host needs one address."
        )
    return dict(zip(keys, values, strict=True))


def zip_fold(addresses: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Fold pairs of name and address to pairs of hostlists, which `zip_hostlists` expands to the same pairs.

    >>> zip_fold([("cn01", "10.0.1.1"), ("cn02", "10.0.1.2")])
    (('cn[01-02]', '10.0.1.[1-2]'),)
    """
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for name, address in addresses:
        groups[_split(name)[0], _split(address)[0]].append((name, address))
    return tuple(pair for group in groups.values() for pair in _zip_group(group))


def _zip_group(group: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """One pair of hostlists if it expands exactly to the group, else the group itself."""
    names, addresses = fold(name for name, _ in group), fold(address for _, address in group)
    try:
        exact = zip_hostlists(names, addresses) == dict(group)
    except HostlistError:
        exact = False
    return [(names, addresses)] if exact else group


def _split(name: str) -> tuple[str, str]:
    """Split a name into the text before the number at its end, and the digits of that number, empty for none."""
    stem = name.rstrip("0123456789")
    cut = max(len(stem), len(name) - _MOST_DIGITS)
    return name[:cut], name[cut:]


def _by_width(number: str) -> tuple[int, str]:
    """A sort key for numbers with leading zeros: by number of digits, then by value."""
    return len(number), number


def _bracket(stem: str, numbers: Sequence[str]) -> str:
    """A stem with its numbers in order, ranges folded: `n[1-2,4]`; the first number sets a range's digits."""
    if len(numbers) == 1 or not numbers[0]:
        return ",".join(stem + number for number in numbers)
    runs: list[list[str]] = []
    following = ""
    for number in numbers:
        if number == following:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
        following = str(int(number) + 1).zfill(len(number))
    return f"{stem}[{','.join('-'.join(run) for run in runs)}]"


def _expand_text(hostlist: str) -> tuple[str, ...]:
    """Expand the ranges in a hostlist, whatever text is around them; brackets around an IPv6 address are none."""
    found: list[str] = []
    for entry in entries(hostlist):
        user, at, place = entry.rpartition("@")
        bracketed = _BRACKETED_IPV6.fullmatch(place)
        if bracketed:
            address = _ipv6(bracketed[1], hostlist)
            found.append(entry if bracketed[2] is not None else f"{user}{at}{address}")
        else:
            found += _expand_entry(entry, hostlist)
        _check_count(len(found), hostlist)
    return tuple(found)


def _expand_entry(entry: str, hostlist: str) -> Sequence[str]:
    """Expand all brackets of one entry; the last bracket counts fastest."""
    parts = re.split(r"\[([^]]*)\]", entry)
    if len(parts) == 1:
        return parts
    if sum(map(len, parts[::2])) > _LONGEST_AROUND:
        raise HostlistError(f'"{entry[:40]}…" is too long: it has more than {_LONGEST_AROUND} characters.')
    numbers = [_expand_ranges(ranges, hostlist) for ranges in parts[1::2]]
    _check_count(math.prod(map(len, numbers)), hostlist)
    names = [parts[0]]
    for between, inside in zip(parts[2::2], numbers, strict=True):
        names = [f"{name}{number}{between}" for name in names for number in inside]
    return names


def _expand_ranges(ranges: str, hostlist: str) -> list[str]:
    """Expand the text between two brackets to numbers with their leading zeros."""
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            reason = _OPERATORS["/"] if "/" in part else f'"{part}" is neither a number nor a range such as 1-4'
            if ":" in part or ".." in part:
                bounds = re.fullmatch(r"([0-9]+)(?::|\.\.)([0-9]+)", part.strip())
                reason = f'"[{part}]" is not an IPv6 address in brackets such as [fd83::11]:22'
                if bounds:
                    reason = f"a range has a hyphen: write {hostlist.replace(part, f'{bounds[1]}-{bounds[2]}')}"
            raise HostlistError(f'"{hostlist}" is not a hostlist: {reason}.')
        low, high = match[1], match[2] or match[1]
        # n[09-010] and n[01-1] contain two different widths; n[001-1000] has one, and 1000 exceeds it.
        if int(high) < int(low) or len(high) < len(low) or (len(high) > len(low) and high.startswith("0")):
            raise HostlistError(f'"{hostlist}" is not a hostlist: the range {part} does not count up.')
        _check_count(len(numbers) + int(high) - int(low) + 1, hostlist)
        numbers += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
    return numbers


def _expand_endpoint(entry: str, hostlist: str) -> Iterator[Endpoint]:
    """Expand one entry of `--hosts`, such as `root@n[1-3]:2222`."""
    user, at, place = entry.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise HostlistError(f'"{hostlist}": "{user}" before the @ is not a user name.')
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
    """Return an IPv6 address as the user wrote it, after a check."""
    if family(text) != IPV6:
        raise HostlistError(f'"{hostlist}": "{text}" is not an IPv6 address.')
    return text


def _port(text: str | None, hostlist: str) -> int:
    """The number of a port; 0 for `None`."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:1000]) <= HIGHEST_PORT):
        raise HostlistError(f'"{hostlist}": "{text}" is not a port. A port is a number from 1 to {HIGHEST_PORT}.')
    return int(text)


def _check_name(name: str, hostlist: str) -> None:
    """Refuse a text that is not a host name, with a hint for the commonest mistakes."""
    if len(name) > _LONGEST_NAME:
        raise HostlistError(f'"{name[:40]}…" is not a host name: it has more than {_LONGEST_NAME} characters.')
    if _NAME.fullmatch(name):
        return
    if any(character.isspace() for character in name):
        words = hostlist.replace(",", " ").replace(";", " ").split()
        advice = "ALL for all nodes" if "all" in hostlist.lower().split() else ",".join(words)
        raise HostlistError(
            f'"{hostlist}" is not a hostlist: separate hosts by commas; names contain no spaces. Write {advice[:200]}'
        )
    for character, reason in _OPERATORS.items():
        if character in name:
            raise HostlistError(f'"{hostlist}" is not a hostlist: {reason}. Name the hosts, as in n1,n[3-5].')
    braces = re.fullmatch(r"(.*)\{([0-9]+)\.\.([0-9]+)\}(.*)", name)
    if braces:
        advice = "{}[{}-{}]{}".format(*braces.groups())
        raise HostlistError(f'"{hostlist}" is not a hostlist: write ranges in brackets, as in {advice}')
    raise HostlistError(
        f'"{hostlist}": "{name}" is not a host name. A host name has letters, digits, dots, hyphens and underscores, '
        "and begins with a letter or digit."
    )


def _check_count(count: int, hostlist: str) -> None:
    """Refuse more names than Slurm takes, before they take up memory."""
    if count > MOST_HOSTS:
        raise HostlistError(f'"{hostlist}" is too long: Slurm supports at most {MOST_HOSTS} nodes.')


def _check_unique(names: Sequence[str], hostlist: str) -> None:
    """Refuse names that are listed twice."""
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise HostlistError(f'"{hostlist}" names {", ".join(twice)} more than once. Name each host once.')


def _count(number: int, word: str, words: str = "") -> str:
    """A number with its noun."""
    return f"{number} {word if number == 1 else words or word + 's'}"
