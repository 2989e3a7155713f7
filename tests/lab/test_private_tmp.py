"""Directories that each job has for itself, on real Slurm: made, proved, refused to change under jobs, and taken back.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

CONF = "/etc/slurm/job_container.conf"
SUBMIT = AS_SLURM + "sbatch --parsable -w n1 -n1 --mem=50 -o /dev/null --wrap '{}'"
STATE = "scontrol -o show job {} | grep -o 'JobState=[A-Z]*'"
STEPS = "until [ -e /tmp-go ]; do sleep 0.1; done; srun -n1 ls /tmp/mine"


@dataclass
class Private:
    """A cluster, and what its file says beside directories of jobs."""

    lab: DeployedLab
    text: str
    is_old: bool

    def deploy(self, more: str, *words: str) -> tuple[int, str]:
        self.lab.inventory_path.write_text(f"{self.text}{more}")
        done = self.lab.slurmfab("deploy", *words)
        return done.returncode, done.stdout + done.stderr

    def check(self) -> str:
        """The title of the check that jobs have their own; empty where there is none. All others pass as well."""
        checks = self.lab.checks("limits,configuration,slurmd")
        assert [one for one in checks if one["outcome"] != "passed"] == []
        return next((one["title"] for one in checks if one["check"] == "tmp_is_the_jobs_own"), "")


@pytest.fixture(scope="module", params=in_turn("private_tmp"))
def private(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Private]:
    with stock.copy(request.param, nodes=1) as lab:
        lab.deploy()
        yield Private(lab, lab.inventory_path.read_text(), request.param == "bookworm")


def test_jobs_when_the_file_says_so_then_have_directories_of_their_own(private: Private) -> None:
    code, said = private.deploy("private_tmp: true\n")
    assert code == 0, said
    assert private.lab.deploy()["steps"] == []
    assert private.check() == "two jobs have separate /tmp directories, removed at their end"
    assert private.lab.on("n1", "stat -c '%U %a' /var/lib/slurm/private") == "root 755"
    # The job that proves a deployment writes into the /tmp of its own.
    assert private.lab.on("n1", "find /tmp /var/lib/slurm/private -name 'slurmfab-check*' | wc -l") == "0"


def test_other_directories_are_had_where_the_installed_slurm_knows_them(private: Private) -> None:
    code, said = private.deploy("private_tmp: {Dirs: [/tmp, /var/tmp], BasePath: /srv/jobs}\n")
    if private.is_old:
        assert (code, "private_tmp.Dirs: Slurm 22.05 does not know it (known from 23.02)" in said) == (2, True)
        return
    assert code == 0, said
    assert private.check()
    shown = private.lab.on(
        "ctl",
        f"{AS_SLURM}srun -w n1 --mem=50 stat -f -c %T /var/tmp && {AS_SLURM}srun -w n1 --mem=50 ls -A /var/tmp",
    )
    assert len(shown.splitlines()) == 1
    assert private.deploy("private_tmp: true\n")[0] == 0


def test_another_place_while_a_job_runs_is_refused_and_the_job_keeps_its_own(private: Private) -> None:
    job = private.lab.on("ctl", SUBMIT.format(f"touch /tmp/mine; {STEPS}"))
    private.lab.until("ctl", STATE.format(job), "JobState=RUNNING")
    for more, name in (("private_tmp: {BasePath: /srv/jobs}\n", "private-tmp-moved"), ("", "JobContainerType")):
        code, said = private.deploy(more)
        assert (code, f"--allow {name}" in said, f"job {job} of slurm, on n1" in said) == (1, True, True), said
    private.lab.on("n1", "touch /tmp-go")
    private.lab.until("ctl", STATE.format(job), "JobState=COMPLETED")


def test_a_deployment_when_it_is_allowed_shows_what_it_was_refused_for(private: Private) -> None:
    private.lab.on("n1", "rm -f /tmp-go")
    job = private.lab.on("ctl", SUBMIT.format(f"touch /tmp/mine; {STEPS}"))
    private.lab.until("ctl", STATE.format(job), "JobState=RUNNING")
    code, said = private.deploy("private_tmp: {BasePath: /srv/jobs}\n", "--allow", "private-tmp-moved")
    assert code == 0, said
    private.lab.on("n1", "touch /tmp-go")
    private.lab.until("ctl", STATE.format(job), "JobState=FAILED")
    assert private.check()


def test_without_the_key_nothing_of_it_is_left_but_an_empty_directory(private: Private) -> None:
    code, said = private.deploy("")
    assert code == 0, said
    for host in ("ctl", "n1"):
        assert (
            private.lab.on(
                host, f"if test -e {CONF}; then echo there; fi; grep -ci jobcontainer /etc/slurm/slurm.conf || :"
            )
            == "0"
        )
    assert private.lab.on("n1", "find /var/lib/slurm/private /srv/jobs -type f | wc -l") == "0"
    assert private.lab.deploy()["steps"] == []
    assert private.check() == ""


def test_a_file_of_somebody_elses_is_left_alone(private: Private) -> None:
    private.lab.on("n1", f"echo BasePath=/own >{CONF}")
    assert private.lab.deploy()["steps"] == []
    assert private.check() == ""
    assert private.lab.on("n1", f"cat {CONF}") == "BasePath=/own"
