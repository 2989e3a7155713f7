"""Examples of Slurm's settings that packages put where daemons read them, as EPEL's do.

Such a file would pass for the cluster that a host is in. It goes where slurmfab has installed its package itself, and
nobody has changed the file.
"""

from __future__ import annotations

import os
from typing import List, Sequence

from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB, read_text, sha256_of
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.dnf import dnf, rpm_database
from slurmfab.on_hosts.agent.packages import added_packages

PLACES = ("/etc/slurm/slurm.conf", "/etc/slurm/slurmdbd.conf", "/etc/slurm/cgroup.conf")
DIGESTS = "[%{FILENAMES}\\t%{FILEDIGESTS}\\n]"  # a line for each file of a package


def examples(context: Context, packages: Sequence[str]) -> List[str]:
    """The paths of the examples of some packages that are there."""
    there = [path for path in PLACES if os.path.isfile(context.path(path))]
    others = [path for path in there if not read_text(context.path(path)).startswith(MADE_BY_SLURMFAB)]
    own = sorted(added_packages.read(context).intersection(packages)) if others else []
    if not own:
        return []
    digests = dict(rpm_database.rows(dnf.printed(context, own, DIGESTS)))
    return [path for path in others if digests.get(path) == sha256_of(context.path(path))]


def remove(context: Context, packages: Sequence[str]) -> None:
    """Remove them."""
    for path in examples(context, packages):
        os.unlink(context.path(path))
