"""How much the directories below some others hold, such as people's homes, for `fab usage --homes`; changes nothing.

The work is bounded: du runs with the lowest priority for processors and disks, on one file system, follows no symbolic
link, and all of it has a time limit. Each directory gets an equal part of the time that is left, so that one with very
many files takes nothing from the others; it is told as not measured then.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities.users_and_groups import user_name

MOST_SECONDS = 480  # the longest time limit: an answer may take 600 s (`slurmfab.hosts.answer_bounds`)

MOST_DIRECTORIES = 5000
LEAST_SECONDS = 2.0  # what each directory gets at least, while there is time

GENTLY = ("nice", "-n", "19", "ionice", "-c", "3")
DU = ("du", "--summarize", "--one-file-system", "--no-dereference", "--block-size=1", "--time", "--time-style=+%s")

WHOLE, PARTLY, LATE = "", "partly", "late"
"""Whether a directory was measured; `partly` where some of it could not be read, `late` for not in time."""


class Entry(NamedTuple):
    """A directory below one of those that were asked for."""

    place: str  # the one that was asked for
    name: str  # its name there; characters that are not printable are escaped
    path: str
    uid: int


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Measure the directories.

    `request`: `places`: absolute paths; `seconds`: time limit of all of it. Returns `rows`: of each directory its
    place, name, owner, bytes on the disk, the newest change in it in seconds since 1970, and how far it was measured.
    `more`: how many directories were left out because there are too many.
    """
    deadline = time.monotonic() + min(float(request["seconds"]), MOST_SECONDS)
    found = [one for place in request["places"] for one in entries(context, place)]
    rows = []
    for position, one in enumerate(found[:MOST_DIRECTORIES]):
        left = deadline - time.monotonic()
        share = max(left / (min(len(found), MOST_DIRECTORIES) - position), LEAST_SECONDS)
        size, newest, state = measured(context, one.path, min(share, left))
        rows.append([one.place, one.name, user_name(context, one.uid), size, newest, state])
    return {"rows": rows, "more": max(len(found) - MOST_DIRECTORIES, 0)}


def entries(context: Context, place: str) -> List[Entry]:
    """The directories below a place, by name; none if it is no directory, or a symbolic link."""
    try:
        if os.path.islink(context.path(place)):
            return []
        with os.scandir(context.path(place)) as inside:
            there = sorted((one for one in inside if one.is_dir(follow_symlinks=False)), key=lambda one: one.name)
            return [
                Entry(place, printable(one.name), one.path, one.stat(follow_symlinks=False).st_uid) for one in there
            ]
    except OSError:
        return []


def printable(name: str) -> str:
    """A name of one line."""
    return name if name.isprintable() else ascii(name)[1:-1]


def measured(context: Context, path: str, seconds: float) -> Tuple[int, int, str]:
    """Bytes on the disk, newest change, and how far it was measured."""
    if seconds <= 0:
        return 0, 0, LATE
    try:
        done = context.run([*GENTLY, *DU, "--", path], seconds=seconds)
    except ResourceFailed:
        return 0, 0, LATE
    match = re.match(rb"(\d{1,18})\t-?(\d{1,12})\t", done.stdout)
    if not match:
        return 0, 0, PARTLY
    return int(match[1]), int(match[2]), PARTLY if done.returncode else WHOLE
