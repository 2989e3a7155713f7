"""Packages of the site's own that no source of a host has: found before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from typing import List, Sequence

from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.packages.apt import DOWNGRADES, LISTS, MINIMAL, apt_get
from slurmfab.on_hosts.agent.packages.apt_errors import UNKNOWN

FOLDER = "/var/cache/apt"
NO_VERSION = re.compile(r"Version '([^'\n]+)' for '([^'\n]+)' was not found")
PATIENCE = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")


def unknown(context: Context, wanted: Sequence[str]) -> List[str]:
    """The packages, `NAME` or `NAME=VERSION`, that apt's sources do not have now.

    The host's own lists are asked first. What these lack may be new, so lists are fetched into a directory of their
    own: a comparison leaves those of the host as they are. Empty where the sources cannot be asked.
    """
    if not any("_Packages" in name for name in names(context.path(LISTS))) or not lacking(context, wanted, ()):
        return []
    place = tempfile.mkdtemp(prefix="slurmfab-lists-", dir=context.path(FOLDER))
    try:
        os.chmod(place, 0o755)  # noqa: S103 - the user _apt writes there, and the lists of packages are public
        options = ("-o", "Dir::State::Lists=" + place, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=")
        code, printed = apt_get(context, [*options, *PATIENCE, "update"])
        return lacking(context, wanted, options) if code == 0 and "\nErr:" not in printed else []
    finally:
        shutil.rmtree(place, ignore_errors=True)


def lacking(context: Context, wanted: Sequence[str], options: Sequence[str]) -> List[str]:
    """The packages that no list has, by simulated installations; `options` may name other lists."""
    left, found = list(wanted), []
    while left:
        code, printed = apt_get(context, [*options, *MINIMAL, *DOWNGRADES, "--simulate", "install", "--", *left])
        texts = {first or second for first, second in UNKNOWN.findall(printed)}
        texts.update("%s=%s" % (name, version) for version, name in NO_VERSION.findall(printed))
        more = [one for one in left if one in texts or one.partition("=")[0] in texts]
        if code == 0 or not more:
            break
        found += more
        left = [one for one in left if one not in more]
    return found
