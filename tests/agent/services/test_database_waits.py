"""Queries of slurmdbd that wait in MariaDB for a lock of another session."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.services.database_waits import rows_in, told

SLURM = "14\tslurm\tlocalhost\tQuery\t394\tWaiting for table metadata lock\n"
OWN = "5\tslurm\tlocalhost\tSleep\t408\t\n"
BACKUP = "9\troot\tlocalhost\tSleep\t402\t\n"
YOUNGER = "30\troot\tlocalhost\tQuery\t0\tstarting\n"


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (OWN + SLURM + BACKUP + YOUNGER, "a query of the user slurm has waited for 394 s (Waiting for table metadata"),
        (OWN + SLURM + BACKUP + YOUNGER, "session 9 of root@localhost (sleep for 402 s). To end it: mariadb --execute"),
        (SLURM * 2 + BACKUP, "2 queries of the user slurm have waited"),
        (OWN + SLURM + YOUNGER, "which session has the lock: mariadb --execute 'SHOW FULL PROCESSLIST'"),
    ],
)
def test_what_waits_and_the_older_session_that_has_the_lock_are_told(shown: str, words: str) -> None:
    assert words in told(rows_in(shown))


@pytest.mark.parametrize(
    "shown", [OWN + BACKUP, "", SLURM.replace("394", "2"), SLURM.replace("Waiting for table metadata lock", "Updating")]
)
def test_queries_that_wait_for_no_lock_or_for_a_moment_are_no_trouble(shown: str) -> None:
    assert told(rows_in(shown)) == ""
