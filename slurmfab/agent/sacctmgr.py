"""sacctmgr(1) on the host of slurmdbd, whatever slurm.conf is there, or none yet."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import List, Sequence

from slurmfab.agent.resource import Context, ResourceFailed

PROGRAM = "sacctmgr"
SECONDS = 300.0
"""How long one command may take: removing an account of a large history does."""

SILENT = (
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Problem talking to",
    "Unable to connect to",
)
ADVICE = "slurmdbd does not answer (%s). See `systemctl status slurmdbd mariadb` and /var/log/slurm/slurmdbd.log there."
JOBS_RUN = "Job(s) active"


class Sacctmgr:
    """sacctmgr with a slurm.conf of its own, which is there as long as this is entered.

    Args:
        context: runs it.
        conf: the text of that slurm.conf; empty for the host's own.
    """

    def __init__(self, context: Context, conf: str) -> None:
        self.context = context
        self.conf = conf
        self.directory = ""

    def __enter__(self) -> Sacctmgr:
        if self.conf:
            self.directory = tempfile.mkdtemp(prefix="slurmfab-", dir=self.context.path("/run"))
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(self.conf)
        return self

    def __exit__(self, *_: object) -> None:
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def path(self) -> str:
        """Where its slurm.conf is."""
        return os.path.join(self.directory, "slurm.conf")

    def run(self, argv: Sequence[str]) -> str:
        """Run one command and return what it printed.

        Raises:
            ResourceFailed: it failed, or slurmdbd does not answer.
        """
        words = [PROGRAM, *argv]
        done = self.context.run(words, seconds=SECONDS, env={"SLURM_CONF": self.path} if self.directory else {})
        if done.returncode != 0:
            raise ResourceFailed(why(words, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")))
        return done.stdout.decode(errors="replace")

    def rows(self, columns: Sequence[str], *words: str) -> List[List[str]]:
        """What a `show` tells, a list of columns for each line; only the last may hold a `|`.

        Raises:
            ResourceFailed: as `run` does.
        """
        lines = self.run(["-nP", "show", *words, "format=" + ",".join(columns)]).splitlines()
        return [line.split("|", len(columns) - 1) for line in lines if line]

    def tables(self, *queries: Sequence[Sequence[str]]) -> List[List[List[str]]]:
        """The rows of several queries, asked at once: each waits for slurmdbd and does nothing meanwhile.

        Args:
            queries: columns, and then the words, of each.

        Raises:
            ResourceFailed: as `run` does.
        """
        with ThreadPoolExecutor(len(queries)) as pool:
            return list(pool.map(lambda query: self.rows(query[0], *query[1]), queries))


def why(words: Sequence[str], printed: str, complaints: str) -> str:
    """Why a command failed, in one line, and what to try."""
    lines = [line.replace("sacctmgr: error: ", "").strip() for line in (complaints + "\n" + printed).splitlines()]
    said = " | ".join(dict.fromkeys(line for line in lines if line and not line.startswith("Use keyword")))
    if any(silence in said for silence in SILENT):
        return ADVICE % said
    if JOBS_RUN in said:
        return "%s: jobs still run there: %s. Cancel them or wait, and deploy again." % (" ".join(words), said)
    return "%s failed: %s" % (" ".join(words), said or "it said nothing")
