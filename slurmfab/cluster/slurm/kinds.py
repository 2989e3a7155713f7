"""The kinds of values in Slurm's files and in limits: why a value is none of its kind, and what to write instead.

`tables/keys.ini` has the kind of each key, by the types of Slurm's parser (src/common/parse_value.c, parse_time.c,
read_config.c): `number16`, `seconds16`, `memory64` (MiB) and others with their bits; `truth`, `float`, `time`, `port`,
`mode` (of preemption), `gres`, `tres` (names), `weights` (of TRES); `select/` for the name of a plugin; words with `|`
between them for one of these, and with `~` before them for a list of such, which newer versions may know more of.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from decimal import Decimal

from slurmfab.base.hostlist import HIGHEST_PORT
from slurmfab.cluster.slurm.keys import Key
from slurmfab.on_hosts.agent.client.amounts import DAY, HOUR, MINUTE, clock

_ENDLESS = ("unlimited", "infinite")
_YES, _NO = ("yes", "up", "true", "1"), ("no", "down", "false", "0")
_ON, _OFF = (*_YES, "on", "enabled"), (*_NO, "off", "disabled")
_SUFFIXED = ("K", "k")  # the one suffix that Slurm's parser takes, as 1024
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}")
_FLOAT = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?|[0-9]+\.", re.IGNORECASE)
_FIRST_NUMBER = re.compile(r"([0-9]{1,15})(?![0-9.])")
_MODES = ("off", "cluster", "cancel", "requeue", "suspend", "on", "gang", "within", "priority")

# The forms of slurm.conf(5), MaxTime; amounts.seconds_of tells what they mean.
_TIME = re.compile(r"[0-9]{1,9}(:[0-9]{1,9}){0,2}|[0-9]{1,9}-([0-9]{1,9}(:[0-9]{1,9}){0,2})?")
_PART_OF_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) *([a-z]+)[ ,]*(?:and +)?", re.IGNORECASE)
_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_NAMES_OF_UNITS = re.compile(r"s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?", re.IGNORECASE)

_MEMORY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) *([kmgtp])(i?)b?(?:ytes?)?", re.IGNORECASE)
_MEGABYTES = {"k": Decimal("0.001"), "m": Decimal(1), "g": Decimal(1000), "t": Decimal(10**6), "p": Decimal(10**9)}

_TRES_NAMES = {
    **dict.fromkeys(("cpus", "core", "cores"), "cpu"),
    **dict.fromkeys(("memory", "ram"), "mem"),
    "nodes": "node",
}
_WITH_KIND = ("gres", "license", "bb", "fs", "ic")
_STATIC = ("cpu", "mem", "energy", "node", "billing", "vmem", "pages")
_MODELS = re.compile(
    r"[abhlptv][0-9]{1,3}s?|gb?[0-9]{3}|rtx.*|gtx.*|tesla.*|quadro.*|nvidia.*|geforce.*|mi[0-9]{2,3}x?"
)
"""Names of models of GPUs, in lower case, which some write for the name of the generic resource."""


def complaint(key: Key, value: str) -> str:
    """Why Slurm does not take a value of a key, or takes it for something else; empty if it is right."""
    value = value.strip()
    kind = key.kind.rstrip("0123456789") if key.kind[:1].isalpha() else key.kind
    if not kind or not value:
        return ""
    if kind in _OTHERS:
        return _OTHERS[kind](key.name, value)
    if kind in ("number", "seconds", "memory"):
        return _number(key, kind, value)
    if kind.endswith("/"):
        plain = "/" not in value and value.lower() != "none" and value.replace("_", "").isalnum()
        return (
            f'"{value}" is no plugin; write {key.name}: {kind}{value.lower().removeprefix(kind[:-1] + "_")}'
            if plain
            else ""
        )
    return _one_of(key, value)


def _number(key: Key, kind: str, value: str) -> str:
    bits = int(key.kind[len(kind) :])
    low = value.lower()
    has_suffix = bits > 16 and value.endswith(_SUFFIXED)  # noqa: PLR2004
    if _NUMBER.fullmatch(value[:-1] if has_suffix else value):
        is_small = has_suffix or int(low, 16 if low.startswith("0x") else 10) < 2**bits
        return "" if is_small else f'"{value}" is too large; write a number up to {2**bits - 1}'
    if low in _ENDLESS:
        return ""
    what = {"number": "a whole number", "seconds": "a whole number of seconds", "memory": "a whole number of MB"}[kind]
    advice = ""
    if kind == "memory":
        advice = memory_in_words(value)
    elif kind == "seconds" and (seconds := seconds_in_words(value)) is not None:
        advice = str(seconds)
    elif low in (*_ON, *_OFF):
        advice = "1" if low in _ON else "0"
    elif low in ("none", "all", "no limit", "-1"):
        advice = "UNLIMITED"
    elif (first := _FIRST_NUMBER.match(value)) and value[first.end() : first.end() + 1] in ("", " "):
        advice = first[1]
    return f'"{value}" is not {what}{f"; write {key.name}: {advice}" if advice else ""}'


def _truth(name: str, value: str) -> str:
    low = value.lower()
    if low in (*_YES, *_NO):
        return ""
    advice = "YES" if low in _ON else "NO" if low in _OFF else "YES or NO"
    return f'"{value}" is neither yes nor no for Slurm; write {name}: {advice}'


def _float(_: str, value: str) -> str:
    is_one = _FLOAT.fullmatch(value) or value.lower() in _ENDLESS
    return "" if is_one else f'"{value}" is not a number; write one such as 50 or 12.5'


def _time(name: str, value: str) -> str:
    if _TIME.fullmatch(value) or value.lower() in (*_ENDLESS, "-1"):
        return ""
    seconds = seconds_in_words(value)
    advice = "a time such as 30 (minutes), 12:00:00, 7-00:00:00 or UNLIMITED"
    if seconds is not None:
        advice = f"{name}: {clock(seconds)}"
    elif value.lower() in ("none", "no", "no limit", "forever"):
        advice = f"{name}: UNLIMITED"
    return f'"{value}" is not a time of Slurm; write {advice}'


def _port(_: str, value: str) -> str:
    """A port, or a range of them, as slurmctld takes it."""
    bounds = value.split("-")
    if all(one.isdecimal() and 0 < int(one[:10]) <= HIGHEST_PORT for one in bounds):
        return ""
    return f'"{value}" is not a port; write a number from 1 to {HIGHEST_PORT}'


def _mode(_: str, value: str) -> str:
    unknown = [one for one in value.lower().split(",") if one.strip() not in _MODES]
    known = "OFF, CANCEL, REQUEUE, SUSPEND, or one of these with GANG, as in SUSPEND,GANG"
    return f'"{value}" is not a mode of preemption; write {known}' if unknown else ""


def _one_of(key: Key, value: str) -> str:
    """One of some words, or, for `~`, a list of words that are somewhat like these."""
    known = key.kind.removeprefix("~").split("|")
    by_low = {word.lower(): word for word in known}
    if key.kind[0] == "~":
        for word in value.split(","):
            near = difflib.get_close_matches(word.strip().lower(), by_low, n=1, cutoff=0.8)
            if near and word.strip().lower() not in by_low:
                return f'"{word.strip()}" is not known; did you mean {by_low[near[0]]}?'
        return ""
    word, colon, number = value.partition(":")
    if word.lower() in by_low and (not colon or (number.isdecimal() and word.lower() in ("force", "yes"))):
        return ""
    if "FORCE" in known:
        advice = f"FORCE:{value}" if value.isdecimal() else "NO, YES:4, EXCLUSIVE or FORCE:4"
    else:
        shown = [word for word in known if not word.isdecimal()] or known
        near = difflib.get_close_matches(value.lower(), by_low, n=1)
        advice = by_low[near[0]] if near else f"{', '.join(shown[:-1])} or {shown[-1]}"
    return f'"{value}" is no value of {key.name}; write {advice}'


def gres(name: str, value: str) -> str:
    """Why a value is no Gres of a node; empty if it may be one."""
    entries = [entry.strip() for entry in value.strip('"').split(",")]
    right = [gres_entry(entry) for entry in entries]
    wrong = next((entry for entry, better in zip(entries, right, strict=True) if entry != better), None)
    if wrong is None:
        return ""
    return f'"{wrong}" is not a Gres, NAME:COUNT or NAME:TYPE:COUNT; write {name}: {",".join(right)}'


def gres_entry(entry: str) -> str:
    """An entry of a node's Gres as it is probably meant, and as it stands if that is right.

    >>> gres_entry("gpu=4"), gres_entry("gpus:4"), gres_entry("gpu:4:a100"), gres_entry("A100:4")
    ('gpu:4', 'gpu:4', 'gpu:a100:4', 'gpu:a100:4')
    """
    if entry.isdecimal():
        return f"gpu:{entry}"
    parts = re.sub(r"^gres[:/]", "", entry, flags=re.IGNORECASE).replace("=", ":").replace("/", ":").split(":")
    low = parts[0].lower()
    if low in ("gpus", "gpu"):
        parts[0] = "gpu"
    elif _MODELS.fullmatch(low):
        parts = ["gpu", low, *parts[1:]]
    number_first = parts[0] == "gpu" and len(parts) == 3 and parts[1].isdecimal()  # noqa: PLR2004
    if number_first and not parts[2].isdecimal():
        parts[1:] = parts[:0:-1]
    return ":".join(parts)


def tres_part(part: str) -> str:
    """A part of a list of TRES as it is probably meant: `NAME=AMOUNT`, or a name alone; as it stands if that is right.

    >>> tres_part("gpu=1"), tres_part("gres=gpu/4"), tres_part("gres/gpu:a100:4"), tres_part("mem=9GB")
    ('gres/gpu=1', 'gres/gpu=4', 'gres/gpu:a100=4', 'mem=9G')
    """
    text = part.strip()
    name, equals, amount = text.partition("=")
    name, amount = name.strip(), amount.strip()
    if name.lower() == "gres" and amount and not amount[0].isdecimal():
        name, _, amount = re.sub(r"[:/=](?=[0-9]+$)", "\0", f"gres/{amount}").partition("\0")
    elif not equals:
        name, _, amount = re.sub(r":(?=[0-9]+[KMGTP]?B?$)", "\0", name, flags=re.IGNORECASE).partition("\0")
    low = name.lower().partition(":")[0]
    if low in ("gpu", "gpus", "gres/gpus", "gres:gpu"):
        name = f"gres/gpu{name[len(low) :]}"
    elif low in ("shard", "mps", "licence", "license"):
        name = f"gres/{name}" if low in ("shard", "mps") else name
    else:
        name = _TRES_NAMES.get(low, name)
    if name.lower() in ("mem", "vmem"):
        amount = re.sub(r"(?<=[0-9])( *)([KMGTP])i?B$", r"\2", amount, flags=re.IGNORECASE).upper()
    is_same = re.sub(r"\s", "", text).lower() == f"{name}{'=' if amount else ''}{amount}".lower()
    return text if is_same else f"{name}{'=' if amount else ''}{amount}"


def tres(name: str, value: str, *, is_limit: bool = False) -> str:
    """Why a value is no list of TRES, with amounts or without; empty if it may be one.

    `is_limit`: sacctmgr refuses names that are none, and slurm.conf may have those of newer versions.
    """
    parts = [part.strip() for part in value.split(",")]
    right = [tres_part(part) for part in parts]
    for part, better in zip(parts, right, strict=True):
        kind, slash, _ = better.partition("=")[0].lower().partition("/")
        if part != better:
            return f'"{part}" is no TRES of Slurm; write {name}: {",".join(right)}'
        if part and is_limit and (kind not in _WITH_KIND if slash else kind not in _STATIC):
            return f'"{part}" is no TRES of Slurm; write them as in cpu=64,mem=500G,node=4,gres/gpu=4,license/matlab=2'
    return ""


def seconds_in_words(text: str) -> int | None:
    """A time as people write it, in seconds; `None` for other texts.

    >>> seconds_in_words("25 hours"), seconds_in_words("1d 12h"), seconds_in_words("half a day")
    (90000, 129600, None)
    """
    rest, total = text.strip(), Decimal(0)
    while rest:
        found = _PART_OF_TIME.match(rest)
        if not found or not _NAMES_OF_UNITS.fullmatch(found[2]):
            return None
        total += Decimal(found[1]) * _UNITS[found[2][0].lower()]
        rest = rest[found.end() :]
    return int(total) if text.strip() else None


def memory_in_words(text: str) -> str:
    """An amount of memory as people write it, in megabytes; empty for other texts.

    >>> memory_in_words("12GB"), memory_in_words("1.5 TiB"), memory_in_words("much")
    ('12000', '1572864', '')
    """
    found = _MEMORY.fullmatch(text.strip())
    if not found:
        return ""
    power = "kmgtp".index(found[2].lower()) - 1
    each = Decimal(1024) ** power if found[3] else _MEGABYTES[found[2].lower()]
    return str(int(Decimal(found[1]) * each))


_OTHERS = {
    "truth": _truth,
    "float": _float,
    "time": _time,
    "mode": _mode,
    "port": _port,
    "gres": gres,
    "tres": tres,
    "weights": tres,
}


def complaints(known: Mapping[str, Key], settings: Mapping[str, str | None]) -> dict[str, str]:
    """What is wrong with values, by key as it is spelled there. `known`: the keys of such a line, in lower case."""
    found = {
        key: complaint(known[key.lower()], value)
        for key, value in settings.items()
        if value is not None and key.lower() in known
    }
    return {key: reason for key, reason in found.items() if reason}
