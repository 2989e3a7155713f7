"""Quickchecks of modules and MPI: what a user's job prints, and what is told of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.quickcheck import mpi as mpi_check
from slurmfab.commands.quickcheck.basics import modules
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.commands.quickcheck.mpi import mpi, mpi_by
from slurmfab.commands.quickcheck.running import QuickcheckOptions, checks_for

MODULES = "modules: {system: lmod, path: [/sw/modules]}\n"
HOMES = "homes: /home\nmounts: [{path: /home, source: 'nas:/home', type: nfs4}]\n"
FREE = {"CPUTot": "4", "CPUAlloc": "0", "RealMemory": "7700", "AllocMem": "0"}


class Jobs:
    """Jobs that print something.

    Args:
        more: of the cluster file.
        printed: by each job.
    """

    def __init__(self, more: str, printed: str) -> None:
        self.cluster = cluster(THREE_HOSTS + more)
        self.printed = printed
        self.options: tuple[str, ...] = ()
        self.commands: list[str] = []
        self.known = SimpleNamespace(lock=Lock(slurm="24.11.5"))

    def run(self, nodes: tuple[str, ...], command: str, **said: Any) -> str:
        assert nodes
        assert command
        self.options = said.get("options", self.options)
        self.commands.append(command)
        return self.printed

    def records(self) -> dict[str, dict[str, str]]:
        return {"n1": FREE, "n2": FREE}

    def free(self) -> tuple[str, ...]:
        return ("n1", "n2")

    @property
    def bench(self) -> Bench:
        return cast("Bench", self)


@pytest.fixture
def _pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_check, "pair_of", lambda bench: bench.free())


def test_a_loaded_module_is_named() -> None:
    assert modules(Jobs(MODULES, "loaded=tool/1.0\n").bench, "n1") == "a job loaded the module tool/1.0 (lmod)"


def test_a_module_that_is_not_loaded_is_a_failure_with_the_first_line() -> None:
    with pytest.raises(AssertionError, match=r"the module tool was not loaded: Lmod has detected .*Repair: .*modules"):
        modules(Jobs(MODULES, "Lmod has detected an error\nfailed=tool\n").bench, "n1")


@pytest.mark.parametrize(
    ("more", "printed", "reason"),
    [
        (MODULES, "empty\n", "there are no modules in /sw/modules"),
        ("modules: lmod\n", "", "the cluster file has no modules.path"),
        ("", "", "the cluster file has no modules"),
    ],
)
def test_without_modules_nothing_is_loaded(more: str, printed: str, reason: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=reason):
        modules(Jobs(more, printed).bench, "n1")


@pytest.mark.usefixtures("_pair")
@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("rank=0\nended=0\nrank=1\nended=0\n", "no message was sent, because libmpi.so.40 is not there"),
        (
            "rank=0\nmet=yes\nended=0\nrank=1\nmet=yes\nended=0\n",
            "and they met; no message was sent, as no MPI is there",
        ),
        (
            "rank=1\nby=mpi4py\nring=1/2 got=100\nrank=0\nby=mpi4py\nring=0/2 got=101\nended=0\nended=0\n",
            "and they sent messages to each other (mpi4py)",
        ),
    ],
)
def test_ranks_and_messages_are_told(printed: str, words: str) -> None:
    jobs = Jobs("mpi: pmix\n", printed)
    assert words in mpi(jobs.bench)
    assert jobs.options == ("--mpi=pmix", "--kill-on-bad-exit=1")


@pytest.mark.usefixtures("_pair")
@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("rank=\nrank=\n", "srun --mpi=pmix gave the ranks"),
        ("rank=0\nrank=1\nring=0/1 got=100\nring=0/1 got=100\nended=0\n", "did not reach each other"),
        (
            "rank=0\nrank=1\n[n1] PMIX ERROR: X\nlast\nended=14\nended=14\n",
            r"fails: \[n1\] PMIX ERROR: X\. Repair: see",
        ),
    ],
)
def test_processes_on_their_own_are_a_failure(printed: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        mpi(Jobs("mpi: pmix\n", printed).bench)


@pytest.mark.usefixtures("_pair")
@pytest.mark.parametrize(
    ("more", "repair"),
    [
        ("private_tmp: true\n", "deploy --hosts"),
        ("slurm_conf: {JobContainerType: job_container/tmpfs}\n", r"job_environment: .all: .PMIX_MCA_gds: hash"),
        (
            "private_tmp: true\nslurm_conf: {TaskProlog: /sw/prolog}\n",
            r"let /sw/prolog \(TaskProlog\) print: export PMIX_MCA_gds=hash",
        ),
    ],
)
def test_a_program_when_private_tmp_hides_pmix_s_files_then_the_variable_against_it_is_named(
    more: str, repair: str
) -> None:
    printed = "rank=0\nrank=1\n[n1] PMIX ERROR: PMIX_ERR_FILE_OPEN_FAILURE in gds_shmem2.c\nended=14\nended=14\n"
    with pytest.raises(AssertionError, match=f"private to jobs.*Repair: .*{repair}"):
        mpi(Jobs(f"mpi: pmix\n{more}", printed).bench)


RING = "rank=1\nring=1/2 got=100\nended=0\nrank=0\nring=0/2 got=101\nended=0\n"


@pytest.mark.usefixtures("_pair")
@pytest.mark.parametrize(
    ("way", "word"), [("podman", "sdocker run"), ("oci", "rank="), ("apptainer", "apptainer exec")]
)
def test_mpi_in_containers_when_a_way_runs_it_then_is_told_and_nothing_is_left(way: str, word: str) -> None:
    jobs = Jobs("mpi: pmix\n", RING)
    assert mpi_by(way)(jobs.bench).startswith(f"in containers by {way}, srun started a process on each of n[1-2]")
    made, ran, removed = jobs.commands
    assert ("mkdir" in made, word in ran, "rm -rf" in removed) == (True, True, True)
    assert any(one.startswith("--container=") for one in jobs.options) == (way == "oci")


@pytest.mark.usefixtures("_pair")
@pytest.mark.parametrize(
    ("way", "more", "slurm", "reason"),
    [
        ("oci", "mpi: pmix\n", "22.05.8", "Slurm 22.05.8 gives its own containers nothing of pmix"),
        ("oci", "mpi: pmi2\n", "22.05.8", "own containers nothing of pmi2"),
        ("docker", "mpi: pmix\n", "24.11.5", "outside of the job"),
    ],
)
def test_mpi_in_containers_when_a_way_cannot_then_it_says_so(way: str, more: str, slurm: str, reason: str) -> None:
    jobs = Jobs(more, "")
    jobs.known.lock = Lock(slurm=slurm)
    with pytest.raises(pytest.skip.Exception, match=reason):
        mpi_by(way)(jobs.bench)
    assert not jobs.commands


@pytest.mark.parametrize("more", ["", "mpi: none\n"])
def test_without_mpi_nothing_is_started(more: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="the cluster file has"):
        mpi(Jobs(more, "").bench)


@pytest.mark.parametrize(
    ("more", "only", "there"),
    [
        ("", "", set()),
        (MODULES, "", {"modules"}),
        ("mpi: pmix\n", "", {"mpi"}),
        (HOMES, "", {"homes"}),
        ("", "mpi,nodes", {"mpi"}),
    ],
)
def test_checks_of_a_key_run_with_the_key_or_by_name(more: str, only: str, there: set[str]) -> None:
    found = checks_for(cluster(THREE_HOSTS + more), QuickcheckOptions(only=only))
    assert {"homes", "modules", "mpi"} & set(found) == there
