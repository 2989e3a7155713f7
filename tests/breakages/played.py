"""A deployed cluster on which rows of the table are played, one after the other."""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field

from breakage import Breakage, Checked, Mended, Oddity, Setting, Told
from lab_cluster import DeployedLab, eventually
from stock import Stock

USER = "ada"
"""The ordinary user, whose job has to run on every node at the end of each row."""

DATABASE = "database: ctl\n"
DEPLOY = re.compile(r"^\s+repair: \S+ deploy(?: --hosts \S+)?$", re.MULTILINE)
"""A repair that is `deploy` and nothing else, as check-cluster names it."""

PLANNED = re.compile(r"^Next: \S+ deploy\b", re.MULTILINE)
"""That a plan recommends a deployment."""

FAILED_GROUP = re.compile(r"^FAILED +([\w-]+):", re.MULTILINE)
"""The group of a check that failed."""

NO_CHANGE = ": nothing changed on "
"""How the summary of a run tells that it changed nothing."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Result:
    """How far a row came: what the summary of `make test-breakages` counts."""

    found: bool = False
    named: bool = False
    mended: bool = False
    told: bool = False


@dataclass
class BrokenCluster:
    """A cluster of ctl, n1 and n2, made anew when a row has left it broken.

    Args:
        stock: makes labs.
        suite: Debian suite.
        database: whether it has an accounting database.
    """

    stock: Stock
    suite: str
    database: bool
    hosts: DeployedLab | None = None
    whole: bool = False
    opened: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        self.opened.close()
        self.hosts, self.whole = None, False

    def ready(self) -> DeployedLab:
        """The cluster, deployed and whole."""
        if self.hosts is None or not self.whole:
            self.close()
            self.hosts = self.opened.enter_context(self.stock.copy(self.suite, nodes=2, database=self.database))
            if self.database:
                with self.hosts.inventory_path.open("a") as file:
                    file.write(DATABASE)
            for host in ("ctl", "n1", "n2"):
                self.hosts.on(host, f"useradd --create-home --uid 1200 {USER}")
            self.hosts.deploy()
            self.runs_jobs()
        self.whole = False
        return self.hosts

    def said(self, *words: str) -> tuple[int, str]:
        """Exit code and output of a command of slurmfab; it must not end with a traceback."""
        assert self.hosts
        done: subprocess.CompletedProcess[str] = self.hosts.slurmfab(*words)
        text = COLOURS.sub("", done.stdout + done.stderr)
        assert "Traceback" not in text, text
        return done.returncode, text

    def runs_jobs(self) -> None:
        """An ordinary user's job runs on both nodes, now."""
        assert self.hosts
        job = "srun --chdir=/tmp --time=1 --nodes=2 --ntasks-per-node=1 --immediate=20 hostname"
        ran = self.hosts.on("ctl", f"timeout 40 runuser -u {USER} -- {job} 2>&1", check=False)
        states = self.hosts.on("ctl", "sinfo -N -o '%N %T %E'; squeue", check=False)
        assert sorted(ran.split()) == ["n1", "n2"], f"{ran}\n{states}"
        # A node that is broken while a job completes keeps that job until slurmctld asks again, minutes later.
        eventually(lambda: not self.hosts or not self.hosts.on("ctl", "squeue --noheader"), "the job completes")

    def rests(self) -> None:
        """Nothing is left to do, and jobs run; the next row can use this cluster."""
        code, text = self.said("plan")
        assert code == 0, f"plan after the repair: {text}"
        self.runs_jobs()
        self.whole = True

    def play(self, row: Breakage, result: Result) -> None:
        """Break a host, and follow what check-cluster, plan and deploy make of it."""
        hosts, text, again = self.ready(), "", ("check-cluster",)
        hosts.on(row.host, row.breaks)
        if row.shows:
            eventually(lambda: succeeds(hosts, row.shows), f"ctl: {row.shows}")
        if row.check:
            only = () if row.everywhere or row.host == "ctl" else ("--hosts", row.host)
            code, text = self.said("check-cluster", *only)
            result.found = code != 0
            assert result.found, f"check-cluster found nothing: {text}"
            result.named = holds(text, row.check)
            assert result.named, f"check-cluster does not say {row.check}: {text}"
            again = ("check-cluster", *only, "--only", ",".join(dict.fromkeys(FAILED_GROUP.findall(text))))
        says_deploy = bool(row.check and DEPLOY.search(text))
        names_deploy = "deploy" in "".join(line for line in text.splitlines() if "repair: " in line)
        assert names_deploy or not (row.check and isinstance(row.deploy, Mended)), f"no repair is deploy: {text}"
        code, text = self.said("plan")
        assert holds(text, row.plan), f"plan does not say {row.plan}: exit code {code}: {text}"
        result.found, result.named = result.found or code != 0, result.named or bool(row.plan)
        self.repaired(row, result, again, says_deploy=says_deploy)
        self.rests()
        if row.check and not isinstance(row.deploy, Checked):

            def is_content() -> bool:
                nonlocal text
                code, text = self.said(*again)
                return code == 0 or not holds(text, row.check)

            # sshd, which has refused logins, refuses others from the same host for some seconds.
            eventually(is_content, lambda: f"after the repair the same words come again: {text}", 30)

    def repaired(self, row: Breakage, result: Result, again: tuple[str, ...], *, says_deploy: bool) -> None:
        """What deploy does, and the recommended repair if it does not mend.

        After a deployment that does not mend, neither a check nor a plan recommends another one before that repair.

        Args:
            row: what was broken.
            result: gains what became of it.
            again: the command that makes the checks again that found it.
            says_deploy: whether a check named `deploy` alone as its repair.
        """
        code, text = self.said("deploy", *row.deploys)
        if isinstance(row.deploy, Checked):
            assert code == 0, f"deploy: exit code {code}: {text}"
            assert self.hosts
            self.hosts.on(row.host, row.deploy.repair)
            # slurmctld may save what was repaired some seconds later.
            said = "check-cluster after the repair that it named"
            eventually(lambda: self.said("check-cluster")[0] == 0, lambda: f"{said}: {self.said('check-cluster')}", 20)
            result.told = True
            return
        assert code == row.deploy.exit_code, f"deploy: exit code {code}: {text}"
        assert holds(text, row.deploy.words), f"deploy does not say {row.deploy.words}: {text}"
        assert not (says_deploy and code == 0 and NO_CHANGE in text), f"the repair of a check changes nothing: {text}"
        if isinstance(row.deploy, Mended):
            result.mended = True
            return
        _, text = self.said(*again) if row.check else (0, "")
        assert not DEPLOY.search(text), f"the repair of a check is what has just failed: {text}"
        _, text = self.said("plan")
        assert not PLANNED.search(text), f"a plan recommends what has just failed: {text}"
        self.follow(row.host, row.deploy)
        code, text = self.said("deploy")
        assert code == 0, f"deploy after the recommended repair: exit code {code}: {text}"
        result.told = True

    def follow(self, host: str, told: Told) -> None:
        """Carry out the recommended repair."""
        assert self.hosts
        assert told.exit_code != 0, "what is told and not mended is no success"
        if told.repair.startswith("fab "):
            code, text = self.said(*told.repair.split()[1:])
            assert code == 0, f"{told.repair}: exit code {code}: {text}"
        else:
            self.hosts.on(host, told.repair)

    def survive(self, row: Setting, result: Result) -> None:
        """Write a bad value into the cluster file: it is named, slurmctld goes on, and so does the cluster."""
        hosts = self.ready()
        before = hosts.inventory_path.read_text()
        assert row.replaces in before
        after = before.replace(row.replaces, row.text, 1) if row.replaces else before + row.text
        hosts.inventory_path.write_text(after)
        code, text = self.said("plan")
        result.found, result.named = code != 0, holds(text, row.plan)
        assert code == row.plan_code, f"plan: exit code {code}: {text}"
        assert result.named, f"plan does not say {row.plan}: {text}"
        code, text = self.said("deploy")
        assert code == row.deploy_code, f"deploy: exit code {code}: {text}"
        assert holds(text, row.deploy), f"deploy does not say {row.deploy}: {text}"
        self.runs_jobs()
        result.told = True
        hosts.inventory_path.write_text(before)
        if row.deploy_code not in (1, 2):
            hosts.deploy()
        self.rests()

    def bear(self, row: Oddity) -> None:
        """Make a host unusual: nobody complains."""
        hosts = self.ready()
        hosts.on(row.host, row.does)
        for words in (("check-cluster", "--hosts", row.host), ("plan",), ("deploy",)):
            code, text = self.said(*words)
            assert code == 0, f"{words[0]}: exit code {code}: {text}"
        hosts.on(row.host, row.undoes)
        self.rests()


def holds(text: str, words: tuple[str, ...]) -> bool:
    """Whether all words are in the text, whatever its line breaks."""
    flat = " ".join(text.split())
    return all(" ".join(word.split()) in flat for word in words)


def succeeds(hosts: DeployedLab, script: str) -> bool:
    """Whether a shell script on the controller succeeds."""
    return hosts.on("ctl", f"{{ {script}\n}} >/dev/null 2>&1 && echo yes", check=False) == "yes"
