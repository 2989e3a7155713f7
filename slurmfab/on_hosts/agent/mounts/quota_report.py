"""The limits of users on a file system, as repquota(8) prints them."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple

from slurmfab.on_hosts.agent.core.resource import Context

OF = "quota"  # the capability's name among `owned` of the facts

ROW = re.compile(r"^#?(\d+),[^,\n]*,[^,\n]*,(\d+),(\d+),(\d+),[^,\n]*,\d+,(\d+),(\d+),[^,\n]*$", re.MULTILINE)
"""UID, KiB used, soft and hard limit of KiB, and of files: User, BlockStatus, FileStatus, BlockUsed, ..."""


class Limits(NamedTuple):
    """What a user has and may have on a file system; 0 is no limit."""

    used: int
    soft: int
    hard: int
    soft_files: int
    hard_files: int


NONE = Limits(0, 0, 0, 0, 0)


class NoQuotas(Exception):
    """The file system has no quotas; the text is repquota's."""


def command(point: str) -> List[str]:
    """The command that prints the limits of all users on the file system of a mount point."""
    return ["repquota", "-u", "-n", "-O", "csv", "--", point]


def read(context: Context, point: str) -> Dict[int, Limits]:
    """The limits by UID; NoQuotas if repquota prints none, ResourceFailed if it is missing or does not end."""
    done = context.run(command(point))
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoQuotas(" | ".join(line.partition("repquota: ")[2] or line for line in lines[-2:]) or "repquota failed")
    return parse(done.stdout.decode(errors="replace"))


def parse(text: str) -> Dict[int, Limits]:
    """The limits by UID in what repquota has printed."""
    return {int(uid): Limits(*map(int, numbers)) for uid, *numbers in ROW.findall(text)}


def limits_text(soft: int, hard: int) -> str:
    """Limits in KiB for states and messages.

    >>> told(52428800, 0)
    'soft 52428800 KiB, hard none'
    """
    return "soft %s, hard %s" % tuple("%d KiB" % value if value else "none" for value in (soft, hard))
