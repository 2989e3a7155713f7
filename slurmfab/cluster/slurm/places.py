"""Where Slurm's daemons have their directories and logs on a host, by slurm.conf, and where slurmdbd listens."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import lru_cache

from slurmfab.cluster.slurm.meaning import SETTINGS

DBD_PORT = 6819  # the port of slurmdbd (DbdPort, slurmdbd.conf(5)): its default, written explicitly
LOGS = {"slurmctld": "slurmctldlogfile", "slurmd": "slurmdlogfile"}  # the key of each daemon's log, in lower case


def spool_directory(settings: Mapping[str, str], node: str, hostname: str = "") -> str:
    """SlurmdSpoolDir on a node without slash at its end; keys in lower case, an empty hostname is the NodeName."""
    value = settings.get("slurmdspooldir", "") or SETTINGS["slurmdspooldir"]
    return _normal(_expanded(value, node, hostname))


def log_file(settings: Mapping[str, str], daemon: str, node: str, hostname: str = "") -> str:
    """The path of the log of `slurmctld` or `slurmd`, settings in lower case; empty if it writes to syslog alone."""
    return _expanded(settings.get(LOGS[daemon], ""), node, hostname)


@lru_cache(maxsize=256)
def _normal(path: str) -> str:
    """A path without `..` and double slashes; most hosts have the same one."""
    return posixpath.normpath(path)


def _expanded(value: str, node: str, hostname: str) -> str:
    """A path with the names of a host for `%n` and `%h` (slurm.conf(5))."""
    return value.replace("%n", node).replace("%h", hostname or node)


def slurmdbd_port(own: Mapping[str, str | None]) -> int:
    """The port of slurmdbd, by the user's keys of slurmdbd.conf."""
    value = {key.lower(): value for key, value in own.items()}.get("dbdport") or ""
    return int(value) if value.isdecimal() else DBD_PORT
