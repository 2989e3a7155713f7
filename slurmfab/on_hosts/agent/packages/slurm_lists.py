"""Fetching the lists of the source of Slurm's packages."""

from __future__ import annotations

from typing import Tuple

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.packages.apt import apt_get
from slurmfab.on_hosts.agent.packages.slurm_release import SOURCES

ONLY = (
    "-o", "Dir::Etc::sourcelist=" + SOURCES, "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Get::List-Cleanup=0",
)  # fmt: skip
"""Options of apt-get update that leave the lists of all other sources as they are."""


def refresh(context: Context, options: Tuple[str, ...] = ONLY) -> str:
    """Fetch the lists of the source of Slurm's packages, and of no other one.

    `options`: of apt-get; empty to fetch the lists of all sources. Returns what apt-get printed if it complained,
    otherwise an empty text.
    """
    code, output = apt_get(context, [*options, "update"])
    failed = code != 0 or "\nErr:" in output or (options and "\nW: Failed to fetch" in output)
    return "\n" + output if failed else ""
