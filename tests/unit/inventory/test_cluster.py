"""The models: what is derived from a cluster file, and how values become Slurm's text."""

import pytest
from pydantic import ValidationError

from slurmfab.cluster.inventory.cluster import Cluster, NodeGroup, Partition, Ssh
from slurmfab.cluster.inventory.slurm_settings import slurm_text

CLUSTER = Cluster(
    name="titanic",
    controllers=("mn01",),
    login=("login01",),
    nodes=(
        NodeGroup(hosts=("cn02", "cn01"), settings={"Gres": "gpu:2"}),
        NodeGroup(hosts=("mn01",), settings={"Weight": "100"}),
    ),
)


def test_controller_when_there_is_one_then_it_is_the_first():
    assert CLUSTER.controller == "mn01"


def test_hosts_when_one_has_two_roles_then_it_comes_once_and_first():
    assert CLUSTER.hosts == ("mn01", "login01", "cn02", "cn01")


def test_compute_nodes_when_in_groups_then_they_keep_the_files_order():
    assert CLUSTER.compute_nodes == ("cn02", "cn01", "mn01")


@pytest.mark.parametrize(
    ("host", "roles"),
    [("mn01", ("controller", "compute")), ("login01", ("login",)), ("cn01", ("compute",)), ("stranger", ())],
)
def test_roles_when_asked_for_a_host_then_it_has_those_of_the_file(host, roles):
    assert CLUSTER.roles(host) == roles


def test_settings_of_when_asked_for_a_node_then_they_are_its_groups():
    assert CLUSTER.settings_of("cn01") == {"Gres": "gpu:2"}
    with pytest.raises(KeyError):
        CLUSTER.settings_of("login01")


def test_settings_of_when_changed_by_the_caller_then_the_cluster_stays():
    CLUSTER.settings_of("cn01")["Gres"] = "none"

    assert CLUSTER.settings_of("cn01") == {"Gres": "gpu:2"}


def test_partitions_when_there_are_none_then_main_has_all_nodes():
    assert CLUSTER.partitions == (Partition(name="main", nodes="ALL", settings={"Default": "YES"}),)


def test_defaults_when_nothing_is_said_then_ssh_config_and_slurmfab_decide():
    assert CLUSTER.ssh == Ssh()
    assert (CLUSTER.memory_margin, CLUSTER.hosts_file, CLUSTER.ids) == ("3%", True, {})


def test_cluster_when_a_field_is_set_then_it_refuses():
    with pytest.raises(ValidationError):
        CLUSTER.name = "other"


def test_cluster_when_copied_by_dump_then_it_is_the_same():
    assert Cluster.model_validate(CLUSTER.model_dump()) == CLUSTER


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("YES", "YES"),
        (True, "YES"),
        (False, "NO"),
        (300, "300"),
        (1.5, "1.5"),
        ("7-00:00:00", "7-00:00:00"),
        ("  spaced ", "spaced"),
        ('"/sbin/shutdown -r now"', "/sbin/shutdown -r now"),
    ],
)
def test_slurm_text_when_given_a_scalar_then_it_is_what_slurm_expects(value, text):
    assert slurm_text(value) == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        ("", "no value"),
        ('""', "no value"),
        ([1], "not a list or mapping"),
        ({"a": 1}, "not a list or mapping"),
        ("a\nState=DOWN", "a line break or another control character"),
        ("a\x00b", "a line break or another control character"),
        ("a\u2028b", "a line break or another control character"),
        ('a"b', "does not allow a double quote"),
    ],
)
def test_slurm_text_when_it_is_not_one_value_then_it_says_why(value, reason):
    with pytest.raises(ValueError, match=reason):
        slurm_text(value)
