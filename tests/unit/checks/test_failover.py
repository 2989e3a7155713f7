"""A takeover and back over stand-ins for two controllers: what each step looks at, and what is put right in the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import cluster

from slurmfab.base.errors import InputError, Unreachable
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import failover, runner
from slurmfab.commands.checks.hosts import Shells
from slurmfab.commands.checks.results import Verdict
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.core.engine.session import Output

TWO = "cluster: lab\ncontrollers: [c1, c2]\nstate_directory: /shared/state\nnodes: [{hosts: n1}]\n"
STEPS = ["both_controllers_answer", "job_runs_before", "backup_takes_over", "jobs_go_on", "new_job_runs_on_the_backup",
         "primary_takes_back", "job_from_before_ends_well", "history_goes_on", "nodes_take_jobs_again"]  # fmt: skip


@dataclass
class Slurm:
    """What two controllers share: who is up, and jobs by number, each with state, start and exit code.

    Args:
        up: the controllers that answer.
        jobs: somebody's job 5 at first.
        nodes: those that take jobs.
        after: called with this, after a takeover or a return has been asked for, to go wrong.
        commands: all that was asked, with the host in front.
    """

    up: set[str] = field(default_factory=lambda: {"primary", "backup"})
    jobs: dict[int, list[str]] = field(default_factory=lambda: {5: ["RUNNING", "09:00", "0:0"]})
    after: Callable[[Slurm], None] = lambda _: None
    nodes: list[str] = field(default_factory=lambda: ["n1"])
    commands: list[str] = field(default_factory=list)

    def answer(self, command: str) -> str | None:
        """What a command prints, `None` where it fails."""
        if "scontrol ping" in command:
            hosts = {"primary": "c1", "backup": "c2"}
            return "".join(
                f"Slurmctld({role}) at {host} is {'UP' if role in self.up else 'DOWN'}\n"
                for role, host in hosts.items()
            )
        if "takeover" in command:
            self.up.discard("primary")
            self.after(self)
        elif "systemctl start slurmctld" in command:
            self.up.add("primary")
        elif "--states=RUNNING" in command:
            return " ".join(str(number) for number, job in self.jobs.items() if job[0] == "RUNNING")
        elif "sinfo" in command:
            return "\n".join(self.nodes)
        elif "squeue" in command and "--jobs=" not in command:
            return "" if self.up else None
        elif "scancel --batch" in command:
            self.jobs[int(command.rsplit(maxsplit=1)[-1])][0] = "COMPLETED"
        return self.about_jobs(command)

    def about_jobs(self, command: str) -> str:
        """What a command about one job prints."""
        if "sbatch" in command:
            number = max(self.jobs) + 1
            self.jobs[number] = ["RUNNING" if "trap" in command else "COMPLETED", "09:10", "0:0"]
            return f"{number}\n"
        found = re.search(r"--jobs=(\d+)", command)
        job = self.jobs.get(int(found[1])) if found else None
        return f"{found[1]}|{job[0]}|None|n1|{job[2]}|{job[1]}|\n" if found and job else ""


@dataclass
class SlurmShell:
    """A controller's shell."""

    host: str
    slurm: Slurm

    def run(self, command: str, stdin: str = "", seconds: float = 0) -> CommandResult:  # noqa: ARG002 - as Shell has it
        self.slurm.commands.append(f"{self.host}: {command}")
        said = self.slurm.answer(command)
        return CommandResult(1) if said is None else CommandResult(0, said.encode())


def known(text: str = TWO) -> Inventory:
    return Inventory(cluster(text), Lock(ids={"slurm.uid": 1}), Path("cluster.yaml"))


def tried(slurm: Slurm, lost: str = "") -> Verdict:
    """The verdict on these controllers."""

    @contextmanager
    def opener(_: Inventory, hosts: Sequence[str]) -> Iterator[Shells]:
        yield {host: Unreachable(host, "gone.") if host == lost else SlurmShell(host, slurm) for host in hosts}

    return failover.verify(known(), opener=opener, limit=0.0)


def failed(verdict: Verdict) -> dict[str, str]:
    return {result.check: result.cause for result in verdict.having("failed")}


def test_a_sound_pair_passes_every_step_in_order() -> None:
    slurm = Slurm()
    verdict = tried(slurm)
    assert [(result.check, result.outcome) for result in verdict.results] == [(step, "passed") for step in STEPS]
    assert (verdict.exit_code, slurm.up, slurm.jobs[5][0]) == (0, {"primary", "backup"}, "RUNNING")


def test_the_backup_takes_over_on_its_own_host_and_the_primary_is_started_on_its() -> None:
    slurm = Slurm()
    tried(slurm)
    assert [line for line in slurm.commands if "takeover" in line] == ["c2: scontrol takeover"]
    assert {line for line in slurm.commands if "systemctl" in line} == {"c1: systemctl start slurmctld"}


def test_without_a_backup_that_answers_nothing_is_stopped_and_no_job_is_sent() -> None:
    slurm = Slurm(up={"primary"})
    verdict = tried(slurm)
    assert failed(verdict) == {"both_controllers_answer": "slurmctld does not answer on c2."}
    assert len(verdict.having("not run")) == len(STEPS) - 1
    assert not any("takeover" in line or "sbatch" in line or "systemctl" in line for line in slurm.commands)


def lose_a_job(slurm: Slurm) -> None:
    del slurm.jobs[5]


def restart_a_job(slurm: Slurm) -> None:
    slurm.jobs[5][1] = "09:11"


@pytest.mark.parametrize(
    ("trouble", "step", "words"),
    [
        (lose_a_job, "jobs_go_on", "5 is GONE"),
        (restart_a_job, "jobs_go_on", "5 is RUNNING"),
        (lambda slurm: slurm.nodes.clear(), "nodes_take_jobs_again", "not every node"),
        (lambda slurm: slurm.up.clear(), "backup_takes_over", "the backup is not in charge"),
    ],
)
def test_what_goes_wrong_in_a_takeover_is_told_and_the_primary_is_started_again(
    trouble: Callable[[Slurm], None], step: str, words: str
) -> None:
    slurm = Slurm(after=trouble)
    verdict = tried(slurm)
    assert list(failed(verdict)) == [step]
    assert words in failed(verdict)[step]
    assert "primary" in slurm.up
    assert "scancel --quiet --name=slurmfab-failover-" in slurm.commands[-1]
    assert verdict.exit_code == 1


def test_a_controller_that_cannot_be_reached_is_an_error_before_anything_is_asked() -> None:
    slurm = Slurm()
    with pytest.raises(Unreachable, match="c2"):
        tried(slurm, lost="c2")
    assert slurm.commands == []


def test_one_controller_alone_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"names one controller, c1.*state_directory"):
        failover.verify(known("cluster: lab\ncontrollers: c1\nnodes: [{hosts: n1}]\n"), opener=lambda *_: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(("hosts", "only", "junit"), [("n1", "", ""), ("", "munge", ""), ("", "", "x.xml")])
def test_a_failover_takes_no_choice_of_checks(hosts: str, only: str, junit: str) -> None:
    with pytest.raises(InputError, match="--failover is about the controllers alone"):
        runner.check("", hosts, only, junit, Output(), with_failover=True)
