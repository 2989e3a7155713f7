"""How long slurmdbd may take to convert its database: a range, since it depends on the disk most of all.

Within one series nothing is converted. Between series slurmdbd adds columns and keys to its tables, for which the
database server copies a table in the worst case, and sometimes rewrites rows itself (as_mysql_convert.c). Slurm's
upgrade guide says no more than “tens of minutes” for large databases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from slurmfab.base.errors import DeployFailed, HostError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.places import slurmdbd_port
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade.plan import Conversion
from slurmfab.core.engine.job_waiting import SILENCE_SECONDS
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import answer_value

FAST, SLOW = 100_000, 5_000
"""Rows per second, on a fast server and on a slow or busy one.

Measured on a lab host with two busy processors, 24.11 to 26.05: 0.5 million jobs and 1 million steps (0.9 GB) in 67 s,
which is 22,000 rows a second.
"""

LEAST_SECONDS = (2.0, 30.0)  # the same for an empty database: some fifty tables are looked at and changed
ROOM = 1.5  # free bytes for each byte of the database: a copy of its largest tables, and of the changes to them

POLL_SECONDS = 1.0
TELL_SECONDS = 30.0  # how often the same table is told again


def estimate(have: SlurmVersion, to: SlurmVersion, rows: Mapping[str, int], size: int) -> Conversion | None:
    """What slurmdbd would convert between series, by rows of the big tables, and bytes; `None` within one."""
    if have >= to:
        return None
    count = sum(rows.values())
    return Conversion(dict(rows), size, (LEAST_SECONDS[0] + count / FAST, LEAST_SECONDS[1] + count / SLOW))


def wait(run: Run, host: str, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until slurmdbd answers.

    Raises DeployFailed, with its last words, if slurmdbd has ended; HostError if the host has not answered for some
    minutes, while slurmdbd goes on there.
    """
    run.progress.begin("converting the database", (host,))
    begun = heard = time.monotonic()
    told: tuple[str, float] = ("", begun)
    while True:
        try:
            found, heard = ask(run, host), time.monotonic()
        except HostError:
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise
            pause(POLL_SECONDS)
            continue
        if found["state"] == "done":
            run.progress.host_done(host)
            if told[0]:
                run.progress.line(f"{host}: slurmdbd answers, after {time.monotonic() - begun:.0f} s.")
            return
        if found["state"] == "ended":
            raise ended(host, found)
        text, now = progress_text(found), time.monotonic()
        if text and (text.split(",")[0] != told[0].split(",")[0] or now - told[1] > TELL_SECONDS):
            told = text, now
            run.progress.line(f"{host}: slurmdbd converts its database: {text}.")
        pause(POLL_SECONDS)


def ask(run: Run, host: str) -> Mapping[str, Any]:
    """The state of the conversion. Raises HostError if the host does not answer."""
    cluster = run.inventory.cluster
    database = cluster.database
    assert database is not None, "there is a step for slurmdbd"
    name = "" if database.external else database.name
    request = {"op": "conversion", "port": slurmdbd_port(cluster.slurmdbd_conf), "database": name}
    found: Mapping[str, Any] = answer_value(host, run.transport.call(host, request), "conversion")
    return found


def progress_text(found: Mapping[str, Any]) -> str:
    """The progress in words, such as `lab_job_table, for 12 s, 40% done`; empty if it is unknown."""
    if not found["table"]:
        return ""
    percent = f", {found['percent']}% done" if found["percent"] > 0 else ""
    return f"{found['table']}, for {found['seconds']} s{percent}"


def ended(host: str, found: Mapping[str, Any]) -> DeployFailed:
    """The error for a slurmdbd that has ended."""
    said = " | ".join(found["words"]) or "it left no message"
    return DeployFailed(
        f"{host}: slurmdbd ended while it converted its database: {said}. slurmctld keeps the records of jobs until it "
        f"answers. Repair what it says, then run the same command again, which goes on. To see more: on {host}, "
        f"runuser -u slurm -- slurmdbd -D. To give up: {FAB} upgrade --back BACKUP."
    )
