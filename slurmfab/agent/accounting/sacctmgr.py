"""sacctmgr(1) on slurmdbd's host, with its own slurm.conf, since the host may have none or an old one."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import List, Sequence

from slurmfab.agent.core.resource import Context, ResourceFailed

PROGRAM = "sacctmgr"
SACCTMGR_TIMEOUT = 300.0
"""Seconds that one command may take: deleting an account with a long history takes that long."""

NO_ANSWER = (
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Problem talking to",
    "Unable to connect to",
)
ADVICE = "slurmdbd does not answer (%s). See `systemctl status slurmdbd mariadb` and /var/log/slurm/slurmdbd.log there."
JOBS_RUN = "Job(s) active"
BROKEN_TEXT = "a description in slurmdbd has a line break, at %s. Replace it by sacctmgr modify ... set description="
SHOWN_CHARACTERS = 80


class Sacctmgr:
    """Runs sacctmgr with a temporary slurm.conf, which exists inside the `with` block.

    Args:
        context: runs the program.
        conf: the text of that slurm.conf; empty to use the host's own.
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
        """Path of the temporary slurm.conf."""
        return os.path.join(self.directory, "slurm.conf")

    def run(self, argv: Sequence[str]) -> str:
        """Run one command and return its output.

        Raises:
            ResourceFailed: the command failed, or slurmdbd does not answer.
        """
        command = [PROGRAM, *argv]
        done = self.context.run(
            command, seconds=SACCTMGR_TIMEOUT, env={"SLURM_CONF": self.path} if self.directory else {}
        )
        if done.returncode != 0:
            output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
            raise ResourceFailed(explain_failure(command, output, errors))
        return done.stdout.decode(errors="replace")

    def rows(self, columns: Sequence[str], *arguments: str) -> List[List[str]]:
        """Run a `show` and return one list of columns for each line.

        Args:
            columns: for `format=`; only the last one may contain a `|`.
            arguments: what to show, such as `("assoc", "where", "cluster=x")`.

        Raises:
            ResourceFailed: as for `run`, or a description has a line break, so that its rows cannot be told apart.
        """
        lines = self.run(["-nP", "show", *arguments, "format=" + ",".join(columns)]).split("\n")
        found = [line.split("|", len(columns) - 1) for line in lines if line]
        broken = next((row for row in found if len(row) != len(columns)), None)
        if broken:
            raise ResourceFailed(BROKEN_TEXT % ascii("|".join(broken)[:SHOWN_CHARACTERS]))
        return found

    def tables(self, *queries: Sequence[Sequence[str]]) -> List[List[List[str]]]:
        """The rows of several queries, run in parallel, since each one mostly waits for slurmdbd.

        Args:
            queries: for each, the columns and the words of `rows`.

        Raises:
            ResourceFailed: as for `run`.
        """
        with ThreadPoolExecutor(len(queries)) as pool:
            return list(pool.map(lambda query: self.rows(query[0], *query[1]), queries))


def explain_failure(command: Sequence[str], output: str, errors: str) -> str:
    """Why a command failed and what to try, in one line.

    Args:
        command: program and arguments.
        output: its standard output.
        errors: its standard error.
    """
    lines = [line.replace("sacctmgr: error: ", "").strip() for line in (errors + "\n" + output).splitlines()]
    text = " | ".join(dict.fromkeys(line for line in lines if line and not line.startswith("Use keyword")))
    if any(sign in text for sign in NO_ANSWER):
        return ADVICE % text
    if JOBS_RUN in text:
        return "%s: jobs still run there: %s. Cancel them or wait, and deploy again." % (" ".join(command), text)
    return "%s failed: %s" % (" ".join(command), text or "no error message")
