"""The modules of PAM that a host has: without one that a line requires, users are refused."""

from __future__ import annotations

import glob
import re
from typing import List

from slurmfab.on_hosts.agent.core.resource import Context

PLACES = ("/lib/security", "/lib64/security", "/usr/lib/security", "/usr/lib64/security", "/usr/lib/*/security")
"""Where libpam looks for modules."""

REQUIRED = re.compile(r"^[ \t]*\w+[ \t]+(?:required|requisite)[ \t]+(pam_\w+\.so)\b", re.MULTILINE)
"""A line that refuses users where its module is missing (pam.conf(5))."""


def is_installed(context: Context, module: str) -> bool:
    """Whether the host has a module of this name."""
    return any(glob.glob(context.path("%s/%s" % (place, module))) for place in PLACES)


def missing(context: Context, text: str) -> List[str]:
    """The modules that the lines of a file require, and that the host does not have, sorted."""
    return sorted(one for one in set(REQUIRED.findall(text)) if not is_installed(context, one))
