"""How long slurmdbd may take to convert its database: a range, since it depends on the disk most of all.

Within one series nothing is converted. Between series slurmdbd adds columns and keys to its tables, for which the
database server copies a table in the worst case, and sometimes rewrites rows itself (as_mysql_convert.c). Slurm's
upgrade guide says no more than “tens of minutes” for large databases.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade.plan import Conversion

FAST, SLOW = 100_000, 5_000
"""Rows per second, on a fast server and on a slow or busy one.

Measured on a lab host with two busy processors, 24.11 to 26.05: 0.5 million jobs and 1 million steps (0.9 GB) in 67 s,
which is 22,000 rows a second.
"""

LEAST_SECONDS = (2.0, 30.0)  # the same for an empty database: some fifty tables are looked at and changed
ROOM = 1.5  # free bytes for each byte of the database: a copy of its largest tables, and of the changes to them


def estimate(have: SlurmVersion, to: SlurmVersion, rows: Mapping[str, int], size: int) -> Conversion | None:
    """What slurmdbd would convert between series, by rows of the big tables, and bytes; `None` within one."""
    if have >= to:
        return None
    count = sum(rows.values())
    return Conversion(dict(rows), size, (LEAST_SECONDS[0] + count / FAST, LEAST_SECONDS[1] + count / SLOW))
