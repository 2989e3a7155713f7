"""The file with the directories that this host serves by NFS: what is in it, and what the NFS server has loaded."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context

OF = "exports"  # the capability's name in the records of files

EXPORTS = "/etc/exports.d/slurmfab.exports"
"""exportfs(8) reads all files of this directory with this ending, beside /etc/exports."""

SETTINGS = "/etc/nfs.conf.d/slurmfab.conf"
LOADED_OF = "exports-loaded"
LOADED = "%s/%s.json" % (OWNED, LOADED_OF)
"""What exportfs has loaded from slurmfab's file; facts of the host have it among `owned` until that is nothing."""

TABLE = "/var/lib/nfs/etab"  # the NFS server's table of exports (exportfs(8))

LINE = re.compile(r"^(/\S+)\s+(\S+?)\(([^()\s]*)\)$", re.MULTILINE)
"""A line of exports(5), or of the table: directory, client and options."""

ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]+")

Entry = Tuple[str, str]  # a directory and a client: an address, or a name that the server resolves


def entries(text: str) -> Dict[Entry, str]:
    """The options of all entries in a file or the table, by directory and client."""
    return {(path, client): options for path, client, options in LINE.findall(text)}


def written(context: Context) -> Dict[Entry, str]:
    """The entries of slurmfab's file on this host."""
    return entries(read_text(context.path(EXPORTS)))


def missing(wanted: Mapping[Entry, str], table: Mapping[Entry, str]) -> Dict[str, List[str]]:
    """The clients that a table lacks, by directory; of a client that is a name, the table has another spelling."""
    served = {path for path, _ in table}
    lacking: Dict[str, List[str]] = {}
    for path, client in wanted:
        is_there = (path, client) in table if ADDRESS.fullmatch(client) else path in served
        if not is_there:
            lacking.setdefault(path, []).append(client)
    return lacking
