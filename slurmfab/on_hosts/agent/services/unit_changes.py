"""What a site has changed of a daemon's unit: drop-ins and unit files that are neither a package's nor slurmfab's."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, List

from slurmfab.on_hosts.agent.core.host_paths import OUR_DROP_INS
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context

QUESTION = ("systemctl", "show", "--property=FragmentPath,DropInPaths")
PACKAGED = ("/usr/lib/", "/lib/", "/run/systemd/generator")
"""Where packages have units, and generators of the system write theirs."""

SETTING = re.compile(r"^\s*([A-Z]\w*)\s*=\s*(.*?)\s*$", re.MULTILINE)
SECRET = re.compile(r"Environment|Credential|^Exec|Description|Documentation")
"""Settings whose values are left out, because they may hold a secret, or say nothing."""

MOST_FILES, MOST_SETTINGS, MOST_CHARACTERS = 3, 6, 80


def change_sentences(context: Context, unit: str) -> List[str]:
    """Sentences that name the changes of a unit with their settings; empty if it is as its package has it."""
    shown = context.run([*QUESTION, unit]).stdout.decode(errors="replace")
    return sentences(shown, lambda path: read_text(context.path(path)))


def sentences(shown: str, read: Callable[[str], str]) -> List[str]:
    """The sentences of `told`. `shown`: the output of `QUESTION` about a unit."""
    values: Dict[str, str] = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    own = values.get("FragmentPath", "")
    lines = ["its unit is %s, which hides the package's" % own] if own and not own.startswith(PACKAGED) else []
    drop_ins = [path for path in values.get("DropInPaths", "").split() if is_sites(path)]
    return lines + ["changed by %s%s" % (path, settings(read(path))) for path in drop_ins[:MOST_FILES]]


def is_sites(path: str) -> bool:
    """Whether a drop-in is neither a package's nor slurmfab's."""
    return not path.startswith(PACKAGED) and not os.path.basename(path).startswith(OUR_DROP_INS)


def settings(text: str) -> str:
    """The settings of a drop-in, such as ` (User=nobody, ExecStart)`."""
    found = SETTING.findall(text)[:MOST_SETTINGS]
    words = [key if SECRET.search(key) else "%s=%s" % (key, value[:MOST_CHARACTERS]) for key, value in found]
    return " (%s)" % ", ".join(dict.fromkeys(words)) if words else ""
