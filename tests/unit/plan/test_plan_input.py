"""What a plan is made from: what the lock takes up and keeps, and what Slurm's files are rendered from."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import SMALL, THREE_HOSTS, USABLE, cluster, facts_of, host_facts, plan_input, prepared, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Cgroup, Gpu, Hardware, weakest
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.core.plan.pinned import pin, pinned_keys, shared_keys
from slurmfab.core.plan.preflight.configuration import refuse_other_cluster, refuse_unknown_keys


def test_the_lock_takes_up_what_is_found_out_for_the_first_time() -> None:
    lock = pin(cluster(), Lock(), facts_of(cluster(), prepared))
    assert lock.hosts["n1"] == HostLock(
        "n1", {"ssh-ed25519": "host+key+of+n1"}, SMALL, (), USABLE, "ssh-ed25519 key+of+n1 slurm@n1"
    )
    assert lock.slurm == "24.11.5"
    assert lock.ids["slurm.uid"] == 64030


def test_hardware_that_has_changed_since_does_not_change_the_lock() -> None:
    before = pin(cluster(), Lock(), facts_of(cluster(), gpus=(Gpu("/dev/nvidia0"),)))
    smaller = dataclasses.replace(SMALL, RealMemory=8000)
    after = pin(
        cluster(), before, facts_of(cluster(), hardware=smaller, gpus=(), cgroup=Cgroup("none"), hostname="other")
    )
    assert after.hosts == before.hosts


WITH_ECORES = dataclasses.replace(SMALL, CPUs=SMALL.CPUs * 2, CoresPerSocket=SMALL.CoresPerSocket * 2)
SLURMD = {"slurmd": "24.11.5"}


@pytest.mark.parametrize(
    ("first", "then", "hardware", "kernel"),
    [
        # Before slurmd is installed sysfs counts, and then slurmd.
        ({"hardware": WITH_ECORES}, {"hardware": SMALL, "kernel": WITH_ECORES, "slurm_versions": SLURMD}, SMALL, True),
        # allow_ecores comes.
        (
            {"hardware": SMALL, "kernel": WITH_ECORES, "slurm_versions": SLURMD},
            {"hardware": WITH_ECORES, "slurm_versions": SLURMD},
            WITH_ECORES,
            False,
        ),
        # slurmd is not there, as on a machine that was installed anew.
        ({"hardware": SMALL, "kernel": WITH_ECORES, "slurm_versions": SLURMD}, {"hardware": WITH_ECORES}, SMALL, True),
        # The processor is another one.
        (
            {"hardware": SMALL, "kernel": WITH_ECORES, "slurm_versions": SLURMD},
            {"hardware": SMALL, "slurm_versions": SLURMD},
            SMALL,
            True,
        ),
        ({"hardware": WITH_ECORES}, {"hardware": SMALL, "slurm_versions": SLURMD}, WITH_ECORES, False),
    ],
)
def test_the_same_processors_are_in_the_lock_as_slurmd_counts_them_and_others_are_other_hardware(
    first: dict[str, Any], then: dict[str, Any], hardware: Hardware, kernel: bool
) -> None:
    before = pin(cluster(), Lock(), facts_of(cluster(), **first))
    known = pin(cluster(), before, facts_of(cluster(), **then)).hosts["n1"]
    assert (known.hardware, known.kernel) == (hardware, WITH_ECORES if kernel else None)


def test_the_memory_of_the_lock_stays_where_slurmd_counts_the_processors_otherwise() -> None:
    before = pin(cluster(), Lock(), facts_of(cluster(), hardware=WITH_ECORES))
    less = dataclasses.replace(SMALL, RealMemory=SMALL.RealMemory - 9)
    told = facts_of(cluster(), hardware=less, kernel=WITH_ECORES, slurm_versions=SLURMD)
    assert pin(cluster(), before, told).hosts["n1"].hardware == SMALL


def test_gpus_that_come_later_are_no_discovery_either() -> None:
    before = pin(cluster(), Lock(), facts_of(cluster()))
    assert pin(cluster(), before, facts_of(cluster(), gpus=(Gpu("/dev/nvidia0"),))).hosts["n1"].gpus == ()


def test_a_slurm_users_new_public_key_replaces_the_old_one() -> None:
    before = pin(cluster(), Lock(), facts_of(cluster(), prepared))
    assert pin(cluster(), before, facts_of(cluster(), prepared, public_key="new")).hosts["n1"].public_key == "new"
    assert pin(cluster(), before, facts_of(cluster())).hosts["n1"].public_key == "ssh-ed25519 key+of+n1 slurm@n1"


def test_addresses_of_a_host_are_those_of_its_last_answer() -> None:
    before = pin(cluster(), Lock(), facts_of(cluster(), addresses=("10.0.0.9", "10.0.0.10")))
    assert before.hosts["n1"].addresses == ("10.0.0.10", "10.0.0.9")
    assert pin(cluster(), before, facts_of(cluster())).hosts["n1"].addresses == ("10.0.0.10", "10.0.0.9")
    assert pin(cluster(), before, facts_of(cluster(), addresses=("10.1.0.9",))).hosts["n1"].addresses == ("10.1.0.9",)


def test_the_one_host_key_of_first_contact_is_completed_and_a_full_set_is_kept() -> None:
    shown = Lock(hosts={"n1": HostLock(host_keys={"ssh-ed25519": "A"})})
    keys = {"ssh-ed25519": "A", "ssh-rsa": "B"}
    completed = pin(cluster(), shown, {"n1": host_facts("n1", ssh_host_keys=keys)})
    assert completed.hosts["n1"].host_keys == keys
    assert (
        pin(cluster(), completed, {"n1": host_facts("n1", ssh_host_keys={"ssh-rsa": "C"})}).hosts["n1"].host_keys
        == keys
    )


def test_a_host_that_does_not_answer_keeps_its_entry() -> None:
    before = pin(cluster(), Lock(), facts_of(cluster(), prepared))
    assert pin(cluster(), before, {"c1": prepared("c1")}) == before


def test_the_version_is_the_installed_one_or_else_the_distributions() -> None:
    assert str(prepared_input(slurm="22.05.8").slurm_version) == "22.05"
    assert str(plan_input(cluster(), facts_of(cluster(), codename="bookworm")).slurm_version) == "22.05"


def test_a_key_that_the_installed_slurm_does_not_know_is_refused_with_its_place() -> None:
    wanted = cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\nslurm_conf: {HashPlugin: hash/sha3}\n")
    with pytest.raises(InputError, match=r"slurm_conf\.HashPlugin: Slurm 22\.05 does not know") as refused:
        refuse_unknown_keys(plan_input(wanted, facts_of(wanted, codename="bookworm")))
    assert "nothing was changed on any host" in str(refused.value)
    refuse_unknown_keys(plan_input(wanted, facts_of(wanted, codename="trixie")))


@pytest.mark.parametrize(
    ("cgroups", "common"),
    [
        ((), Cgroup("none")),
        ((USABLE, USABLE), USABLE),
        ((USABLE, dataclasses.replace(USABLE, swap=False)), dataclasses.replace(USABLE, swap=False)),
        ((USABLE, Cgroup("v2", ("memory",), swap=True)), Cgroup("none", ("memory",), swap=True)),
        ((USABLE, Cgroup("none")), Cgroup("none")),
    ],
)
def test_the_weakest_node_decides_on_control_groups(cgroups: tuple[Cgroup, ...], common: Cgroup) -> None:
    assert weakest(cgroups) == common


def test_v1_and_v2_may_be_in_one_cluster() -> None:
    assert weakest((USABLE, dataclasses.replace(USABLE, version="v1"))).is_usable


def test_another_clusters_controller_is_refused_with_both_names() -> None:
    facts = facts_of(cluster(), prepared) | {"c1": prepared("c1", slurm_conf="ClusterName=old\nNodeName=n1\n")}
    with pytest.raises(InputError, match="c1 is the controller of the cluster old, and the cluster file says lab"):
        refuse_other_cluster(plan_input(cluster(), facts))


def test_another_name_of_the_cluster_when_it_is_allowed_is_no_mistake() -> None:
    facts = facts_of(cluster(), prepared) | {"c1": prepared("c1", slurm_conf="ClusterName=old\nNodeName=n1\n")}
    renamed = plan_input(cluster(), facts)
    refuse_other_cluster(renamed, {"ClusterName"})
    assert renamed.renames_cluster


def test_what_differs_is_between_the_files_of_the_controller_and_those_that_are_wanted() -> None:
    wanted = dict(prepared_input().files)
    before = wanted["slurm.conf"].replace("KillWait=30", "KillWait=60")
    texts = {"slurm_conf": before, "gres_conf": "Name=gpu Count=1\n"}
    facts = facts_of(cluster(), prepared) | {"c1": prepared("c1", cgroup_conf=wanted["cgroup.conf"], **texts)}
    assert [str(one) for one in plan_input(cluster(), facts).differences] == [
        "KillWait: 60 -> 30",
        "devices of all nodes: Name=gpu Count=1 -> (none)",
    ]
    assert prepared_input().differences == ()


def test_its_own_name_in_the_controllers_slurm_conf_is_fine() -> None:
    facts = facts_of(cluster(), prepared) | {"c1": prepared("c1", slurm_conf="ClusterName=lab\n")}
    refuse_other_cluster(plan_input(cluster(), facts))


TWO_CONTROLLERS = THREE_HOSTS.replace("[c1]", "[c1, n1]\nstate_directory: /shared")


@pytest.mark.parametrize(
    ("programs", "line"),
    [
        ({"c1": "/usr/bin/mail", "n1": "/usr/bin/mail"}, "MailProg=/usr/bin/mail"),
        ({"c1": "/usr/bin/mail", "n1": ""}, "MailProg=/bin/true"),
        ({"c1": "/usr/bin/mail", "n1": "/usr/bin/mailx"}, "MailProg=/bin/true"),
        ({"n2": "/usr/bin/mail"}, "MailProg=/bin/true"),
    ],
)
def test_mail_is_sent_when_every_controller_can_send_it_in_the_same_way(programs: dict[str, str], line: str) -> None:
    two = cluster(TWO_CONTROLLERS)
    facts = {host: prepared(host, mail_program=programs.get(host, "")) for host in two.hosts}
    assert line in dict(plan_input(two, facts).files)["slurm.conf"].splitlines()


def test_a_controller_that_does_not_answer_changes_nothing_about_mail() -> None:
    two = cluster(TWO_CONTROLLERS)
    known = facts_of(two, prepared, mail_program="/usr/bin/mail")
    answering = {host: facts for host, facts in known.items() if host != "n1"}
    assert plan_input(two, answering, known).files == plan_input(two, known).files


def test_a_host_key_that_another_host_tells_of_too_then_joins_nobodys() -> None:
    own, other = {"ssh-ed25519": "a", "ssh-rsa": "b"}, {"ssh-ed25519": "c", "ssh-rsa": "b"}
    hosts = {"n1": HostLock(host_keys={"ssh-ed25519": "a"}), "n2": HostLock(host_keys={"ssh-ed25519": "c"})}
    shared = shared_keys(hosts, {"n1": prepared("n1", ssh_host_keys=own), "n2": prepared("n2", ssh_host_keys=other)})
    assert pinned_keys(hosts["n2"].host_keys, other, shared) == {"ssh-ed25519": "c"}
    known = {"n1": HostLock(host_keys=own)}
    later = shared_keys(known, {"n2": prepared("n2", ssh_host_keys=other)})
    assert pinned_keys({"ssh-ed25519": "c"}, other, later) == {"ssh-ed25519": "c"}
    assert pinned_keys(own, own, later) == own


@pytest.mark.parametrize(
    ("old", "told", "kept"),
    [
        ({}, {"ssh-rsa": "b"}, {"ssh-rsa": "b"}),
        ({"ssh-ed25519": "a"}, {"ssh-ed25519": "a", "ssh-rsa": "b"}, {"ssh-ed25519": "a", "ssh-rsa": "b"}),
        ({"ssh-ed25519": "a"}, {"ssh-ed25519": "z", "ssh-rsa": "b"}, {"ssh-ed25519": "a"}),
        ({"ssh-ed25519": "a"}, {"ssh-rsa": "b"}, {"ssh-ed25519": "a"}),
        ({"ssh-ed25519": "a"}, {}, {"ssh-ed25519": "a"}),
    ],
)
def test_host_keys_that_a_host_tells_of_join_the_pinned_one_and_never_replace_it(
    old: dict[str, str], told: dict[str, str], kept: dict[str, str]
) -> None:
    assert pinned_keys(old, told) == kept
