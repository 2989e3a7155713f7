"""The systemd units of mounts: their names, what they mount, and what systemd says when that fails."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.core import mounts
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.files.owned_files import read_record
from slurmfab.on_hosts.agent.services.daemon_log import journal

MOUNT, AUTOMOUNT = ".mount", ".automount"
OF = "mounts"  # the capability's name in the records of files
LINES = re.compile(r"^(?:What|Type|Options)=.*$", re.MULTILINE)  # the lines of a mount unit that say what is mounted

UNTOLD = re.compile(
    r"^(?:Mounting |Mounted |Unmounting |Unmounted |Failed to |\S+\.mount: |Dependency failed|Directory )"
)
"""Lines of systemd's own in the journal of a mount unit: which unit, and that it failed."""

AUTOFS = "autofs"


def written(context: Context) -> Dict[str, str]:
    """The texts of the mount units that slurmfab has written on this host, by their paths."""
    record = read_record(context, "%s/%s.json" % (OWNED, OF))
    paths = [path for path in record.files if path.endswith((MOUNT, AUTOMOUNT))]
    return {path: read_text(context.path(path)) for path in paths}


def unit_of(path: str) -> str:
    """The name of the unit in a file."""
    return path.rpartition("/")[2]


def value(text: str, key: str) -> str:
    """The value of a key in the text of a unit; empty if it has none."""
    found = re.search(r"^%s=(.+)$" % key, text, re.MULTILINE)
    return found[1].strip().replace("%%", "%") if found else ""


def meaning(files: Mapping[str, str], path: str) -> Tuple[str, bool]:
    """What a mount unit mounts, and whether at the first use, by units' texts: a change needs a new mount."""
    text = files.get(path, "")
    lines = [line.strip() for line in LINES.findall(text)]
    return "\n".join(lines), automount_of(path) in files and not starts_at_boot(text)


def automount_of(path: str) -> str:
    """The file, or the name, of the automount unit beside a mount unit."""
    return path[: -len(MOUNT)] + AUTOMOUNT


def starts_at_boot(text: str) -> bool:
    """Whether a mount unit is started at boot, and not by its automount unit alone."""
    return "[Install]" in text


def table(context: Context) -> List[mounts.Mount]:
    """The mounted file systems of this host, without a question to any server."""
    return mounts.read(context.path("/proc/self/mountinfo"))


def mounted_at(table: List[mounts.Mount], path: str) -> Optional[mounts.Mount]:
    """The file system that is mounted at a path, besides an automounter's; `None` for none."""
    return next((one for one in reversed(table) if one.path == path and one.type != AUTOFS), None)


def failure_text(context: Context, unit: str) -> str:
    """Why a mount failed, in the words of mount(8) or of its helper; otherwise in those of systemd."""
    lines = journal(context, "--unit=" + unit, "12").splitlines()
    begun = max((number for number, line in enumerate(lines) if line.startswith("Mounting ")), default=-1)
    lines = [line.strip() for line in lines[begun + 1 :] if line.strip()]
    own = [line for line in lines if not UNTOLD.match(line)]
    return " | ".join(own[-4:] or lines[-2:]) or "it left no message; see: systemctl status %s" % unit
