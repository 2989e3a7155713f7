"""Hosts that belong to another cluster: which signs count, which are ours, and what the refusal says."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import pytest
from support import MUNGE_KEY, cluster, facts_of, host_facts, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import ClusterMark, HostFacts, SlurmUse
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.preflight.other_clusters import (
    hosts_taken,
    identity,
    identity_of,
    is_unset,
    other_use,
    refuse_in_use,
)

CONF = "/etc/slurm/slurm.conf"
OURS = ClusterMark(CONF, "lab", ("c1(10.0.0.1)",))
THEIRS = ClusterMark(CONF, "lab", ("c1(10.9.0.1)",))
OTHER_NAME = ClusterMark(CONF, "alpha", ("u1(10.9.0.1)",))
OUR_KEY = hashlib.sha256(base64.b64decode(MUNGE_KEY)).hexdigest()
OTHER_KEY = hashlib.sha256(b"another").hexdigest()


def used(*marks: ClusterMark, **use: Any) -> HostFacts:
    """A host that is new to the lock and shows these signs of clusters."""
    return host_facts("n1", slurm_use=SlurmUse(marks, **use))


def everybody(new: HostFacts, controller: HostFacts | None = None) -> dict[str, HostFacts]:
    """The facts of a cluster of three of which n1 is as told."""
    ctl = controller or host_facts("c1", munge_key=MUNGE_KEY, addresses=("10.0.0.1",))
    return {"c1": ctl, "n1": new, "n2": host_facts("n2")}


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (used(OTHER_NAME), "belongs to the cluster alpha, whose controller is u1(10.9.0.1) (/etc/slurm/slurm.conf)"),
        (used(OTHER_NAME), "No daemon of Slurm runs there now."),
        (used(OTHER_NAME, daemons=("slurmd",), jobs=(3, 14)), "; slurmd and slurmstepd run there, with jobs 3, 14."),
        (used(OTHER_NAME, daemons=("slurmctld",)), "; slurmctld runs there."),
        (used(OTHER_NAME, munge_key=OUR_KEY), "the cluster alpha"),
        (used(replace(OURS, cluster="alpha")), "the cluster alpha"),
        (used(THEIRS), "the cluster lab, whose controller is c1(10.9.0.1)"),
        (used(THEIRS, munge_key=OTHER_KEY), "the cluster lab, whose controller is c1(10.9.0.1)"),
        (used(ClusterMark(CONF, "lab", ("u1(10.0.0.2)",)), munge_key=OUR_KEY), "whose controller is u1"),
        (used(ClusterMark(CONF, "lab", ("c1",)), munge_key=OTHER_KEY), "whose controller is c1 "),
        (used(ClusterMark(CONF, "lab", ("c1(c1.b.org)",)), munge_key=OTHER_KEY), "whose controller is c1(c1.b.org)"),
        (used(ClusterMark("slurmd --conf-server u1", "", ("u1",))), "the cluster without a known name, whose"),
        (
            used(ClusterMark("/opt/slurm/sbin/slurmd"), munge_key=OTHER_KEY),
            "slurm.conf was not found (/opt/slurm",
        ),
        (used(OURS, ClusterMark("/srv/state", "alpha")), "it has the state of the cluster alpha (/srv/state)"),
        (used(jobs=(7,)), "no file says to which cluster it belongs; slurmstepd runs there, with job 7."),
        (used(ClusterMark(CONF, "cluster", ("localhost",)), jobs=(7,)), "with job 7."),
        (used(jobs=tuple(range(1, 40))), "with jobs 1, 2, 3, 4, 5, 6, 7, 8 and 31 more."),
    ],
)
def test_a_new_host_of_another_cluster_is_refused_with_what_was_found_and_the_ways_out(
    fact: HostFacts, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        refuse_in_use(cluster(), Lock(), everybody(fact))
    said = str(refused.value)
    assert said.startswith("n1: ")
    assert words in said
    assert "Nothing was changed." in said
    assert all(way in said for way in ("cluster file of that cluster", "remove-node", "--allow host-in-use"))
    refuse_in_use(cluster(), Lock(), everybody(fact), {"host-in-use"})


@pytest.mark.parametrize(
    "fact",
    [
        used(),
        used(munge_key=OTHER_KEY),
        used(daemons=("slurmd",)),
        used(OURS),
        used(OURS, daemons=("slurmd",), jobs=(3,), munge_key=OTHER_KEY),
        used(ClusterMark(CONF, "Lab", ("C1(10.0.0.1)",))),
        used(ClusterMark(CONF, "lab", ("c1",)), munge_key=OUR_KEY),
        used(ClusterMark(CONF, "lab", ("10.0.0.1",))),
        used(THEIRS, munge_key=OUR_KEY),
        used(ClusterMark("slurmd --conf-server 10.0.0.1", "", ("10.0.0.1",))),
        used(ClusterMark("/opt/slurm/sbin/slurmd"), munge_key=OUR_KEY),
        used(ClusterMark(CONF, "cluster", ("localhost",)), daemons=("slurmctld", "slurmd")),
        used(ClusterMark(CONF, "linux", ("linux0",)), daemons=("slurmd",)),
        used(ClusterMark(CONF, "mine", ("n1(127.0.0.1)",)), daemons=("slurmd",)),
    ],
)
def test_a_host_of_our_own_or_of_no_cluster_is_not_refused(fact: HostFacts) -> None:
    """Also one whose lock was lost, whose first deployment was killed, or on which packages started a daemon."""
    refuse_in_use(cluster(), Lock(), everybody(fact))


def test_a_new_controller_is_refused_if_it_is_a_node_of_another_controller_that_would_become_its_node() -> None:
    """The hosts of a cluster in another order: each names the controller that is there."""
    mark = ClusterMark(CONF, "lab", ("n1(10.0.0.2)",))
    facts = facts_of(cluster(), slurm_use=SlurmUse((mark,)))
    with pytest.raises(InputError, match=r"c1,n\[1-2\]: it belongs to the cluster lab, whose controller is n1"):
        refuse_in_use(cluster(), Lock(), facts)


def test_hosts_in_one_cluster_are_one_line() -> None:
    facts = everybody(used(OTHER_NAME))
    facts["n2"] = used(OTHER_NAME)
    with pytest.raises(InputError, match=r"\An\[1-2\]: it belongs"):
        refuse_in_use(cluster(), Lock(), facts)


def test_a_cluster_that_the_file_renames_still_owns_its_nodes() -> None:
    """Whether it may be renamed is judged elsewhere."""
    old = ClusterMark(CONF, "before", ("c1(10.0.0.1)",))
    controller = host_facts("c1", addresses=("10.0.0.1",), slurm_use=SlurmUse((old,)))
    refuse_in_use(cluster(), Lock(), everybody(used(old, daemons=("slurmd",)), controller))


def test_a_host_that_is_in_the_lock_is_not_new() -> None:
    known = cluster()
    lock = pin(known, Lock(), facts_of(known))
    refuse_in_use(known, lock, everybody(used(OTHER_NAME)))


@pytest.mark.parametrize(
    ("controllers", "slurmctld", "is_refused"),
    [
        (("n1(10.0.0.2)",), "active", True),
        (("n1(10.0.0.2)",), "inactive", False),
        (("n1(10.0.0.2)", "c1(10.0.0.1)"), "active", False),
        (("c1(10.0.0.1)", "n1(10.0.0.2)"), "active", False),
    ],
    ids=["living", "stopped", "its backup takes over", "a backup that goes"],
)
def test_a_controller_beside_a_living_one_is_refused_also_where_the_lock_knows_the_hosts(
    controllers: tuple[str, ...], slurmctld: str, is_refused: bool
) -> None:
    known = cluster()
    lock = pin(known, Lock(), facts_of(known))
    node = used(ClusterMark(CONF, "lab", controllers))
    facts = everybody(replace(node, services={"slurmctld": slurmctld, "slurmd": "active"}))
    if is_refused:
        with pytest.raises(
            InputError, match=r"n1: slurmctld runs there .* file says c1.*If the cluster's jobs are on n1"
        ):
            refuse_in_use(known, lock, facts)
    refuse_in_use(known, lock, facts, {"host-in-use"} if is_refused else ())


def test_a_host_that_says_it_is_the_controller_beside_the_files_own_at_work_then_is_left_out_alone() -> None:
    known = cluster()
    lock = pin(known, Lock(), facts_of(known))
    liar = replace(used(ClusterMark(CONF, "lab", ("evil(6.6.6.6)",))), services={"slurmctld": "active"})
    facts = {**everybody(liar)}
    facts["c1"] = replace(facts["c1"], services={"slurmctld": "active"})
    refuse_in_use(known, lock, facts)
    reasons = hosts_taken(known, lock, facts, ())
    assert list(reasons) == ["n1"]
    assert "it says that slurmctld runs there for this cluster, beside c1" in reasons["n1"]


def test_before_the_controller_was_asked_its_name_is_enough_and_another_address_is_not() -> None:
    ours = identity(cluster(), Lock(), {})
    assert other_use(ours, used(ClusterMark(CONF, "lab", ("c1",)), munge_key=OTHER_KEY)) == ""
    assert other_use(ours, used(OURS)) == ""
    assert "alpha" in other_use(ours, used(OTHER_NAME))


@pytest.mark.parametrize(
    ("mark", "services", "is_taken"),
    [
        (OTHER_NAME, {"slurmd": "active"}, True),
        (OTHER_NAME, {"slurmd": "inactive"}, False),
        (replace(OTHER_NAME, cluster="lab"), {"slurmd": "active"}, False),
        (replace(OURS, cluster="alpha"), {"slurmd": "active"}, False),
        (replace(OTHER_NAME, controllers=("localhost",)), {"slurmd": "active"}, False),
    ],
)
def test_a_known_host_that_another_cluster_took_meanwhile_is_left_out(
    mark: ClusterMark, services: dict[str, str], is_taken: bool
) -> None:
    known = cluster()
    lock = pin(known, Lock(), facts_of(known))
    facts = everybody(replace(used(mark), services=services))
    reasons = hosts_taken(known, lock, facts, ())
    assert list(reasons) == ["n1"] * is_taken
    assert all(
        "it belongs to the cluster alpha" in reason and "remove-node n1" in reason for reason in reasons.values()
    )
    assert hosts_taken(known, lock, facts, {"host-in-use"}) == {}


def test_a_prepared_cluster_has_no_host_that_others_took() -> None:
    known = cluster()
    lock = pin(known, Lock(), facts_of(known, prepared))
    assert hosts_taken(known, lock, facts_of(known, prepared), ()) == {}


@pytest.mark.parametrize(
    ("controllers", "unset"),
    [((), False), (("localhost",), True), (("127.0.0.1",), True), (("c1",), False), (("localhost", "c1"), False)],
)
def test_a_slurm_conf_whose_only_controller_is_the_machine_itself_is_no_cluster(
    controllers: tuple[str, ...], unset: bool
) -> None:
    assert is_unset(ClusterMark(CONF, "x", controllers)) is unset


def test_names_of_a_cluster_are_those_that_its_controllers_slurm_conf_has_with_that_controller() -> None:
    marks = (
        ClusterMark(CONF, "Old", ("c1(10.0.0.1)",)),
        ClusterMark("slurmd --conf-server c1", "", ("c1(10.0.0.1)",)),
        ClusterMark("/srv/state", "state"),
        ClusterMark("/etc/other", "alpha", ("u1(10.9.0.1)",)),
    )
    asked = host_facts("c1", munge_key=MUNGE_KEY, addresses=("10.0.0.1",), slurm_use=SlurmUse(marks))
    ours = identity_of("lab", ("c1", "C1.example.org", "10.0.0.1"), [asked])
    assert ours.names == {"lab", "old"}
    assert ours.controllers == {"c1", "10.0.0.1"}
    assert ours.addresses == {"10.0.0.1", "c1.example.org"}
    assert ours.munge_key == OUR_KEY
    nobody = identity_of("lab", ("c1", ""), [])
    assert (nobody.names, nobody.controllers, nobody.addresses, nobody.munge_key) == ({"lab"}, {"c1"}, set(), None)
