"""What the checks of control groups say of what they find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from slurmfab.cluster.facts import Cgroup
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import test_cgroups
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import Remark

SEEN = "^cat /proc/self/mounts"


@dataclass(frozen=True)
class Bench:
    """A stand-in node, what it shows of its control groups when all is well, and what is known of the cluster."""

    node: CheckedHost
    rules: dict[str, Any]
    known: Inventory
    sound: str

    def lock_with(self, **cgroups: Cgroup) -> Lock:
        hosts = self.known.lock.hosts
        return replace(self.known.lock, hosts={**hosts, **{k: replace(hosts[k], cgroup=v) for k, v in cgroups.items()}})

    def check(self, lock: Lock | None = None, without: str = "") -> None:
        self.rules[SEEN] = self.sound.replace(without, "") if without else self.sound
        test_cgroups.test_node_has_usable_control_groups(self.node, self.known.cluster, lock or self.known.lock)


@pytest.fixture
def bench(shells: dict[str, Any], known: Inventory) -> Bench:
    return Bench(CheckedHost("n1", shells["n1"]), shells["n1"].rules, known, shells["n1"].rules[SEEN])


WRITABLE = "at:\n"
LIMIT = "/sys/fs/cgroup/init.scope/memory.swap.max\n"


def test_what_slurm_counts_on_when_it_is_there_passes(bench: Bench) -> None:
    bench.check()


def test_what_slurm_counts_on_when_it_has_gone_is_told_with_the_repair(bench: Bench) -> None:
    with pytest.raises(
        AssertionError, match=r"cannot use them here: version 2, mounted read-only\. Repair: mount -o remount"
    ):
        bench.check(without=WRITABLE)


def test_a_node_for_whose_sake_nobody_is_held_to_anything_is_told(bench: Bench) -> None:
    with pytest.raises(
        AssertionError, match=r"because of it, no node limits jobs .* Repair: mount .*; then fab deploy"
    ):
        bench.check(bench.lock_with(n1=Cgroup("v2", troubles=("read-only",))), WRITABLE)


def test_to_a_node_that_others_hold_back_the_check_does_not_apply(bench: Bench) -> None:
    with pytest.raises(DoesNotApply):
        bench.check(bench.lock_with(n2=Cgroup("none")))


def test_where_no_node_has_any_the_check_passes_and_remarks_that_nothing_holds_jobs(bench: Bench) -> None:
    with pytest.raises(Remark, match=r"no node has control groups .* \(version 2, mounted read-only\)"):
        bench.check(bench.lock_with(n1=Cgroup("none"), n2=Cgroup("none")), WRITABLE)


def test_swap_space_that_is_to_be_limited_and_is_not_accounted_is_told(bench: Bench) -> None:
    limited = bench.lock_with(**dict.fromkeys(("n1", "n2"), Cgroup("v2", ("cpuset", "devices", "memory"), swap=True)))
    arguments = bench.node, bench.known.cluster
    bench.rules[SEEN] = bench.sound.replace(LIMIT, "")
    with pytest.raises(DoesNotApply):
        test_cgroups.test_swap_space_is_accounted(*arguments, bench.known.lock)
    with pytest.raises(
        AssertionError, match=r"does not account it\. Repair: swapaccount=1 on the kernel's command line"
    ):
        test_cgroups.test_swap_space_is_accounted(*arguments, limited)
