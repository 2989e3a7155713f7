"""Checks of control groups: each node has those that slurm.conf needs, and no node prevents limits on the others."""

from __future__ import annotations

from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Cgroup, cgroup_from
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm import cgroups
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import Remark
from slurmfab.commands.checks.wanted import conf, files
from slurmfab.core.plan.preflight.cgroups import cgroups_of_others, is_slurmfabs_choice
from slurmfab.on_hosts.agent.facts.cgroups import BUS, CONTROLLERS, MEMSW, NO_BUS, TOP, assess

GAP = "----"
SEEN = (
    f"cat /proc/self/mounts; echo {GAP}; cat {TOP}/cgroup.controllers 2>/dev/null; echo {GAP}; cat /proc/cgroups; "
    f"echo {GAP}; for name in '' {' '.join(CONTROLLERS)}; do if test -w {TOP}/$name; then echo at:$name; fi; done; "
    f"echo {GAP}; ls {TOP}/{MEMSW} {TOP}/*/memory.swap.max 2>/dev/null; "
    f"echo {GAP}; if test -S {BUS}; then echo there; fi"
)
"""Prints, separated by `GAP`: mounts, controllers, the kernel's controllers, writable directories, swap files, bus."""

ON_CGROUPS = ("proctracktype", "taskplugin", "jobacctgathertype")
"""Keys of slurm.conf whose plugins can need control groups."""


def test_node_has_usable_control_groups(node: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the node has the control groups that slurm.conf needs"""
    now, settings = cgroups_of(node), conf(cluster, lock)
    others = cgroups_of_others(cluster, lock, node.name)
    repair = cgroups.repair(now, cgroups.usual_version(others))
    if any("cgroup" in settings.get(key, "") for key in ON_CGROUPS):
        is_ready = now.is_usable and NO_BUS not in now.troubles
        assert is_ready, (
            f"slurm.conf needs control groups, but Slurm cannot use them here: {cgroups.description(now)}. "
            f"Repair: {repair}"
        )
        return
    if now.is_usable or not is_slurmfabs_choice(cluster):
        raise DoesNotApply("slurm.conf needs none, and not for want of them here")
    if not cgroups.usual_version(others):
        raise Remark(
            f"no node has control groups that Slurm can use, so nothing holds jobs to their cores and memory "
            f"({cgroups.description(now)})"
        )
    raise AssertionError(
        f"other nodes have control groups that Slurm can use, but this one has {cgroups.description(now)}: "
        f"because of it, no node limits jobs to their cores, memory and devices. Repair: {repair}; then {FAB} deploy"
    )


def test_swap_space_is_accounted(node: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the kernel accounts swap space if cgroup.conf limits it"""
    wanted = parse(files(cluster, lock).get("cgroup.conf", "")).settings
    limits = wanted.get("constrainswapspace", "no").lower() == "yes"
    now = cgroups_of(node)
    if not limits or not now.is_usable:
        raise DoesNotApply("cgroup.conf limits no swap space")
    assert now.swap, (
        f"cgroup.conf limits swap space, but this kernel does not account it. Repair: {cgroups.repair(now)}"
    )


def cgroups_of(node: CheckedHost) -> Cgroup:
    """The control groups of a node, as cached by the first check that asked."""
    mounts, controllers, known, writable, swap, bus = (
        part.strip() for part in node.as_found.ask(f"{SEEN}; echo {GAP}").split(GAP)[:6]
    )
    places = [line.removeprefix("at:") for line in writable.splitlines()]
    return cgroup_from(assess(mounts, controllers, known, places, bool(swap), not bus))
