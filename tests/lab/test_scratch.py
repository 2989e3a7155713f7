"""Directories of jobs on their nodes' own disks, on real Slurm of each suite: counted, made, removed, and taken back.

n1 has them on a file system of its own. One lab goes through all of it, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_cluster import ExtendedLab, succeeded
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

MOUNT = """\
users: [{name: ann}]
slurm_conf: {SchedulerParameters: "bf_continue,bf_interval=1"}
mounts: [{path: /scratch, source: tmpfs, type: tmpfs, options: "size=4G", hosts: n1}]
"""
SCRATCH = "scratch: {size: 2G, tmpdir: true, groups: [{hosts: n2, size: 3G}]}\n"
AS_ANN = "cd / && SCRATCH=/lustre/ann runuser -u ann -- "
SUBMIT = AS_ANN + "sbatch --parsable -w n1 -n1 --mem=50 -o /dev/null {} --wrap '{}'"
WRITES = (
    "mkdir $SCRATCH/deep && echo $SCRATCH $TMPDIR >$SCRATCH/deep/file; until test -e $SCRATCH/end; do sleep 0.1; done"
)
TELLS = "echo $(hostname) $SCRATCH; touch $SCRATCH/x && ls $SCRATCH"
STATE = "squeue -h -j {} -o '%T %r'"
JOBS = "ls /scratch | sort -n | xargs"
LEFT = (
    "ls -d /usr/local/lib/slurmfab/scratch /usr/local/lib/slurmfab/*log /etc/slurm/*log.d /etc/slurmfab-scratch.json "
    "/var/lib/slurmfab/owned/scratch.json 2>/dev/null; grep -i scratch /etc/slurm/*.conf; :"
)


class Site(ExtendedLab):
    """A cluster, and its file without scratch."""

    def submit(self, options: str = "") -> str:
        """The id of a job of ann's on n1 that writes, and ends when somebody says so."""
        return self.lab.on("ctl", SUBMIT.format(options, WRITES))

    def runs(self, job: str) -> None:
        """Wait until a job has written into its directory."""
        self.lab.until("n1", f"cat /scratch/{job}/deep/file 2>&1", f"/scratch/{job} /scratch/{job}")

    def end(self, job: str) -> None:
        self.lab.on("n1", f"touch /scratch/{job}/end")

    def is_empty(self) -> None:
        """Wait until n1 has no directories of jobs."""
        self.lab.until("n1", JOBS, "")


@pytest.fixture(scope="module", params=in_turn("scratch"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2) as lab:
        yield Site(lab, lab.inventory_path.read_text() + MOUNT)


def test_scratch_when_the_file_says_so_then_is_there_and_counted(site: Site) -> None:
    site.write(SCRATCH)
    site.lab.deploy()
    assert site.lab.deploy()["steps"] == []
    assert site.lab.on("ctl", "sinfo -h -N -o '%N %G' | sort -u").splitlines() == ["n1 scratch:2", "n2 scratch:3"]
    assert site.lab.on("n1", "stat -c '%U %a' /scratch; findmnt -n -o FSTYPE /scratch") == "root 755\ntmpfs"


def test_jobs_that_reserve_more_than_there_is_then_wait_and_each_has_its_own(site: Site) -> None:
    first, second = site.submit("--gres=scratch:2"), site.submit("--gres=scratch:1")
    site.runs(first)
    assert site.lab.on("n1", f"stat -c '%U %a' /scratch/{first}") == "ann 700"
    site.lab.until("ctl", STATE.format(second), "PENDING Resources")
    site.end(first)
    site.runs(second)
    assert site.lab.on("n1", JOBS) == second
    site.lab.on("ctl", f"scancel {second}")
    site.is_empty()
    refused = site.lab.on("ctl", SUBMIT.format("--gres=scratch:3", "true") + " 2>&1 || :")
    assert "Requested node configuration is not available" in refused


def test_steps_of_an_allocation_and_of_a_heterogeneous_job_then_find_their_directories(site: Site) -> None:
    step = f"srun --mem=50 sh -c '{TELLS}'"
    host, directory, name = site.lab.on("ctl", f"{AS_ANN} salloc -Q -w n1 -n1 --mem=50 {step}").split()
    assert (host, directory.rpartition("/")[0], name) == ("n1", "/scratch", "x")
    both = "srun -l -w n1 -n1 --mem=50 sh -c '{0}' : -w n2 -n1 --mem=50 sh -c '{0}'"
    shown = site.lab.on("ctl", AS_ANN + both.format(TELLS) + " | sort").splitlines()
    parts = {line.split()[1]: line.split()[2] for line in shown if len(line.split()) == 3}
    assert sorted(parts) == ["n1", "n2"]
    assert parts["n1"] != parts["n2"]
    assert {one.rpartition("/")[0] for one in parts.values()} == {"/scratch"}
    site.is_empty()


def test_what_a_job_left_when_its_node_crashed_then_is_removed_at_the_next_job(site: Site) -> None:
    job = site.submit()
    site.runs(job)
    site.lab.on(
        "n1", "systemctl kill -s KILL slurmd; systemctl stop slurmd; pkill -KILL slurmstepd; mkdir /scratch/99999"
    )
    site.lab.on("ctl", f"scancel {job}")
    assert site.lab.on("n1", JOBS) == f"{job} 99999"
    site.lab.on("n1", "systemctl reset-failed slurmd; systemctl start slurmd")
    following = site.submit()
    site.runs(following)
    site.lab.until("n1", JOBS, following)
    site.end(following)
    site.is_empty()


def test_checks_then_pass_and_a_job_of_quickcheck_writes_there(site: Site) -> None:
    done = site.lab.slurmfab("check-cluster", "--json", "-", "--only", "storage")
    found = [one for one in json.loads(done.stdout)["checks"] if one["check"] == "scratch_has_its_place"]
    assert [one["outcome"] for one in found] == ["passed", "passed"], found
    done = succeeded(site.lab.slurmfab("quickcheck", "--only", "scratch,environment"))
    assert "which is gone after it" in words_of(done)


def test_scratch_when_the_key_goes_while_a_job_runs_then_stays_until_the_job_has_ended(site: Site) -> None:
    site.write("")
    job = site.submit()
    site.runs(job)
    refused = site.lab.slurmfab("deploy")
    assert (refused.returncode, "add --drain-first or --allow node-gres" in words_of(refused)) == (1, True)
    done = site.lab.slurmfab("deploy", "--allow", "node-gres")
    kept = f"/scratch is kept: it has the directory of job {job}"
    assert (done.returncode, kept in words_of(done)) == (3, True), words_of(done)
    site.runs(job)
    site.end(job)
    site.lab.until("ctl", "squeue -h | wc -l", "0")
    site.lab.deploy()
    assert site.lab.deploy()["steps"] == []
    assert site.lab.on("n1", "ls -A /scratch; findmnt -n -o FSTYPE /scratch") == "tmpfs"
    assert site.lab.on("n2", "ls -d /scratch; :") == ""
    assert [site.lab.on(host, LEFT) for host in ("ctl", "n1", "n2")] == ["", "", ""]
