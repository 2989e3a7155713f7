"""Questions to rpm, and which packages dnf had not finished."""

from __future__ import annotations

from typing import Iterable, List, Tuple

RPM = "/usr/bin/rpm"
FORMAT = "%{NAME}\t%{VERSION}-%{RELEASE}\n"

# Actions that install (libdnf, TransactionItemAction).
UNENDED = """SELECT DISTINCT name FROM trans_item JOIN rpm USING (item_id) WHERE action IN (1, 2, 6, 9) AND trans_id =
(SELECT id FROM trans WHERE state = 0 AND id = (SELECT max(id) FROM trans))"""


def query(root: str, names: Iterable[str], shown: str = FORMAT) -> List[str]:
    """The command that prints something of installed packages."""
    below = ["--root", root] if root.rstrip("/") else []
    return ["rpm", *below, "--query", "--queryformat", shown, *names]


def rows(printed: str) -> List[Tuple[str, str]]:
    """Both fields of each line that `query` prints of a package."""
    return [(name, text) for name, tab, text in (line.partition("\t") for line in printed.splitlines()) if tab]


def unended(root: str) -> List[str]:
    """The packages that dnf installs now, or was installing when it was killed."""
    import sqlite3

    place = "file:%s/var/lib/dnf/history.sqlite?mode=ro" % root.rstrip("/")
    try:
        return sorted(row[0] for row in sqlite3.connect(place, uri=True).execute(UNENDED))
    except sqlite3.Error:
        return []
