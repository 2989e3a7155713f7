"""Runs of acceptance jobs on stand-in hosts: what is submitted, what becomes of it, and what is refused before that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruled_shells import Rule, RuledShell

from slurmfab.base.errors import InputError, SlurmfabError, Unreachable
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.accept import running
from slurmfab.commands.accept.queue import Attempt, takes_jobs
from slurmfab.commands.accept.results import Verdict
from slurmfab.commands.accept.running import Acceptance, AcceptOptions, next_runs
from slurmfab.commands.accept.wanted import planned_runs
from slurmfab.commands.checks.hosts import Shells
from slurmfab.commands.checks.shell import CommandResult

CLUSTER = """
cluster: tiny
addresses: {ctl: 10.0.0.1, "n[1-3]": "10.0.0.[2-4]"}
controllers: [ctl]
nodes: [{hosts: "n[1-3]"}]
partitions: [{PartitionName: main, Nodes: ALL}, {PartitionName: pair, Nodes: "n[2-3]"}]
acceptance:
"""
RECORD = (
    "NodeName={name} CPUAlloc=0 CPUTot=8 ThreadsPerCore=2 Gres={gres} GresUsed=gpu:0 RealMemory=7700 AllocMem=0 "
    "State={state} Partitions=main Reason=none\n"
)
SPEED = "{script: speed.sh, pattern: '^speed: (.*)', unit: GB/s, target: 100"


def records(**states: str) -> str:
    gres = {"n1": "gpu:a100:4", "n2": "gpu:a100:2", "n3": "(null)"}
    return "".join(
        RECORD.format(name=name, gres=gres[name], state=states.get(name, "IDLE")) for name in ("n1", "n2", "n3")
    )


class Tiny:
    """A cluster of stand-in hosts whose jobs end at once.

    Args:
        path: of its cluster file.
        jobs: what the key `acceptance` says, by job.
    """

    def __init__(self, path: Path, **jobs: str) -> None:
        text = CLUSTER + "".join(f"  {name}: {said}\n" for name, said in jobs.items())
        self.known = Inventory(loading.parse(text, "tiny.yaml"), Lock(slurm="24.11.5", ids={"slurm.uid": 64030}), path)
        (path.parent / "speed.sh").write_text("#!/bin/sh\necho speed: 100\n")
        self.ctl = RuledShell(
            {
                "scontrol ping": "Slurmctld(primary) at ctl is UP\n",
                "getent passwd (slurm|ann)": "slurm:x:64030:64030::/home/slurm:/bin/bash\n",
                "getent passwd": CommandResult(2),
                "show node": records(),
                "sbatch": "7\n",
                "squeue .*--jobs=7": "7|COMPLETED|None|n1|0|N/A|\n",
                "tail -c .*slurmfab-accept": "speed: 97\n",
                "mkdir": "",
                "tail -c .*history": "",
                "scancel": "",
            }
        )
        self.shells: dict[str, Any] = {"ctl": self.ctl, **{name: RuledShell({}) for name in ("n1", "n2", "n3")}}
        self.told: list[str] = []

    @property
    def rules(self) -> dict[str, Rule]:
        """What the controller says."""
        return self.ctl.rules

    def run(self, **options: Any) -> Verdict:
        """Run the acceptance jobs."""

        @contextmanager
        def opener(_: Inventory, hosts: Sequence[str]) -> Iterator[Shells]:
            yield {name: self.shells[name] for name in hosts}

        return Acceptance(self.known, AcceptOptions(**options), opener, self.told.append).run()

    @property
    def submitted(self) -> list[str]:
        """The command lines with which jobs were submitted."""
        return [command for command in self.ctl.commands if " sbatch " in command]


@pytest.fixture
def tiny(tmp_path: Path) -> Any:
    return lambda **jobs: Tiny(tmp_path / "tiny.yaml", **jobs)


def test_a_job_is_submitted_to_each_node_as_its_user_and_judged(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + ", tasks: cores, variables: {SIZE: 4 G}, minutes: 7, hosts: 'n[1-2]'}")
    verdict = cluster.run()
    assert (verdict.exit_code, verdict.count("passed")) == (0, 2)
    first, second = cluster.submitted
    assert "--nodelist=n1" in first
    assert "--nodelist=n2" in second
    for words in ("runuser -u slurm", "'SIZE=4 G'", "--ntasks-per-node=4", "--time=7", "--exclusive", "--mem=0"):
        assert words in first
    assert "--partition=slurmfab" in first
    assert cluster.ctl.inputs[cluster.ctl.commands.index(first)] == "#!/bin/sh\necho speed: 100\n"
    assert any("scancel" in command for command in cluster.ctl.commands)
    kept = "".join(cluster.ctl.inputs).splitlines()
    assert sum('"value": 97.0' in line and '"job": "speed"' in line for line in kept) == 2


@pytest.mark.parametrize(
    ("more", "words", "absent"),
    [
        (", nodes: all", "--nodes=3 .*--nodelist='?n", "--exclude"),
        (", nodes: 2", "--nodes=2 ", "--nodelist"),
        (", nodes: 2, partition: main", "--partition=main", "--exclude"),
        (", nodes: 1, hosts: 'n[1-2]'", "--exclude=n3", "--nodelist"),
        (", partition: pair, nodes: 1, hosts: n2", "--partition=pair .*--nodelist=n2", "--exclude"),
        (", gpus: all, hosts: n1", "--gres=gpu:a100:4", "--exclude"),
        (", gpus: all, nodes: 2, hosts: 'n[1-2]'", "--gres=gpu:2", "--exclude"),
        (", gpus: 1, hosts: n1", "--gres=gpu:1", "--exclude"),
        (", user: ann, hosts: n1", "runuser -u ann .*--partition=main", "--exclude"),
        (", whole_nodes: false, hosts: n1", "--ntasks-per-node=1", "--exclusive"),
    ],
)
def test_the_cluster_file_says_where_a_job_runs(tiny: Any, more: str, words: str, absent: str) -> None:
    cluster = tiny(speed=SPEED + more + "}")
    cluster.run()
    assert re.search(words, cluster.submitted[0]), cluster.submitted[0]
    assert absent not in cluster.submitted[0]


@pytest.mark.parametrize(
    ("rule", "answer", "outcome", "words"),
    [
        ("sbatch", CommandResult(1, b"", b"sbatch: error: Batch job submission failed: Invalid account\n"),
         "not started", "Slurm rejects jobs of slurm: Invalid account"),
        ("sbatch", "no job\n", "not started", "Slurm rejects jobs of slurm: sbatch printed no job ID: 'no job'"),
        ("show node", records(n1="IDLE+DRAIN"), "not started", "n1 takes no jobs"),
        ("squeue .*--jobs=7", "7|FAILED|None|n1|1792|N/A|\n", "failed", "it ended with exit code 7: “speed: 97”"),
        ("squeue .*--jobs=7", "7|TIMEOUT|None|n1|0|N/A|\n", "timed out", "it did not end within 30 min"),
        ("squeue .*--jobs=7", "7|OUT_OF_MEMORY|None|n1|125|N/A|\n", "failed", "it ran out of memory"),
        ("squeue .*--jobs=7", "7|NODE_FAIL|None|n1|0|N/A|\n", "failed", "its node failed"),
        ("squeue .*--jobs=7", "7|CANCELLED|None|n1|0|N/A|\n", "not started", "somebody cancelled the job"),
        ("squeue .*--jobs=7", "7|PREEMPTED|None|n1|0|N/A|\n", "not started", "another job preempted it"),
        ("squeue .*--jobs=7", CommandResult(1, b"", b"slurm_load_jobs error: Invalid job id specified\n"),
         "failed", "Slurm has forgotten the job"),
        ("tail -c .*slurmfab-accept", CommandResult(1, b"", b"tail: cannot open: No such file\n"),
         "no figure", "cannot be read"),
        ("tail -c .*slurmfab-accept", "speed: fast\n", "no figure", "'fast' is not a number"),
        ("tail -c .*slurmfab-accept", "speed: 90\n", "failed", ""),
    ],
)  # fmt: skip
def test_what_became_of_a_job_is_told(tiny: Any, rule: str, answer: Rule, outcome: str, words: str) -> None:
    cluster = tiny(speed=SPEED + ", hosts: n1}")
    cluster.rules[rule] = answer
    (result,) = cluster.run().results
    assert result.verdict == outcome, result.words
    assert words in result.words


def test_a_job_that_is_repeated_runs_once_at_a_time_at_each_place(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + ", at_once: 2}")
    verdict = cluster.run(repeat=2)
    assert [one.run.place for one in verdict.results] == ["n1", "n2", "n3", "n1", "n2", "n3"]
    lines = [command for command in cluster.ctl.commands if " sbatch " in command or " squeue " in command]
    kinds = "".join("s" if " sbatch " in line else "q" for line in lines)
    assert kinds == "ssqssqssq"
    runs = planned_runs(verdict.results[0].run.job, 2)
    there = [Attempt(runs[0], "7", "", 0.0)]
    assert [run.number for run in next_runs(runs[1:], there, 64)] == [2, 3]
    assert next_runs(runs[1:], there, 1) == []


def test_a_job_that_does_not_start_is_cancelled_and_told_with_slurms_reason(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SHORTEST_WAIT", 0.0)
    cluster = tiny(speed=SPEED + ", hosts: n1}")
    cluster.rules["squeue .*--jobs=7"] = "7|PENDING|Resources||0|N/A|\n"
    verdict = cluster.run(wait=0)
    assert (verdict.exit_code, verdict.results[0].words) == (3, "Slurm's reason: Resources")
    assert any("scancel" in command and command.endswith(" 7") for command in cluster.ctl.commands)


def test_a_history_that_cannot_be_written_is_told_and_the_figures_count(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + ", hosts: n1}")
    cluster.rules["mkdir"] = CommandResult(1, b"", b"mkdir: No space left on device\n")
    assert cluster.run().exit_code == 0
    assert "The history on ctl was not written: mkdir: No space left on device" in cluster.told


@pytest.mark.parametrize(
    ("said", "options", "words"),
    [
        (SPEED + "}", {"only": "sped"}, "--only sped: the cluster file has the acceptance jobs speed"),
        (SPEED + "}", {"hosts": "ctl"}, "no jobs run there"),
        (SPEED + ", nodes: 2}", {"hosts": "n1"}, "it wants 2 nodes, but may use n1"),
        (SPEED + "}", {"user": "eve"}, "acceptance.speed: ctl has no user eve"),
        ("{script: ./none.sh, pattern: '(.)'}", {}, "acceptance.speed: there is no script"),
        ("{script: ./bad.sh, pattern: '(.)'}", {}, "its first line names no interpreter"),
    ],
)
def test_what_cannot_run_is_refused_before_any_job(
    tiny: Any, tmp_path: Path, said: str, options: dict[str, str], words: str
) -> None:
    (tmp_path / "bad.sh").write_text("echo\n")
    cluster = tiny(speed=said)
    with pytest.raises(InputError, match=re.escape(words)):
        cluster.run(**options)
    assert not cluster.submitted


def test_without_slurmctld_or_the_key_nothing_runs(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + "}")
    cluster.rules["scontrol ping"] = "Slurmctld(primary) at ctl is DOWN\n"
    with pytest.raises(SlurmfabError, match="slurmctld does not answer on ctl"):
        cluster.run()
    with pytest.raises(InputError, match="has no acceptance, so there is nothing to run"):
        tiny().run()


def test_the_output_of_a_job_is_read_as_its_user_and_bounded(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + ", hosts: n1}")
    cluster.run()
    (read,) = [command for command in cluster.ctl.commands if "tail -c 4194304" in command]
    assert "runuser -u slurm -- env -i " in read
    assert re.search(r"test -f (\S+) && timeout 20 tail -c 4194304 -- \1 && rm -f -- \1'", read)


def test_an_output_that_is_not_at_the_senders_is_read_on_the_jobs_node(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + ", hosts: n1}")
    cluster.rules["tail -c .*slurmfab-accept"] = CommandResult(1)
    cluster.shells["n1"] = RuledShell({"^id ": "", "tail -c .*slurmfab-accept": "speed: 99\n"})
    assert cluster.run().results[0].value == 99.0
    cluster.shells["n1"] = Unreachable("n1", "the connection was refused")
    (result,) = cluster.run().results
    assert (result.verdict, result.words.rpartition(": ")[2]) == ("no figure", "the connection was refused")


def test_a_job_that_slurm_does_not_end_is_cancelled_and_told(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = tiny(speed=SPEED + ", hosts: n1}")
    cluster.rules["squeue .*--jobs=7"] = "7|RUNNING|None|n1|0|N/A|\n"
    monkeypatch.setattr(running, "GRACE_SECONDS", -30 * 60.0)
    (result,) = cluster.run().results
    assert (result.verdict, result.words) == ("timed out", "it did not end within 30 min; “speed: 97”")
    assert any("scancel" in command and command.endswith(" 7") for command in cluster.ctl.commands)


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        ("IDLE", True),
        ("MIXED+PLANNED", True),
        ("IDLE+POWERED_DOWN", True),
        ("IDLE~", True),
        ("IDLE+DRAIN+POWERED_DOWN", False),
        ("DOWN+POWERED_DOWN", False),
        ("IDLE*", False),
        ("DOWN", False),
        ("", False),
    ],
)
def test_nodes_that_sleep_are_woken_by_the_job(state: str, takes: bool) -> None:
    assert takes_jobs({"State": state}) is takes


def test_what_is_left_is_cancelled_when_the_connection_breaks(tiny: Any) -> None:
    cluster = tiny(speed=SPEED + "}")

    def breaks(_: str) -> str:
        raise Unreachable("ctl", "the connection was lost")

    cluster.rules["squeue .*--jobs=7"] = breaks
    with pytest.raises(Unreachable):
        cluster.run()
    assert any(re.search("scancel .*--name=slurmfab-accept", command) for command in cluster.ctl.commands)


@pytest.mark.parametrize(
    "options", [{"repeat": 0}, {"repeat": 101}, {"wait": -1}, {"wait": 99999}, {"logs": "/nowhere"}]
)
def test_an_option_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        AcceptOptions(**options).check()
