"""How a host gets the controller's packages of Slurm again, where its package manager is not apt."""

from __future__ import annotations

from ruled_shells import RuledShell

from slurmfab.cluster.slurm.platform import EL_SMD
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import way_back


def of(name: str, printed: str) -> CheckedHost:
    return CheckedHost(name, RuledShell({"rpm --query": f"package sackd is not installed\n{printed}"}))


def test_way_back_when_packages_are_rpms_then_the_command_is_dnfs() -> None:
    node = of("n1", "slurm 26.05.1-1.el9 installed\nslurm-slurmd 26.05.1-1.el9 installed\n")
    controller = of("ctl", "slurm 24.11.5-1.el9 installed\nslurm-slurmctld 24.11.5-1.el9 installed\n")
    assert way_back(node, controller, EL_SMD) == (
        "dnf --disableexcludes=all install slurm-24.11.5-1.el9 slurm-slurmd-24.11.5-1.el9 there; "
        "then fab deploy --hosts n1"
    )
