"""Plain lists, lists as in /etc/hosts, genders databases, and the nodes of a slurm.conf."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.host_files.lists import parse_genders, parse_plain, parse_slurm_conf

ETC_HOSTS = """
127.0.0.1 localhost
127.0.1.1 deployer
::1 ip6-localhost ip6-loopback
ff02::1 ip6-allnodes
10.0.0.1\thead.site head   # the controller
10.0.0.2 n1
fd83::3 n2.site
"""

SLURM_CONF = """
SlurmctldHost=head(10.0.0.1)
SlurmctldHost=spare
NodeName=DEFAULT CPUs=8
NodeName=n[1-2] NodeAddr=10.0.1.[1-2]
NodeName=head NodeAddr=10.0.0.1
PartitionName=gpu Nodes=n2
PartitionName=all Nodes=ALL
"""


def test_a_plain_list_when_it_has_names_hostlists_and_comments_then_all_are_hosts_in_order() -> None:
    file = parse_plain("# mine\nhead\nn[1-2], admin@n7:2222  10.0.0.9\n\nn9 # the last\n", "list")
    assert [host.endpoint for host in file.hosts] == ["head", "n1", "n2", "admin@n7:2222", "10.0.0.9", "n9"]


def test_lines_as_in_etc_hosts_when_read_then_are_hosts_with_addresses_and_no_loopback() -> None:
    file = parse_plain(ETC_HOSTS, "/etc/hosts")
    assert [(host.name, host.endpoint) for host in file.hosts] == [
        ("head", "10.0.0.1"),
        ("n1", "10.0.0.2"),
        ("n2", "fd83::3"),
    ]


@pytest.mark.parametrize("text", ["n[1-\n", "n1;n2\n", "n1\nn2 user@@x\n"])
def test_a_line_when_it_is_no_hostlist_then_is_named_with_its_number(text: str) -> None:
    with pytest.raises(InputError, match=r"^list:[12]: "):
        parse_plain(text, "list")


def test_a_genders_database_when_read_then_attributes_are_groups() -> None:
    file = parse_genders("head mgmt\nn[1-3] compute,gpus=4,bmc=%n-bmc\nn4 compute\n", "genders")
    assert [host.name for host in file.selected("")] == ["head", "n1", "n2", "n3", "n4"]
    assert [host.name for host in file.selected("compute")] == ["n1", "n2", "n3", "n4"]
    assert [host.name for host in file.selected("gpus=4")] == ["n1", "n2", "n3"]
    assert [host.name for host in file.selected("bmc=n2-bmc")] == ["n2"]


def test_a_genders_line_when_its_attributes_have_spaces_then_is_refused() -> None:
    with pytest.raises(InputError, match="genders:1: write hosts, a space, and attributes"):
        parse_genders("n1 a, b\n", "genders")


@pytest.mark.parametrize("text", ["SlurmctldHost=localhost", "NodeName=n1 NodeAddr=127.0.0.1", "NodeName=localhost"])
def test_a_slurm_conf_when_it_means_its_own_host_by_a_loopback_then_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"slurm\.conf: (localhost|n1): by a loopback name or address"):
        parse_slurm_conf(text, "slurm.conf")


def test_a_slurm_conf_when_read_then_has_controllers_first_and_partitions_as_groups() -> None:
    file = parse_slurm_conf(SLURM_CONF, "slurm.conf")
    assert [(host.name, host.endpoint) for host in file.hosts] == [
        ("head", "10.0.0.1"),
        ("spare", "spare"),
        ("n1", "10.0.1.1"),
        ("n2", "10.0.1.2"),
    ]
    assert [host.name for host in file.selected("gpu")] == ["n2"]
    assert [host.name for host in file.selected("all")] == ["head", "n1", "n2"]
