"""sacctmgr(1) on slurmdbd's host, with its own slurm.conf, since the host may have none or an old one."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import List, Mapping, Sequence

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

PROGRAM = "sacctmgr"
SACCTMGR_TIMEOUT = 300.0  # seconds that one command may take: deleting an account with a long history takes that long

SOON = 15.0  # after so many seconds without an answer to a question it is looked what slurmdbd waits for

NO_ANSWER = (
    "Connection refused",
    "Connection timed out",
    "No route to host",
    "Problem talking to",
    "Unable to connect to",
)
ADVICE = (
    "slurmdbd does not answer (%s). %sSee `systemctl status slurmdbd mariadb` and /var/log/slurm/slurmdbd.log there"
)
JOBS_RUN = "Job(s) active"
OTHER_FIELDS = "sacctmgr show %s answered with other fields than it was asked for, at %s"
SHOWN_CHARACTERS = 80

NAME_BYTES = 256  # what a name takes: slurmdbd stores 255 bytes of it
CUT_OFF = "+"  # the last character of a text that is longer than its field


class Sacctmgr:
    """Runs sacctmgr with a temporary slurm.conf of this text inside the `with` block; empty: the host's own."""

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
        """Run one command and return its output; ResourceFailed if it failed, or slurmdbd does not answer."""
        return self.output(argv).decode(errors="replace")

    def output(self, argv: Sequence[str]) -> bytes:
        """The same as bytes."""
        command = [PROGRAM, *argv]
        env = {"SLURM_CONF": self.path} if self.directory else {}
        try:
            # A question may be asked twice, so that a locked table is told soon.
            done = self.context.run(command, seconds=SOON if "show" in argv else SACCTMGR_TIMEOUT, env=env)
        except ResourceFailed as error:
            if "did not end within" not in str(error):
                raise
            from slurmfab.on_hosts.agent.services import database_waits  # most runs wait for nothing

            why = database_waits.of_database(self.context)
            if why or "show" not in argv:
                told = "no answer to %s" % PROGRAM
                raise ResourceFailed(ADVICE % (told, "It waits: %s. " % why if why else "")) from error
            done = self.context.run(command, seconds=SACCTMGR_TIMEOUT, env=env)
        if done.returncode != 0:
            output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
            raise ResourceFailed(explain_failure(command, output, errors, self.context))
        return done.stdout

    def rows(self, columns: Sequence[str], *arguments: str) -> List[List[str]]:
        """Run a `show` and return one list of columns for each line.

        `columns`: for `format=`; only the last one may contain a `|`, and none a text of coordinators. `arguments`:
        what to show, such as `("assoc", "where", "cluster=x")`. Raises ResourceFailed as for `run`, or a line has other
        columns.
        """
        lines = self.run(["-nP", "show", *arguments, "format=" + ",".join(columns)]).split("\n")
        found = [line.split("|", len(columns) - 1) for line in lines if line]
        broken = next((row for row in found if len(row) != len(columns)), None)
        if broken:
            raise ResourceFailed(OTHER_FIELDS % (arguments[0], ascii("|".join(broken)[:SHOWN_CHARACTERS])))
        return found

    def records(self, widths: Mapping[str, int], *arguments: str) -> List[List[str]]:
        """Run a `show` of names and texts, which coordinators choose, line breaks and separators included.

        Each field has a fixed number of bytes, so no text can end its field, or look like another record. `widths`:
        number of bytes of each column, by its name; a longer text is cut off, and ends in `+`. `arguments`: what to
        show, as for `rows`. Raises ResourceFailed as for `run`, or the answer has another length.
        """
        shown = self.output(["-n", "show", *arguments, "format=" + commands.in_widths(widths)])
        return commands.rows_of_widths(shown, widths, "sacctmgr show " + arguments[0])


def is_cut_off(text: str, width: int) -> bool:
    """Whether a text may be the beginning of one that was too long for its field."""
    return text.endswith(CUT_OFF) and len(text.encode(errors="replace")) >= width


def explain_failure(command: Sequence[str], output: str, errors: str, context: Context) -> str:
    """Why a command failed and what to try, in one line; with slurmdbd's own errors where it does not answer."""
    lines = [line.replace("sacctmgr: error: ", "").strip() for line in (errors + "\n" + output).splitlines()]
    text = " | ".join(dict.fromkeys(line for line in lines if line and not line.startswith("Use keyword")))
    if any(sign in text for sign in NO_ANSWER):
        from slurmfab.on_hosts.agent.services import daemon_log  # most runs need no cause

        said = daemon_log.read({"unit": "slurmdbd"}, context)["errors"]
        return ADVICE % (text, "slurmdbd's own log says: %s. " % " | ".join(said).rstrip(".") if said else "")
    if JOBS_RUN in text:
        return "%s: jobs still run there: %s. Cancel them or wait, and deploy again." % (" ".join(command), text)
    return "%s failed: %s" % (" ".join(command), text or "no error message")
