"""rpm's database: the packages that a host has, and what a killed dnf has left there."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, NamedTuple, Tuple

from slurmfab.on_hosts.agent.packages.unfinished import is_locked

PLACES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
"""Directories of the database, in Enterprise Linux 9 and 10."""

HISTORY = "/var/lib/dnf/history.sqlite"
FORMAT = "%{NAME}\t%{VERSION}-%{RELEASE}\n"

FILES = "[%{=NAME}\\t%{FILENAMES}\\n]"  # a line for each file of a package

KILLED = """
SELECT DISTINCT rpm.name FROM trans_item JOIN rpm ON rpm.item_id = trans_item.item_id
WHERE trans_item.action IN (1, 2, 6, 9) AND trans_item.trans_id = (
    SELECT id FROM trans WHERE state = 0 AND id = (SELECT max(id) FROM trans)
);
"""
"""Asks for the packages that the last transaction was to install, if that transaction has no end. The actions (libdnf,
TransactionItemAction) are install, downgrade, upgrade and reinstall."""


class Killed(NamedTuple):
    """What a killed transaction has left."""

    packages: Tuple[str, ...] = ()  # those that are there, but whose scripts may not have run
    double: Tuple[str, ...] = ()  # those of them that are there in two versions


def is_there(root: str) -> bool:
    """Whether the host's packages are rpm's: Debian's rpm has no database in these places."""
    return any(os.path.exists("%s%s/rpmdb.sqlite" % (root.rstrip("/"), place)) for place in PLACES)


def query(root: str, names: Iterable[str], shown: str = FORMAT) -> List[str]:
    """The command that prints name and version, or something else, of those of some packages that are there."""
    below = ["--root", root] if root.rstrip("/") else []
    return ["rpm", *below, "--query", "--queryformat", shown, *names]


def rows(printed: str) -> List[Tuple[str, str]]:
    """Name and version, or file, in each line that `query` prints of a package that is there.

    >>> rows("munge\\t0.5.13-13.el9\\npackage slurm is not installed\\n")
    [('munge', '0.5.13-13.el9')]
    """
    return [(one[0], one[1]) for one in (line.split("\t") for line in printed.splitlines()) if len(one) > 1]


def versions(printed: str) -> Dict[str, str]:
    """The version of each package in what `query` prints; of two, the newer, which is the last."""
    return dict(rows(printed))


def unended(root: str) -> List[str]:
    """The packages that dnf was to install when it was killed; none while a program changes packages."""
    path = root.rstrip("/") + HISTORY
    if not os.path.exists(path):
        return []
    import sqlite3  # only hosts with dnf need it

    try:
        history = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=10)
        try:
            found = sorted(str(row[0]) for row in history.execute(KILLED))
        finally:
            history.close()
    except sqlite3.Error:
        return []
    return [] if is_locked(root, ["%s/.rpm.lock" % place for place in PLACES]) else found


def killed(names: Iterable[str], printed: str) -> Killed:
    """What a killed transaction with these packages has left, by what `query` prints of them."""
    there = [name for name, _ in rows(printed)]
    wanted = [name for name in names if name in there]
    return Killed(tuple(wanted), tuple(name for name in wanted if there.count(name) > 1))
