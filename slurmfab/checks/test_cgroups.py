"""Control groups: each compute node has what slurm.conf counts on, and none keeps the others from having more."""

from __future__ import annotations

import pytest

from slurmfab.agent.cgroups import BUS, CONTROLLERS, MEMSW, NO_BUS, TOP, judged
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.wanted import conf, files
from slurmfab.cluster import Cluster
from slurmfab.facts import Cgroup, cgroup_from
from slurmfab.lock import Lock
from slurmfab.slurm import cgroups
from slurmfab.slurm.conf_text import parse

GAP = "----"
SEEN = (
    f"cat /proc/self/mounts; echo {GAP}; cat {TOP}/cgroup.controllers 2>/dev/null; echo {GAP}; cat /proc/cgroups; "
    f"echo {GAP}; for name in '' {' '.join(CONTROLLERS)}; do if test -w {TOP}/$name; then echo at:$name; fi; done; "
    f"echo {GAP}; ls {TOP}/{MEMSW} {TOP}/*/memory.swap.max 2>/dev/null; "
    f"echo {GAP}; if test -S {BUS}; then echo there; fi"
)
"""Prints what tells which control groups there are: files of the kernel's, what can be written to, and the bus."""

ON_CGROUPS = ("proctracktype", "taskplugin", "jobacctgathertype")


def test_node_has_usable_control_groups(node: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the node has the control groups that Slurm counts on"""
    now, settings = seen(node), conf(cluster, lock)
    others = cgroups.others(cluster, lock, node.name)
    repair = cgroups.repair(now, cgroups.like(others))
    if any("cgroup" in settings.get(key, "") for key in ON_CGROUPS):
        is_ready = now.is_usable and NO_BUS not in now.troubles
        assert is_ready, (
            f"slurm.conf counts on control groups, and here Slurm cannot use them: {cgroups.described(now)}. "
            f"Repair: {repair}"
        )
        return
    if now.is_usable or not cgroups.uses_them(cluster):
        return
    if not cgroups.like(others):
        pytest.skip(f"no node has control groups that Slurm can use; {node.name}: {cgroups.described(now)}.")
    raise AssertionError(
        f"other nodes have control groups that Slurm can use, and this one has {cgroups.described(now)}: for its sake "
        f"no node holds jobs to their cores, memory and devices. Repair: {repair}; then fab deploy"
    )


def test_swap_space_is_accounted(node: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the node's kernel accounts swap space, where cgroup.conf limits it"""
    wanted = parse(files(cluster, lock).get("cgroup.conf", "")).settings
    limits = wanted.get("constrainswapspace", "no").lower() == "yes"
    now = seen(node)
    assert now.swap or not limits or not now.is_usable, (
        f"cgroup.conf limits swap space, which this kernel does not account. Repair: {cgroups.repair(now)}"
    )


def seen(node: CheckedHost) -> Cgroup:
    """The control groups that a node has now."""
    mounts, controllers, known, writable, swap, bus = (
        part.strip() for part in node.as_found.ask(f"{SEEN}; echo {GAP}").split(GAP)[:6]
    )
    places = [line.removeprefix("at:") for line in writable.splitlines()]
    return cgroup_from(judged(mounts, controllers, known, places, bool(swap), not bus))
