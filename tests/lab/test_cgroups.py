"""Nodes with different control groups, on real Slurm: told, refused, left out, and never left to fail at start.

One lab goes through all of it, in this order: n1 has what Slurm needs, and n2 has version 2 without controllers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

V1_AS_N1 = "systemd.unified_cgroup_hierarchy=0 on the kernel's command line"
SHOWN = "scontrol show config | awk '$1 == \"{}\" {{print $3}}'"
READ_ONLY, WRITABLE = (f"mount -o remount,bind,{mode} /sys/fs/cgroup/memory" for mode in ("ro", "rw"))
OPEN = "a job that requested one GPU can open /dev/nvidia0 and /dev/nvidia1 of the node's 2."
DAEMONS = "systemctl is-active slurmd"


@dataclass
class Mixed:
    """A cluster whose nodes differ.

    Args:
        lab: the lab.
        text: its cluster file as it was at first, with n1 and n2.
    """

    lab: DeployedLab
    text: str

    def run(self, *words: str) -> tuple[int, str]:
        done: subprocess.CompletedProcess[str] = self.lab.slurmfab(*words)
        return done.returncode, done.stdout + done.stderr

    def write(self, text: str) -> None:
        self.lab.inventory_path.write_text(text)

    def tracking(self) -> str:
        """How Slurm tracks processes, which has limits with control groups alone."""
        return self.lab.on("ctl", SHOWN.format("ProctrackType"))

    def checks(self, *only: str) -> dict[tuple[str, str], dict[str, Any]]:
        """What the checks found, by check and host."""
        return {(one["check"], one["host"]): one for one in self.lab.checks(",".join(only))}


@pytest.fixture(scope="module", params=in_turn("cgroups"))
def mixed(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Mixed]:
    with stock.installed(request.param, nodes=2, gpus=("n1:2",), unified=("n2",)) as lab:
        lab.deploy("--allow", "lost-limits")
        yield Mixed(lab, lab.inventory_path.read_text())


def test_a_mixed_cluster_when_that_is_allowed_at_the_first_deployment_then_works_and_tells_who_costs_all_their_limits(
    mixed: Mixed,
) -> None:
    assert mixed.tracking() == "proctrack/linuxproc"
    assert mixed.lab.on("ctl", AS_SLURM + "srun -N2 --mem=50 hostname | sort | paste -sd ' '") == "n1 n2"
    code, said = mixed.run("plan")
    assert code == 0
    (line,) = (line for line in said.splitlines() if "control groups" in line)
    assert line.startswith(
        "n2: no control groups that Slurm can use: version 2 with cpuset and memory taken by version 1"
    )
    for words in ("no node holds its jobs to cores, memory and devices", V1_AS_N1, "the other nodes have version 1"):
        assert words in line


def test_a_mixed_cluster_when_checked_then_the_node_that_differs_fails_with_the_kernel_argument(mixed: Mixed) -> None:
    found = mixed.checks("cgroups")
    assert ("node_has_usable_control_groups", "n1") not in found  # slurm.conf needs none, and n1 is not why
    n2 = found["node_has_usable_control_groups", "n2"]
    assert (n2["outcome"], n2["repair"].startswith(V1_AS_N1)) == ("failed", True)
    assert "because of it, no node limits jobs" in n2["cause"]


def test_jobs_on_a_mixed_cluster_have_a_tmp_of_their_own_all_the_same(mixed: Mixed) -> None:
    mixed.write(f"{mixed.text}private_tmp: true\n")
    mixed.lab.deploy()
    found = mixed.checks("tmp_is_the_jobs_own")
    assert {host: found["tmp_is_the_jobs_own", host]["outcome"] for host in ("n1", "n2")} == {
        "n1": "passed",
        "n2": "passed",
    }
    mixed.write(mixed.text)
    mixed.lab.deploy()


def test_when_the_node_that_differs_has_left_then_the_limits_come_and_hold(mixed: Mixed) -> None:
    assert mixed.run("remove-node", "n2")[0] == 0
    assert mixed.tracking() == "proctrack/cgroup"
    found = mixed.checks("cgroups", "limits", "gpus")
    assert {one["check"]: one["outcome"] for one in found.values() if one["outcome"] != "passed"} == {}
    assert found["memory_is_limited", "n1"]["title"].startswith("a job over its memory limit")
    assert ("gpus_are_kept_apart", "n1") in found


def test_limits_that_do_not_hold_on_one_node_are_found_there_with_the_numbers(mixed: Mixed) -> None:
    mixed.lab.on("n1", "sed -i s/=yes/=no/ /etc/slurm/cgroup.conf && systemctl restart slurmd")
    mixed.lab.until("ctl", "sinfo -h -p main -N -n n1 -o %t", "idle")
    found = mixed.checks("limits", "gpus")
    causes = {
        check: one["cause"] for (check, host), one in found.items() if host == "n1" and one["outcome"] == "failed"
    }
    assert causes == {
        "memory_is_limited": "a job that requested 200 MiB of memory could use 400 MiB.",
        "cores_are_limited": causes["cores_are_limited"],
        "job_has_the_gpu_that_it_asked_for": OPEN,
        "gpus_are_kept_apart": OPEN,
        "job_without_gpus_has_none": "a job that requested no GPU can open /dev/nvidia0 and /dev/nvidia1.",
    }
    assert causes["cores_are_limited"].startswith("a job that requested one CPU can use ")
    mixed.lab.deploy()
    assert not [one for one in mixed.checks("limits", "gpus").values() if one["outcome"] != "passed"]


def test_a_host_without_usable_control_groups_when_it_wants_to_join_then_is_refused_with_what_to_change(
    mixed: Mixed,
) -> None:
    before = mixed.lab.inventory_path.read_text()
    code, said = mixed.run("add-node", mixed.lab.lab.host("n2").address, "--accept-new-host-keys")
    assert code == 1
    for words in (
        "n2: its control groups (version 2 with cpuset",
        V1_AS_N1,
        "--allow lost-limits",
        "Nothing was changed",
    ):
        assert words in said
    assert mixed.lab.inventory_path.read_text() == before


def test_a_host_without_usable_control_groups_when_the_file_names_it_then_is_left_out_until_it_is_allowed(
    mixed: Mixed,
) -> None:
    mixed.write(mixed.text)
    code, said = mixed.run("deploy", "--accept-new-host-keys")
    assert (code, "n2: its control groups (version 2" in said) == (3, True)
    assert mixed.tracking() == "proctrack/cgroup"
    assert mixed.lab.on("ctl", "sinfo -h -p main -N -o '%N %t'") == "n1 idle"
    assert mixed.run("deploy", "--accept-new-host-keys", "--allow", "lost-limits")[0] == 0
    assert mixed.tracking() == "proctrack/linuxproc"
    assert mixed.lab.on("ctl", AS_SLURM + "srun -N2 --mem=50 hostname | sort | paste -sd ' '") == "n1 n2"
    assert mixed.run("remove-node", "n2")[0] == 0


def test_a_host_that_loses_its_control_groups_is_left_out_and_the_lock_remembers_what_it_had(mixed: Mixed) -> None:
    files = "sha256sum /etc/slurm/*.conf"
    before = mixed.lab.on("n1", files)
    mixed.lab.on("n1", READ_ONLY)
    try:
        for command in ("plan", "deploy"):
            code, said = mixed.run(command)
            assert (code, "version 1 with memory mounted read-only" in said) == (3, True), said
            assert "mount -o remount,rw /sys/fs/cgroup/memory" in said
        found = mixed.checks("cgroups")["node_has_usable_control_groups", "n1"]
        assert (found["outcome"], "mount -o remount,rw" in found["repair"]) == ("failed", True)
        assert (mixed.lab.on("n1", files), mixed.tracking()) == (before, "proctrack/cgroup")
    finally:
        mixed.lab.on("n1", WRITABLE)
    assert mixed.lab.deploy()["steps"] == []
    assert mixed.lab.on("n1", DAEMONS) == "active"
