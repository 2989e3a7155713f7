"""The directories of Slurm's daemons on a host: whose they are, and whether a link of another user leads to them."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.checks.hosts import CheckedHost
from slurmfab.inventory.cluster import Cluster
from slurmfab.paths import SLURM_HOME, SLURM_LOGS, SLURM_SPOOL

ABSENT = " - No such file or directory"
"""What namei(1) shows behind a name that does not exist."""

_WRITABLE = (5, 8)
"""Indices in a mode such as `drwxr-xr-x` that tell whether the group and others may write."""


def owners(cluster: Cluster, host: str) -> dict[str, str]:
    """The directories of a host's daemons, each with the user that it belongs to."""
    roles = cluster.roles(host)
    return {
        SLURM_LOGS: "slurm",
        SLURM_HOME: "slurm",
        **({cluster.state_directory: "slurm"} if "controller" in roles else {}),
        **({SLURM_SPOOL: "root"} if "compute" in roles else {}),
    }


def wrong_directories(host: CheckedHost, wanted: Mapping[str, str]) -> list[str]:
    """What is wrong with directories of a host, one sentence for each.

    Args:
        host: the host.
        wanted: owner by path.
    """
    shown = str(host.run(f"LC_ALL=C namei -l -- {' '.join(wanted)}").stdout)
    found = (block.partition("\n") for block in shown.removeprefix("f: ").split("\nf: "))
    ways = {path: text.splitlines() for path, _, text in found}
    return [wrong for path, owner in wanted.items() if (wrong := wrong_way(path, ways.get(path, []), owner))]


def wrong_way(path: str, lines: list[str], owner: str) -> str:
    """What is wrong with the way to a directory; empty if nothing is, or if namei(1) is not there.

    Args:
        path: of the directory.
        lines: the names on the way as namei(1) shows them with `-l`, `MODE OWNER GROUP NAME`, with the names on the way
            of each link below it.
        owner: the user that it has to belong to.
    """
    others = ""
    last = ""
    for line in lines:
        mode, _, rest = line.partition(" ")
        fields = rest.split()
        if line.endswith(ABSENT):
            return f"there is no {path}"
        if not mode or len(fields) < 3:
            return ""
        last, name = fields[0], " ".join(fields[2:])
        if mode.startswith("l") and (others or last != "root"):
            changed = others if last == "root" else last
            return f"{path} leads through a symbolic link of {last}, {name}, which {changed} can change"
        if last != "root":
            others = others or last
        elif any(mode[index] == "w" for index in _WRITABLE) and not mode.endswith(("t", "T")):
            others = others or "others than root"
    return f"{path} belongs to {last}, not to {owner}" if lines and last != owner else ""
