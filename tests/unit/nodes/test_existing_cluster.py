"""First contact: the cluster that hosts form already, and the name of a new one."""

from __future__ import annotations

import pytest
from support import host_facts

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import ClusterMark, HostFacts, SlurmUse
from slurmfab.cluster.inventory import loading
from slurmfab.commands.nodes.existing_cluster import choose, default_name, refuse_losing

CONF = """\
# Made by slurmfab
ClusterName=alpha
SlurmctldHost=u1(10.0.0.1)
NodeName=u[2-3] CPUs=4
PartitionName=main Nodes=ALL Default=YES
"""
MARK = ClusterMark("/etc/slurm/slurm.conf", "alpha", ("u1(10.0.0.1)",))


def host(name: str, *marks: ClusterMark, slurm_conf: str = "") -> HostFacts:
    """A host of a site; its number is the last part of its address."""
    return host_facts(name, addresses=(f"10.0.0.{name[1:]}",), slurm_use=SlurmUse(marks), slurm_conf=slurm_conf)


def site(*names: str, mark: ClusterMark = MARK, conf: str = CONF) -> dict[str, HostFacts]:
    """Hosts that form a cluster under u1, in this order."""
    return {name: host(name, mark, slurm_conf=conf if name == "u1" else "") for name in names}


@pytest.mark.parametrize("order", [("u1", "u2", "u3"), ("u2", "u1", "u3"), ("u3", "u2", "u1")])
def test_hosts_of_a_cluster_in_any_order_keep_their_controller_and_name(order: tuple[str, ...]) -> None:
    founding = choose(site(*order), {}, "")
    assert (founding.name, founding.controller, founding.exists) == ("alpha", "u1", True)
    refuse_losing(founding, site(*order))


def test_a_controller_that_has_lost_its_slurm_conf_is_still_the_one_that_its_nodes_name() -> None:
    facts = {"u2": host("u2", MARK), "u1": host("u1")}
    assert choose(facts, {}, "").controller == "u1"


def test_a_controller_by_its_name_alone_is_found() -> None:
    mark = ClusterMark("/etc/slurm/slurm.conf", "alpha", ("u1",))
    assert choose(site("u2", "u1", mark=mark), {}, "").controller == "u1"


def test_a_controller_that_is_reached_at_another_address_than_it_has_is_found() -> None:
    facts = {"u2": host("u2", MARK), "u1": host_facts("u1", addresses=("192.168.0.1",))}
    assert choose(facts, {"u1": "10.0.0.1"}, "").controller == "u1"


@pytest.mark.parametrize(
    "facts",
    [
        {"n1": host("n1"), "u2": host("u2", MARK)},
        {"n1": host("n1"), "u1": host_facts("u1", addresses=("10.9.0.1",)), "u2": host("u2", MARK)},
        {"n1": host("n1"), "n2": host("n2", ClusterMark("/etc/slurm/slurm.conf", "cluster", ("localhost",)))},
        {"n1": host("n1"), "n2": host("n2")},
    ],
    ids=["not named", "a namesake", "an example", "none"],
)
def test_without_a_controller_among_the_hosts_the_first_founds_a_cluster_by_its_own_name(
    facts: dict[str, HostFacts],
) -> None:
    founding = choose(facts, {}, "")
    assert (founding.name, founding.controller, founding.exists) == ("n1", "n1", False)
    assert choose(facts, {}, "physics").name == "physics"


@pytest.mark.parametrize("named", ["u3(10.0.0.3)", "u2(10.0.0.2)"], ids=["itself", "another"])
def test_a_host_that_alone_says_that_another_than_the_first_is_the_controller_is_refused(named: str) -> None:
    liar = host("u3", ClusterMark("/etc/slurm/slurm.conf", "alpha", (named,)), slurm_conf=CONF)
    facts = {"u1": host("u1"), "u2": host("u2"), "u3": liar}
    with pytest.raises(InputError, match=r"u3: .* there says that u[23] is the controller of a cluster alpha, and nei"):
        choose(facts, {}, "")
    assert choose({"u3": liar, "u1": facts["u1"]}, {}, "").exists is (named == "u3(10.0.0.3)")


def test_another_name_for_a_cluster_that_exists_is_refused_and_its_own_is_not() -> None:
    assert choose(site("u1", "u2"), {}, "alpha").name == "alpha"
    with pytest.raises(InputError, match="form the cluster alpha, with the controller u1, and --name beta would"):
        choose(site("u1", "u2"), {}, "beta")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("NodeName=u[4-5] CPUs=4", r"the nodes u\[4-5\]"),
        ("NodeName=u4 CPUs=4", "the node u4"),
        ("PartitionName=long Nodes=ALL", "the partition long"),
        ("SlurmctldHost=u9", "the backup controller u9"),
        ("AccountingStorageHost=db", "the accounting database of db"),
    ],
)
def test_a_cluster_with_more_than_a_new_file_would_have_is_refused(line: str, words: str) -> None:
    facts = site("u1", "u2", "u3", conf=f"{CONF}{line}\n")
    with pytest.raises(InputError, match=f"{words}.*Deploy with the cluster file of alpha"):
        refuse_losing(choose(facts, {}, ""), facts)


def test_slurmfabs_own_partition_is_no_loss() -> None:
    facts = site("u1", "u2", "u3", conf=f"{CONF}PartitionName=slurmfab Nodes=ALL Hidden=YES\n")
    refuse_losing(choose(facts, {}, ""), facts)


def test_a_cluster_whose_slurm_conf_is_elsewhere_is_refused() -> None:
    facts = site("u1", "u2", conf="")
    with pytest.raises(InputError, match=r"its slurm\.conf, which is not /etc"):
        refuse_losing(choose(facts, {}, ""), facts)


def test_a_cluster_made_by_hand_is_refused_with_the_command_that_writes_its_cluster_file() -> None:
    facts = site("u1", "u2", "u3", conf=CONF.partition("\n")[2])
    with pytest.raises(InputError, match=r"which slurmfab did not make\. .* fab import --hosts u1 "):
        refuse_losing(choose(facts, {}, ""), facts)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (("ctl", "10.0.0.1"), "ctl"),
        (("Head-Node_1", "x"), "head-node_1"),
        (("debian", "head"), "head"),
        (("a" * 60, "x"), "a" * 40),
    ],
)
def test_a_new_cluster_is_named_after_its_controller_as_slurm_accepts_it(names: tuple[str, ...], name: str) -> None:
    assert default_name(*names) == name
    loading.parse(f"cluster: {name}\ncontrollers: [c1]\nnodes: [{{hosts: n1}}]\n", "cluster.yaml")
