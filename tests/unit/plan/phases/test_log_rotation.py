"""Logs are rotated by files of slurmfab's where the packages have none, and by theirs elsewhere."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, facts_of, host_facts, plan_input, prepared

from slurmfab.core.plan.phases import log_rotation
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.files.packaged_rotation import PackagedRotation

SMD = THREE_HOSTS + 'slurm: {packages: smd, version: "24.11.*"}\n'


def files(text: str, host: str) -> dict[str, str]:
    """Texts of the files about rotation on a host, by path."""
    wanted = cluster(text)
    found = log_rotation.resources(plan_input(wanted, facts_of(wanted)), host)
    return {file.path: file.text for one in found if isinstance(one, OwnedFiles) for file in one.by_path().values()}


def test_slurmds_log_is_rotated_on_compute_nodes_whoever_made_the_packages() -> None:
    for text in (THREE_HOSTS, SMD):
        rule = files(text, "n1")["/etc/logrotate.d/slurmfab-slurmd"]
        assert "/var/log/slurmd/*.log {" in rule
        assert "for unit in slurmd; do" in rule
        assert "/etc/logrotate.d/slurmfab-slurmd" not in files(text, "c1")


def test_other_logs_are_rotated_where_the_packages_do_not() -> None:
    rule = files(SMD, "c1")["/etc/logrotate.d/slurmfab-slurm"]
    assert "/var/log/slurm/*.log {" in rule
    assert "for unit in slurmctld slurmd slurmdbd; do" in rule
    assert files(THREE_HOSTS, "c1") == {}


def test_logs_that_the_site_rotates_have_no_file_of_slurmfabs() -> None:
    assert {host: files(f"{SMD}rotate_logs: false\n", host) for host in ("c1", "n1")} == {"c1": {}, "n1": {}}


def test_what_a_host_had_goes_with_its_reason() -> None:
    wanted = cluster()
    had = plan_input(wanted, {host: host_facts(host, owned=("log-rotation",)) for host in wanted.hosts})
    assert log_rotation.resources(had, "c1") == (OwnedFiles("log-rotation", ()),)


DATABASE = THREE_HOSTS + "database: d1\n"


@pytest.mark.parametrize(
    ("text", "slurm", "expected"),
    [
        (DATABASE, "22.05.8", {"c1": ["slurmctld"], "n1": [], "d1": ["slurmdbd"]}),
        (DATABASE, "24.11.5", {"c1": [], "n1": [], "d1": []}),
        (SMD, "22.05.8", {"c1": [], "n1": []}),
    ],
    ids=["debian-12", "debian-13", "smd"],
)
def test_rotation_of_the_packages_is_mended_where_they_ask_daemons_of_slurm_by_an_init_script(
    text: str, slurm: str, expected: dict[str, list[str]]
) -> None:
    wanted = cluster(text)
    facts = {host: prepared(host, slurm) for host in wanted.hosts}
    for host, daemons in expected.items():
        found = log_rotation.resources(plan_input(wanted, facts), host)
        assert [one.daemon for one in found if isinstance(one, PackagedRotation)] == daemons
