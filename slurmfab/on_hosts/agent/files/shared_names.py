"""A directory of root's in which a distribution lets a group write: each name in it is changed by its owner alone.

Ubuntu's rsyslog makes /var/log `root:syslog 0775` at each boot (`z /var/log 0775 root syslog -` in its
/usr/lib/tmpfiles.d/00rsyslog.conf), because its daemon is the user syslog and makes its files there. So that user could
put another directory in the place of that of slurmd, which is root and opens its log by name, also long after its
start: for each step, and after each rotation. The sticky bit (unlink(2), rename(2)) closes just this: members of the
group go on making, renaming and removing files of their own, and no log gets another path. A copy of the distribution's
file in /etc, by which tmpfiles.d(5) lets one change it, keeps the bit at each boot and each upgrade of the package.
"""

from __future__ import annotations

import os
import re
import stat
from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB, names, read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import OTHERS_WRITE, access_shown, is_roots, open_folder

OWN = "/etc/tmpfiles.d"
PLACES = ("/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
"""Where others have files of systemd-tmpfiles(8); of equal names the first counts, and before all that in /etc."""

LINE = re.compile(r"^([A-Za-z]\S*[ \t]+)(\S+)([ \t]+[~:]*)([0-7]{3,4})(?=\s|$)", re.MULTILINE)
"""A line of such a file that sets a mode: its type, the path, what is between, and the mode."""

OWNERS = "its owner"
NOW, LATER = "changes a name in it", "does so after a boot"


class SharedNames(Resource):
    """A directory of root's in which members of a group, if one may write there, change only what is theirs.

    What no distribution does, such as a directory that everybody may write to, is left to those who refuse it.
    """

    kind: ClassVar[str] = "shared-names"
    named_by: ClassVar[str] = "path"
    wanted_state: ClassVar[State] = {NOW: OWNERS, LATER: OWNERS}
    path: str  # absolute path of the directory

    def actual(self, context: Context) -> State:
        """The same, or who else, and by which file."""
        try:
            with open_folder(context.path(self.path)) as folder:
                status = folder.status
        except (FileNotFoundError, NotADirectoryError):
            return self.wanted_state
        is_open = is_roots(status) and status.st_mode & (OTHERS_WRITE | stat.S_ISVTX) == stat.S_IWGRP
        copies, sites = self.by_files(context)
        changing = [path for path, text in copies.items() if text_of(context.path(path)) != text]
        told = ["its group, by " + path for path in sites]
        told += [
            "its group, by what %s is a copy of" % path if copies[path] else "by a former " + path for path in changing
        ]
        return {NOW: "its group (%s)" % access_shown(status) if is_open else OWNERS, LATER: "; ".join(told) or OWNERS}

    def by_files(self, context: Context) -> Tuple[Dict[str, str], Tuple[str, ...]]:
        """What each copy in /etc has to be, empty for none any more; and the site's own files that open it."""
        own, copies, sites, seen = names(context.path(OWN)), {}, [], set()
        for name in own:
            path = "%s/%s" % (OWN, name)
            text = text_of(context.path(path))
            if text.startswith(self.head):
                copies[path] = ""
            else:
                seen.add(name)
                sites += [path] * (self.closed(text) != text)
        for place in PLACES:
            for name in names(context.path(place)):
                text = text_of("%s/%s" % (context.path(place), name)) if name not in seen else ""
                if self.closed(text) != text:
                    copies["%s/%s" % (OWN, name)] = self.head + self.closed(text)
                seen.add(name)
        return copies, tuple(sites)

    @property
    def head(self) -> str:
        """The first line of a copy."""
        return "%s: a copy in which %s has the sticky bit (t).\n" % (MADE_BY_SLURMFAB, self.path)

    def closed(self, text: str) -> str:
        """The text of such a file with the sticky bit where a group alone may write to the directory."""

        def sticky(line: re.Match[str]) -> str:
            mode = int(line[4], 8)
            is_open = line[2].rstrip("/") == self.path and mode & (OTHERS_WRITE | stat.S_ISVTX) == stat.S_IWGRP
            return "%s%s%s%o" % (line[1], line[2], line[3], mode | stat.S_ISVTX) if is_open else line[0]

        return LINE.sub(sticky, text)

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:
        """The copies that are written or removed."""
        return tuple(self.by_files(Context())[0]) if LATER in differing else ()

    def folders(self) -> Tuple[str, ...]:
        """The directory itself."""
        return (self.path,)

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Set the bit, and write or remove the copies; ResourceFailed for a file of the site's own that opens it."""
        with open_folder(context.path(self.path)) as folder:
            if is_roots(folder.status) and folder.status.st_mode & OTHERS_WRITE == stat.S_IWGRP:
                folder.set_access(mode=stat.S_IMODE(folder.status.st_mode) | stat.S_ISVTX)
        copies, sites = self.by_files(context)
        for path, text in copies.items():
            if text:
                replace.put(context.path(path), text.encode(errors="surrogateescape"), 0, 0, 0o644, make=True)
            else:
                os.unlink(context.path(path))
        if sites:
            raise ResourceFailed(
                "%s lets a group put another directory in the place of slurmd's log at each boot. Write mode 1775 for "
                "%s there, in place of 0775" % (" and ".join(sites), self.path)
            )


def text_of(path: str) -> str:
    """The text of a file, byte by byte; empty if it cannot be read."""
    return read_bytes(path).decode(errors="surrogateescape")
