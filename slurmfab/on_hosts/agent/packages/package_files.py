"""Files that packages of Slurm and MUNGE have brought, and that somebody has removed."""

from __future__ import annotations

import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text

INFO = "/var/lib/dpkg/info"  # where dpkg lists the files of each package, as `NAME.list` or `NAME:ARCHITECTURE.list`

OURS = re.compile(r"((?:lib)?(?:slurm|munge)[a-z0-9.+-]*)(?::[a-z0-9]+)?\.list")
PLACES = re.compile(r"(?:/usr)?/(?:s?bin|lib)/", re.ASCII)
"""Programs, libraries, plugins and units; a site may leave out documentation (dpkg(1), --path-exclude)."""

ALTERNATIVES = ("/var/lib/dpkg/alternatives", "/etc/alternatives")
"""Where update-alternatives(1) has its records, and the links to which its links lead: names of programs that several
packages have, such as slurmd and slurmstepd."""

MOST = 3  # how many missing files are named


def missing(root: str) -> Tuple[Tuple[str, str], ...]:
    """Package and path of each file that is missing, sorted."""
    folder, found, unlinked = root.rstrip("/") + INFO, [], missing_links(root)
    for name in names(folder):
        package = OURS.fullmatch(name)
        if package:
            paths = [one for one in read_text("%s/%s" % (folder, name)).splitlines() if PLACES.match(one)]
            gone = [one for one in paths if is_gone(root, one)]
            gone += [unlinked[one].link for one in paths if one in unlinked]
            found += [(package[1], one) for one in gone]
    return tuple(sorted(found))


class Link(NamedTuple):
    """A link by which a program is found."""

    record: str  # name of the record that has it
    link: str  # its path


def missing_links(root: str) -> Dict[str, Link]:
    """The links by which programs of Slurm's packages are found and that are missing, by the program's own path."""
    records, targets = (root.rstrip("/") + one for one in ALTERNATIVES)
    found = {}
    for record in names(records):
        if record.startswith("slurm"):
            # Way of choosing, link, then name and link of each that goes with it; then the same of the first program.
            head, _, programs = read_text("%s/%s" % (records, record)).partition("\n\n")
            links = [record, *head.split("\n")[1:]]
            own = [one for number, one in enumerate(programs.split("\n")) if number != 1]
            for name, link, program in zip(links[::2], links[1::2], own):  # noqa: B905 - as Python 3.9 has it
                if PLACES.match(link) and not (os.path.lexists(root.rstrip("/") + link) and name in names(targets)):
                    found[program] = Link(record, link)
    return found


def is_gone(root: str, path: str) -> bool:
    """Whether there is nothing at a path."""
    return not os.path.lexists(root.rstrip("/") + path)


def text(found: Tuple[Tuple[str, str], ...]) -> Optional[str]:
    """The missing files as a value of a state, such as `/usr/sbin/slurmstepd of slurmd`; `None` for none."""
    shown: List[str] = ["%s of %s" % (path, package) for package, path in found[:MOST]]
    more = len(found) - MOST
    return ", ".join([*shown, *(["%d more" % more] if more > 0 else [])]) or None
