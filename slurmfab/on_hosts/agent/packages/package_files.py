"""Files that packages of Slurm and MUNGE have brought, and that somebody has removed."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text

INFO = "/var/lib/dpkg/info"
"""Where dpkg lists the files of each package, as `NAME.list` or `NAME:ARCHITECTURE.list`."""

OURS = re.compile(r"((?:lib)?(?:slurm|munge)[a-z0-9.+-]*)(?::[a-z0-9]+)?\.list")
PLACES = re.compile(r"(?:/usr)?/(?:s?bin|lib)/", re.ASCII)
"""Programs, libraries, plugins and units; a site may leave out documentation (dpkg(1), --path-exclude)."""

MOST = 3
"""How many missing files are named."""


def missing(root: str) -> Tuple[Tuple[str, str], ...]:
    """Package and path of each file that is missing, sorted."""
    folder, found = root.rstrip("/") + INFO, []
    for name in names(folder):
        package = OURS.fullmatch(name)
        if package:
            paths = read_text("%s/%s" % (folder, name)).splitlines()
            found += [(package[1], one) for one in paths if PLACES.match(one) and is_gone(root, one)]
    return tuple(sorted(found))


def is_gone(root: str, path: str) -> bool:
    """Whether there is nothing at a path."""
    return not os.path.lexists(root.rstrip("/") + path)


def text(found: Tuple[Tuple[str, str], ...]) -> Optional[str]:
    """The missing files as a value of a state, such as `/usr/sbin/slurmstepd of slurmd`; `None` for none."""
    shown: List[str] = ["%s of %s" % (path, package) for package, path in found[:MOST]]
    more = len(found) - MOST
    return ", ".join([*shown, *(["%d more" % more] if more > 0 else [])]) or None
