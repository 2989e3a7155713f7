"""The key firewall of a cluster file, and the ports that follow from the file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.firewall import Firewall
from slurmfab.cluster.inventory.ports import Ports, of_host, ssh_ports


def firewall(said: str) -> Firewall | None:
    return cluster(f"{THREE_HOSTS}firewall: {said}\n").firewall


def test_a_word_is_a_mode_and_none_is_no_firewall() -> None:
    assert firewall("managed") == Firewall(mode="managed")
    assert firewall("checked") == Firewall(mode="checked")
    assert firewall("none") is None
    assert firewall("{admins: 10.9.0.0/16}") == Firewall(admins=("10.9.0.0/16",))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("open", "firewall.mode"),
        ("{admins: 10.9.0.1/16}", "is neither an IP address nor a network"),
        ("{trusted: 0.0.0.0/0}", "does not tell hosts from others"),
        ("{users: 10.0.0.0/8}", "users needs admins"),
        ("{mode: checked, trusted: 10.0.0.0/8}", "trusted is for managed"),
    ],
)
def test_a_mistake_is_refused_with_what_is_right(said: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        firewall(said)


def test_ports_of_a_host_follow_from_its_roles_and_from_other_keys() -> None:
    whole = cluster(
        THREE_HOSTS + "database: c1\nslurm_conf: {SlurmctldPort: 7000-7003, SrunPortRange: 60001-63000}\n"
        "slurmdbd_conf: {DbdPort: 7019}\n"
        "exports: [{path: /srv/home, host: c1}]\nregistry: {host: n1, anonymous_pull: true}\n"
        "monitoring: {prometheus: n1}\nssh: {port: 2222}\n"
    )
    assert set(of_host(whole, "c1")) == {
        Ports("slurmctld", 7000, 7003),
        Ports("srun", 60001, 63000),
        Ports("slurmdbd", 7019, 7019),
        Ports("MariaDB", 3306, 3306),
        Ports("NFS", 2049, 2049),
        Ports("node exporter", 9100, 9100),
    }
    assert {one.first for one in of_host(whole, "n1")} == {6818, 60001, 9100, 9090, 5000, 5001}
    assert ssh_ports(whole, "n1") == (22, 2222)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "database: c1\nslurm_conf: {SlurmctldPort: 6817-6827}",
            ["5: database: port 6819 of slurmdbd and port 6817-6827 of slurmctld (slurm_conf.SlurmctldPort)",
             "6: slurm_conf.SlurmctldPort: port 6817-6827 of slurmctld and port 6819 of slurmdbd (database)"],
        ),
        ("slurm_conf: {SlurmdPort: 22}", ["slurm_conf.SlurmdPort: port 22 of slurmd and port 22 of sshd"]),
        ("slurm_conf: {SrunPortRange: 6800-6900}", ["port 6800-6900 of srun and port 6817 of slurmctld"]),
        ("database: c1\nslurmdbd_conf: {DbdPort: 3306}", ["slurmdbd_conf.DbdPort: port 3306 of slurmdbd"]),
        ("slurm_conf: {SlurmctldPort: 2049}\nexports: [{path: /srv/home, host: c1}]", ["port 2049 of NFS"]),
        ("jupyter: {host: c1, port: 9100}\nmonitoring: true", ["jupyter.port: port 9100 of browsers"]),
    ],
)  # fmt: skip
def test_ports_when_two_daemons_of_a_host_have_one_then_both_lines_are_named(said: str, why: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        cluster(f"{THREE_HOSTS}{said}\n")
    assert [one for one in why if one not in str(refused.value)] == [], str(refused.value)


def test_ports_when_two_daemons_of_different_hosts_have_one_then_they_are_accepted() -> None:
    assert cluster(f"{THREE_HOSTS}slurm_conf: {{SlurmctldPort: 6817-6818}}\n").controller == "c1"
