"""Values of sacctmgr(1) in one normal form, whether from the cluster file or from slurmdbd.

Formats as printed by sacctmgr of Slurm 22.05.8 and 24.11.5: `cpu=8,mem=10G`, `1-00:00:00`, `2.000000`,
`DenyOnLimit,OverPartQOS`, `within,requeue`.
"""

from __future__ import annotations

import re
from typing import Callable, List, Mapping

from slurmfab.on_hosts.agent.client.amounts import clock, seconds_of

NUMBER, FLOAT, MINUTES, SECONDS, GRACE, TRES, NAMES, FLAGS, MODE, SHARE, TEXT, WORD, LEVEL = (
    "number", "float", "minutes", "seconds", "grace", "tres", "names", "flags", "mode", "share",
    "text", "word", "level",
)  # fmt: skip
"""Kinds of values."""

_AMOUNT = re.compile(r"(\d+)([KMGTP]?)", re.IGNORECASE)
_TRES_NAME = re.compile(r"[a-z]+(/[a-z0-9_.:-]+)?")
_POWERS = {"K": -1, "": 0, "M": 0, "G": 1, "T": 2, "P": 3}
IN_MEGABYTES = ("mem", "vmem", "fs/disk", "bb/")  # TRES counted in megabytes, which sacctmgr prints with units

STATIC_TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
"""TRES that every slurmdbd knows; slurmctld tells it of the others, from AccountingStorageTRES (slurm.conf(5))."""

LEVELS = {
    "": "None",
    "none": "None",
    "operator": "Operator",
    "admin": "Administrator",
    "administrator": "Administrator",
}


def normal(kind: str, value: str) -> str:
    """Convert a value to its normal form: equal for all values with the same meaning, empty for no limit.

    Args:
        value: as in the cluster file or as printed by sacctmgr.

    Raises:
        ValueError: the value is not of that kind; the text shows a valid one.

    >>> normal(TRES, "mem=10G,CPU=8"), normal(MINUTES, "24:00:00"), normal(MINUTES, "90"), normal(FLOAT, "2.000000")
    ('cpu=8,mem=10G', '1-00:00:00', '01:30:00', '2')
    """
    value = value.strip()
    if value in ("", "-1"):
        return ""
    return _FORMS[kind](value)


def _number(value: str) -> str:
    if not value.isdecimal():
        raise ValueError('"%s" is not a number' % value)
    return str(int(value))


def _float(value: str) -> str:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", value):
        raise ValueError('"%s" is not a number' % value)
    return "%g" % float(value)


def _time(value: str) -> int:
    """A time as in sacctmgr(1) in seconds; a single number is minutes."""
    found = seconds_of(value)
    if found is None:
        raise ValueError('"%s" is not a time such as 90 (minutes), 12:00:00 or 7-00:00:00' % value)
    return found


def _minutes(value: str) -> str:
    """Slurm stores whole minutes, rounded up."""
    return clock((_time(value) + 59) // 60 * 60)


def _seconds(value: str) -> str:
    return clock(_time(value))


def _grace(value: str) -> str:
    """Seconds as a number: sacctmgr accepts nothing else for GraceTime, although it prints a time."""
    return str(int(value) if value.isdecimal() else _time(value))


def _amount(name: str, value: str) -> str:
    """An amount of a TRES; memory in the largest unit that is exact, as sacctmgr prints it."""
    match = _AMOUNT.fullmatch(value)
    if not match or (match.group(2) and not name.startswith(IN_MEGABYTES) and not name.startswith("gres/")):
        raise ValueError('"%s" is not an amount of %s' % (value, name))
    number, unit = int(match.group(1)), match.group(2).upper()
    if not name.startswith(IN_MEGABYTES):
        return str(number * 1024 ** ("KMGTP".index(unit) + 1 if unit else 0))
    megabytes = -(-number // 1024) if unit == "K" else number * 1024 ** _POWERS[unit]
    for letter in "PTG":
        size = 1024 ** _POWERS[letter]
        if megabytes and megabytes % size == 0:
            return "%d%s" % (megabytes // size, letter)
    return "%dM" % megabytes


def _tres(value: str) -> str:
    """Sorted TRES, each with its amount."""
    amounts = {}
    for part in value.split(","):
        name, equals, amount = part.strip().partition("=")
        name = name.strip().lower()
        if not equals or not _TRES_NAME.fullmatch(name):
            raise ValueError('"%s" is not a list of TRES such as cpu=64,mem=500G,gres/gpu=4' % value)
        if name in amounts:
            raise ValueError("%s is listed twice" % name)
        amounts[name] = _amount(name, amount.strip())
    return ",".join("%s=%s" % item for item in sorted(amounts.items()))


def _parts(value: str) -> List[str]:
    return sorted({part.strip() for part in value.split(",")} - {""})


def _names(value: str) -> str:
    return ",".join(_parts(value.lower()))


def _flags(value: str) -> str:
    return ",".join(_parts(value))


def _mode(value: str) -> str:
    """A PreemptMode; `off` and `cluster` both stand for the cluster's PreemptMode (sacctmgr(1))."""
    return ",".join(part for part in _parts(value.lower()) if part not in ("off", "cluster"))


def _share(value: str) -> str:
    return "parent" if value.lower() == "parent" else _number(value)


def _level(value: str) -> str:
    if value.lower() not in LEVELS:
        raise ValueError('"%s" is not an AdminLevel (None, Operator or Administrator)' % value)
    return LEVELS[value.lower()]


_FORMS: Mapping[str, Callable[[str], str]] = {
    NUMBER: _number,
    FLOAT: _float,
    MINUTES: _minutes,
    SECONDS: _seconds,
    GRACE: _grace,
    TRES: _tres,
    NAMES: _names,
    FLAGS: _flags,
    MODE: _mode,
    SHARE: _share,
    TEXT: str.lower,
    WORD: str.lower,
    LEVEL: _level,
}
