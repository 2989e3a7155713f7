"""What the checks that are jobs say of what they find: memory, two jobs at once, GPUs, private directories."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from _pytest.outcomes import Skipped
from ruled_shells import Rule

from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.scratch import PrivateTmp
from slurmfab.commands.checks import test_gpus, test_limits
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.wanted import has_gres

OOM = b"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nsrun: error: n1: task 0: Out Of Memory\n"
FIRST = "visible=0\n/dev/nvidia0 open\n/dev/nvidia1 Operation not permitted\n"
SECOND = "visible=1\n/dev/nvidia0 Operation not permitted\n/dev/nvidia1 open\n"


@dataclass
class Bench:
    """Stand-in hosts, and what is known of them."""

    shells: dict[str, Any]
    node: CheckedHost
    slurm: Slurm
    known: Inventory

    def rule(self, host: str, pattern: str, rule: Rule) -> None:
        """Let a host answer so; the rules that came last count most."""
        rules = self.shells[host].rules
        rest = {known: one for known, one in rules.items() if known != pattern}
        rules.clear()
        rules.update({pattern: rule, **rest})

    def answers(self, *texts: str) -> None:
        """Let the two jobs of a pair print these."""
        left = list(texts)
        self.rule("ctl", "srun .*--comment=pair-", lambda _: left.pop(0))

    @property
    def lock(self) -> Lock:
        return self.known.lock


@pytest.fixture
def bench(shells: dict[str, Any], known: Inventory) -> Bench:
    controller = CheckedHost("ctl", shells["ctl"])
    bench = Bench(shells, CheckedHost("n1", shells["n1"]), Slurm(controller, known.cluster), known)
    bench.rule("n1", "^systemctl show --property=Id", "MainPID=7\n")
    return bench


def test_memory_when_the_kernel_ends_the_job_and_nothing_else_then_passes(bench: Bench) -> None:
    bench.rule("ctl", "srun .*/dev/zero", CommandResult(1, b"0\n", OOM))
    test_limits.test_memory_is_limited(bench.node, bench.slurm, bench.lock, {"n1": bench.node})


def test_memory_when_the_job_ends_for_another_reason_then_that_is_no_proof(bench: Bench) -> None:
    bench.rule("ctl", "srun .*/dev/zero", CommandResult(127, b"", b"sh: 1: head: not found\n"))
    with pytest.raises(AssertionError, match=r"failed, but for another reason: sh: 1: head: not found\."):
        test_limits.test_memory_is_limited(bench.node, bench.slurm, bench.lock, {"n1": bench.node})


def test_memory_when_a_daemon_dies_with_the_job_then_it_is_told(bench: Bench) -> None:
    pids = iter(("MainPID=7\n", "MainPID=8\n"))
    bench.rule("n1", "^systemctl show --property=Id", lambda _: next(pids))
    bench.rule("ctl", "srun .*/dev/zero", CommandResult(1, b"0\n", OOM))
    with pytest.raises(AssertionError, match="slurmd or munged was restarted when a job used too much memory"):
        test_limits.test_memory_is_limited(bench.node, bench.slurm, bench.lock, {"n1": bench.node})


def test_memory_when_the_job_goes_on_in_swap_space_then_that_is_the_cause(bench: Bench) -> None:
    bench.rule("ctl", "srun .*/dev/zero", f"{400 * 1024 * 1024}\n")
    bench.rule("n1", "/proc/swaps", "/dev/sda2 partition 976 0 -2\n")
    with pytest.raises(
        AssertionError, match=r"could use 400 MiB\. Repair: the rest went into the swap space \(/dev/sda2\)"
    ):
        test_limits.test_memory_is_limited(bench.node, bench.slurm, bench.lock, {"n1": bench.node})


HELD = "slurmstepd-{node}: error: Detected 1 oom{dash}kill event in StepId=7.0.\n"


@pytest.mark.parametrize(
    ("printed", "errors", "jobs"),
    [
        ("job on n2: 0\njob on n1: 0\n", (("n1", "_"), ("n2", "_")), ["n[1-2]"]),
        ("job on n2: 0\njob on n1: 0\n", (("n1", "-"), ("n2", "-")), ["n[1-2]"]),
        ("job on n1: 0\njob on n2: 0\n", (("n1", "_"),), ["n[1-2]", "n2"]),
        (f"job on n1: {400 << 20}\njob on n2: 0\n", (("n1", "_"), ("n2", "_")), ["n[1-2]", "n1"]),
        ("", (), ["n[1-2]", "n1", "n2"]),
    ],
    ids=["all-are-held", "as-22.05-says", "one-is-silent", "one-is-not-held", "it-fails"],
)
def test_memory_when_one_job_runs_on_all_nodes_then_only_those_where_it_was_not_killed_have_another(
    bench: Bench, printed: str, errors: tuple[tuple[str, str], ...], jobs: list[str]
) -> None:
    told = "".join(HELD.format(node=node, dash=dash) for node, dash in errors).encode()
    bench.rule("ctl", "srun .*/dev/zero", CommandResult(1, b"0\n", OOM))
    bench.rule("ctl", "srun .*--nodelist=\\S*n.1-2.*/dev/zero", CommandResult(1, printed.encode(), told))
    bench.rule("ctl", "oneliner show node$", "".join(f"NodeName={one} CPUTot=4 State=IDLE\n" for one in ("n1", "n2")))
    bench.slurm.sound_nodes = lambda: ("n1", "n2")
    bench.rule("n2", "^systemctl show --property=Id", "MainPID=7\n")
    hosts = {"n1": bench.node, "n2": CheckedHost("n2", bench.shells["n2"])}
    for node in hosts.values():
        test_limits.test_memory_is_limited(node, bench.slurm, bench.lock, hosts)
    ran = [found[1] for line in bench.shells["ctl"].commands if (found := re.search(r"--nodelist=(\S+?)'? ", line))]
    assert [one.strip("'") for one in ran] == jobs


def test_gpus_of_two_jobs_when_each_has_its_own_then_pass(bench: Bench) -> None:
    bench.answers(FIRST, SECOND)
    test_gpus.test_gpus_are_kept_apart(bench.node, bench.slurm, bench.lock)
    lines = [command for command in bench.shells["ctl"].commands if "srun" in command]
    marks = {word for line in lines for word in line.split() if word.startswith("--comment=pair-")}
    assert (len(lines), len(marks)) == (2, 1)


def test_gpus_of_two_jobs_when_both_have_one_then_it_is_named(bench: Bench) -> None:
    bench.answers(FIRST, FIRST)
    with pytest.raises(AssertionError, match="two jobs can open /dev/nvidia0 at once"):
        test_gpus.test_gpus_are_kept_apart(bench.node, bench.slurm, bench.lock)


def test_a_pair_when_one_job_never_sees_the_other_then_is_not_run(bench: Bench) -> None:
    bench.answers("slurmfab-check-alone\n", SECOND)
    with pytest.raises(Skipped, match="n1 had no room for two small jobs at once"):
        test_gpus.test_gpus_are_kept_apart(bench.node, bench.slurm, bench.lock)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("visible=0,1\n/dev/nvidia0 open\n/dev/nvidia1 open\n", ""),
        ("visible=0\n/dev/nvidia0 open\n/dev/nvidia1 open\n", "requested two GPUs was given 1"),
        (FIRST.replace("=0", "=0,1"), "requested two GPUs can open /dev/nvidia0 of the node's 2"),
    ],
)
def test_a_job_with_two_gpus_has_both(bench: Bench, answer: str, words: str) -> None:
    bench.rule("ctl", "srun .*--gres=gpu:2", answer)
    if words:
        with pytest.raises(AssertionError, match=words):
            test_gpus.test_job_has_the_gpus_that_it_asked_for(bench.node, bench.slurm, bench.lock)
    else:
        test_gpus.test_job_has_the_gpus_that_it_asked_for(bench.node, bench.slurm, bench.lock)


def test_a_job_that_misses_a_gpu_which_is_gone_proves_nothing(bench: Bench) -> None:
    bench.rule("ctl", "srun .*--gres=gpu:2", "visible=0,1\n/dev/nvidia0 open\n/dev/nvidia1 No such file or directory\n")
    with pytest.raises(Skipped, match="/dev/nvidia1 of n1 is missing; another check reports it"):
        test_gpus.test_job_has_the_gpus_that_it_asked_for(bench.node, bench.slurm, bench.lock)


def test_an_instance_counts_as_open_when_all_its_files_are(bench: Bench) -> None:
    instances = tuple(Gpu("/dev/nvidia0", "a100_1g", with_files=(f"/dev/nvidia-caps/nvidia-cap{n}",)) for n in (12, 21))
    lock = replace(bench.lock, hosts={"n1": replace(bench.lock.hosts["n1"], gpus=instances)})
    answer = "visible=MIG-1\n/dev/nvidia0 open\n/dev/nvidia-caps/nvidia-cap12 Operation not permitted\n"
    bench.rule("ctl", "srun .*--gres=gpu:1", f"{answer}/dev/nvidia-caps/nvidia-cap21 open\n")
    test_gpus.test_job_has_the_gpu_that_it_asked_for(bench.node, bench.slurm, lock)
    bench.rule(
        "ctl",
        "srun .*--gres=gpu:1",
        answer.replace("Operation not permitted", "open") + "/dev/nvidia-caps/nvidia-cap21 open\n",
    )
    with pytest.raises(
        AssertionError, match="can open /dev/nvidia-caps/nvidia-cap12 and /dev/nvidia-caps/nvidia-cap21 of the node's 2"
    ):
        test_gpus.test_job_has_the_gpu_that_it_asked_for(bench.node, bench.slurm, lock)


def test_a_share_is_asked_for_where_the_cluster_file_has_shards(bench: Bench) -> None:
    bench.rule("ctl", "srun .*--gres=shard:1", FIRST)
    test_gpus.test_job_with_a_share_has_one_gpu(bench.node, bench.slurm, bench.lock)
    assert not has_gres(bench.known.cluster, "n1", "shard")


@pytest.mark.parametrize(
    ("listed", "left", "kept", "words"),
    [
        ("/tmp/a.1\n/dev/shm/a.1\n", "", "", ""),
        ("/tmp/a.1\n/tmp/a.2\n/dev/shm/a.1\n", "", "", "a job sees files of another job in /tmp"),
        (
            "/tmp/a.1\n/dev/shm/a.1\n",
            "/tmp/a.1\n",
            "",
            "files that jobs wrote to /tmp are visible on the node: /tmp/a.1",
        ),
        (
            "/tmp/a.1\n/dev/shm/a.1\n",
            "",
            "/var/lib/slurm/private/n1/1/a.1\n",
            "files of finished jobs were not removed: /var/lib/slurm/private/n1/1/a.1",
        ),
    ],
)
def test_private_directories_when_looked_at_from_jobs_and_from_the_node(
    bench: Bench, listed: str, left: str, kept: str, words: str
) -> None:
    private = bench.known.cluster.model_copy(update={"private_tmp": PrivateTmp()})
    bench.answers(listed, listed)
    bench.rule("n1", "^for place in .* rm -f", "")
    bench.rule("n1", "^ls -d", left)
    bench.rule("n1", "find /var/lib/slurm/private", kept)
    if words:
        with pytest.raises(AssertionError, match=words):
            test_limits.test_tmp_is_the_jobs_own(bench.node, bench.slurm, private)
    else:
        test_limits.test_tmp_is_the_jobs_own(bench.node, bench.slurm, private)
