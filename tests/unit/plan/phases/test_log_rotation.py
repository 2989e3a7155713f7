"""Logs are rotated by a file of slurmfab's where the packages have none, and by theirs elsewhere."""

from __future__ import annotations

from support import THREE_HOSTS, cluster, facts_of, host_facts, plan_input

from slurmfab.agent.files.owned_files import OwnedFiles
from slurmfab.plan.phases import log_rotation

SMD = THREE_HOSTS + 'slurm: {packages: smd, version: "24.11.*"}\n'


def test_logs_are_rotated_where_the_packages_do_not() -> None:
    wanted = cluster(SMD)
    (found,) = log_rotation.resources(plan_input(wanted, facts_of(wanted)), "n1")
    assert isinstance(found, OwnedFiles)
    (file,) = found.files
    assert file.path == "/etc/logrotate.d/slurmfab-slurm"
    assert "/var/log/slurm/*.log {" in file.text
    assert "for unit in slurmctld slurmd slurmdbd; do" in file.text


def test_the_distributions_packages_rotate_themselves() -> None:
    wanted = cluster()
    assert log_rotation.resources(plan_input(wanted, facts_of(wanted)), "n1") == ()
    had = plan_input(wanted, {host: host_facts(host, owned=("log-rotation",)) for host in wanted.hosts})
    assert log_rotation.resources(had, "n1") == (OwnedFiles("log-rotation", ()),)
