"""Files that were made by hand and say the same as slurmfab's: they stay, on each host as it is."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest
from support import THREE_HOSTS, USABLE, cluster, facts_of, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Gpu, HostFacts
from slurmfab.core.engine import notices
from slurmfab.core.impact.slurm_diff import SETTING, TEXT, Difference
from slurmfab.core.plan import hand_made_files as by_hand_files
from slurmfab.core.plan.hand_made_files import MAIN
from slurmfab.core.plan.phases import daemons, slurm_conf
from slurmfab.core.plan.phases.slurm_conf import own_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import configuration
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles

GPUS = (Gpu("/dev/nvidia0", "a100"), Gpu("/dev/nvidia1", "a100"))
OWN_GRES = "Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"


def hosts(slurm: str = "24.11.5", *, gpus: tuple[Gpu, ...] = ()) -> dict[str, HostFacts]:
    """A controller and two nodes, the first with GPUs."""
    return {
        name: prepared(name, slurm, gpus=gpus if name == "n1" else (), cgroup=USABLE) for name in ("c1", "n1", "n2")
    }


def by_hand(text: str) -> str:
    """The same text as somebody else would have written it."""
    return "# ann, 2019\n" + re.sub("(?m)^#.*\n", "", text).replace("KillWait=30\n", "killwait = 30  # s\n")


def found(
    slurm: str = "24.11.5",
    *,
    gpus: tuple[Gpu, ...] = (),
    of_hosts: dict[str, dict[str, str]] | None = None,
    text: str = "",
) -> PlanInput:
    """The plan input of a cluster with hand-made files.

    Args:
        slurm: its version.
        gpus: of n1.
        of_hosts: by host, texts other than those of the primary controller; an empty one is missing.
        text: slurm.conf on all hosts; by default one that says the same.
    """
    fresh = plan_input(cluster(), hosts(slurm, gpus=gpus))
    conf = text or by_hand(fresh.rendered["slurm.conf"])
    digest = hashlib.sha256(conf.encode()).hexdigest()
    facts = {}
    for name, fact in fresh.facts.items():
        texts = {"cgroup_conf": by_hand(fresh.rendered["cgroup.conf"]), **(of_hosts or {}).get(name, {})}
        main = {"slurm_conf": conf} if name == "c1" else {}
        running = {"slurmctld": "active"} if name == "c1" else {"slurmd": "active"}
        facts[name] = replace(fact, services=running, **{"slurm_conf_digest": digest, **main, **texts})
    return plan_input(cluster(), facts)


def slurm_files(wanted: PlanInput, host: str) -> SlurmFiles:
    """The resource of a host's files."""
    return next(one for one in own_files(wanted, host) if isinstance(one, SlurmFiles))


def changed(wanted: PlanInput) -> set[tuple[str, str]]:
    """The settings that the plan changes."""
    return {(one.name, one.wanted) for one in wanted.differences if one.kind == SETTING}


def test_a_hand_made_file_that_says_the_same_stays_and_nothing_differs() -> None:
    wanted = found()
    assert wanted.differences == ()
    for host in wanted.facts:
        assert dict(slurm_files(wanted, host).files) == {
            "slurm.conf": wanted.facts["c1"].slurm_conf,
            "cgroup.conf": wanted.facts["c1"].cgroup_conf,
        }
        assert slurm_files(wanted, host).kept == ("slurm.conf", "cgroup.conf")


@pytest.mark.parametrize(("uid", "is_right"), [("64030", True), ("1000", False)])
def test_a_hand_made_file_that_names_the_slurm_user_by_number_stays(uid: str, is_right: bool) -> None:
    rendered = plan_input(cluster(), hosts()).rendered["slurm.conf"]
    there = found(text=by_hand(rendered).replace("SlurmUser=slurm", f"SlurmUser={uid}"))
    users = {0: "root", 1000: "admin", 64030: "slurm"}
    wanted = plan_input(cluster(), {name: replace(fact, uids=users) for name, fact in there.facts.items()})
    assert (wanted.differences == ()) is is_right


@pytest.mark.parametrize("line", ["", "DisableRootJobs=no\n"], ids=["none", "no"])
def test_a_hand_made_file_that_lets_root_run_jobs_stays_until_the_cluster_file_says_otherwise(line: str) -> None:
    rendered = plan_input(cluster(), hosts()).rendered["slurm.conf"]
    text = by_hand(rendered.replace("DisableRootJobs=YES\n", line))
    assert found(text=text).differences == ()
    said = cluster(f"{THREE_HOSTS}slurm_conf: {{DisableRootJobs: true}}\n")
    wanted = plan_input(said, found(text=text).facts)
    assert changed(wanted) == {("DisableRootJobs", "YES")}
    later = plan_input(cluster(f"{THREE_HOSTS}slurm_conf: {{KillWait: 60}}\n"), found(text=text).facts)
    assert changed(later) == {("DisableRootJobs", "YES"), ("KillWait", "60")}


def upgraded(wanted: PlanInput, to: str = "26.05.5") -> PlanInput:
    """The same hosts with a newer Slurm."""
    facts = {host: replace(fact, slurm_versions={"slurmctld": to}) for host, fact in wanted.facts.items()}
    return replace(wanted, facts=facts)


def test_a_hand_made_file_that_was_right_for_the_slurm_before_stays_with_a_newer_one() -> None:
    before = found()
    after = upgraded(before)
    assert str(after.slurm_version) == "26.05"
    assert "disable_http" in after.rendered["slurm.conf"]
    assert (after.differences, after.files) == ((), before.files)
    assert slurm_files(after, "n1").kept == ("slurm.conf", "cgroup.conf")
    edited = found(text=before.facts["c1"].slurm_conf.replace("SlurmdTimeout=300", "SlurmdTimeout=60"))
    assert changed(upgraded(edited)) == {("SlurmdTimeout", "300"), ("CommunicationParameters", "disable_http")}


def test_a_file_of_slurmfab_gets_the_lines_of_the_newer_slurm() -> None:
    after = upgraded(found(text=plan_input(cluster(), hosts()).rendered["slurm.conf"]))
    assert changed(after) == {("CommunicationParameters", "disable_http")}


def test_a_hand_made_file_that_says_something_else_is_replaced_on_all_hosts() -> None:
    fresh = plan_input(cluster(), hosts())
    wanted = found(text=by_hand(fresh.rendered["slurm.conf"]).replace("SlurmdTimeout=300", "SlurmdTimeout=60"))
    assert [str(one) for one in wanted.differences if one.kind != "text"] == ["SlurmdTimeout: 60 -> 300"]
    assert wanted.files == fresh.files
    assert slurm_files(wanted, "n1").kept == ()


KEEPS = f"{THREE_HOSTS}keep_files: true\n"


def test_files_that_are_kept_are_neither_written_nor_removed_and_what_they_say_otherwise_is_told() -> None:
    text = by_hand(plan_input(cluster(), hosts(gpus=GPUS)).rendered["slurm.conf"])
    text = text.replace("SlurmdTimeout=300", "SlurmdTimeout=60")
    of_hosts = {"c1": {"cgroup_conf": ""}, "n1": {"gres_conf": ""}, "n2": {"gres_conf": OWN_GRES}}
    facts = found(text=text, gpus=GPUS, of_hosts=of_hosts).facts
    wanted = plan_input(cluster(KEEPS), facts)
    assert wanted.differences == ()
    assert {slurm_conf.resources(wanted, host) for host in facts} == {()}
    told = [str(one) for one in wanted.kept_differences]
    assert told[0] == "SlurmdTimeout: 60 -> 300"
    assert {one.file for one in wanted.kept_differences} == {"slurm.conf", "gres.conf"}
    assert any(one.startswith("devices of n1") for one in told)
    configuration.refuse_kept_files(wanted)
    assert "SlurmdTimeout: 60 -> 300" in notices.kept_files(wanted)
    assert wanted.conf_wanted.settings["slurmdtimeout"] == "60"


def test_files_that_are_kept_when_they_were_right_for_the_slurm_before_say_nothing_else_for_a_newer_one() -> None:
    before = found()
    edited = found(text=before.facts["c1"].slurm_conf.replace("SlurmdTimeout=300", "SlurmdTimeout=60"))
    for there, told in ((before, []), (edited, ["SlurmdTimeout: 60 -> 300"])):
        after = upgraded(plan_input(cluster(KEEPS), there.facts))
        assert "disable_http" in after.rendered["slurm.conf"]
        assert [str(one) for one in after.kept_differences] == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("NodeName=n9 CPUs=1\n", "nodes? n9: removed"),
        ("StateSaveLocation=/other\n", "StateSaveLocation: /other -> "),
        ("", "n2: there is no slurm.conf"),
    ],
    ids=["node", "state", "missing"],
)
def test_files_that_are_kept_when_slurmfab_would_work_with_something_else_are_refused(line: str, told: str) -> None:
    facts = found(text=by_hand(plan_input(cluster(), hosts()).rendered["slurm.conf"]) + line).facts
    facts = facts if line else {**facts, "n2": replace(facts["n2"], slurm_conf_digest="")}
    with pytest.raises(InputError, match=rf"{told}(?s:.*)remove keep_files"):
        configuration.refuse_kept_files(plan_input(cluster(KEEPS), facts))


def test_a_cluster_without_files_when_it_keeps_them_gets_them_once() -> None:
    wanted = plan_input(cluster(KEEPS), hosts())
    assert dict(slurm_files(wanted, "c1").files)["slurm.conf"] == wanted.rendered["slurm.conf"]


def test_a_file_of_slurmfab_in_another_text_is_written_anew() -> None:
    fresh = plan_input(cluster(), hosts())
    wanted = found(text=fresh.rendered["slurm.conf"] + "# edited\n")
    assert wanted.files == fresh.files


def test_a_gres_conf_of_each_node_stays_where_it_says_the_same() -> None:
    wanted = found(gpus=GPUS, of_hosts={"n1": {"gres_conf": OWN_GRES}})
    assert wanted.differences == ()
    assert dict(slurm_files(wanted, "n1").files)["gres.conf"] == OWN_GRES
    assert [("gres.conf" in dict(slurm_files(wanted, host).files)) for host in ("c1", "n2")] == [False, False]


@pytest.mark.parametrize("text", ["", "Name=gpu Type=a100 File=/dev/nvidia0\n"])
def test_a_nodes_gres_conf_when_it_says_something_else_is_replaced_there_alone(text: str) -> None:
    wanted = found(gpus=GPUS, of_hosts={"n1": {"gres_conf": text}})
    assert [one.nodes for one in wanted.differences] == [("n1",)]
    assert dict(slurm_files(wanted, "n1").files)["gres.conf"] == wanted.rendered["gres.conf"]
    assert "gres.conf" not in dict(slurm_files(wanted, "n2").files)


def test_a_gres_conf_without_devices_is_not_removed_though_slurmfab_writes_none() -> None:
    wanted = found(of_hosts={"n1": {"gres_conf": "# none\nAutoDetect=off\n"}, "n2": {"gres_conf": OWN_GRES}})
    assert [any(isinstance(one, Absent) for one in own_files(wanted, host)) for host in ("n1", "n2")] == [False, True]


def test_a_missing_cgroup_conf_is_right_on_a_host_that_is_no_node_and_wrong_on_a_node() -> None:
    wanted = found(of_hosts={"c1": {"cgroup_conf": ""}, "n2": {"cgroup_conf": ""}})
    there = {host: dict(slurm_files(wanted, host).files).get("cgroup.conf") for host in wanted.facts}
    assert there == {"c1": None, "n1": wanted.facts["n1"].cgroup_conf, "n2": wanted.rendered["cgroup.conf"]}


def test_another_text_of_slurm_conf_on_a_node_becomes_the_controllers() -> None:
    wanted = found(of_hosts={"n2": {"slurm_conf_digest": "0" * 64}})
    assert dict(slurm_files(wanted, "n2").files)["slurm.conf"] == wanted.facts["c1"].slurm_conf


def test_another_text_on_a_node_becomes_the_controllers_with_the_files_that_it_includes() -> None:
    wanted = found(of_hosts={"n2": {"slurm_conf_digest": "0" * 64}})
    parts = {"slurm.conf": "Include more.conf\n", "more.conf": wanted.facts["c1"].slurm_conf}
    facts = {**wanted.facts, "c1": replace(wanted.facts["c1"], slurm_conf_parts=parts)}
    wanted = plan_input(cluster(), facts)
    assert parts.items() <= dict(wanted.files_of("n2")).items()
    assert dict(wanted.files_of("n1"))["slurm.conf"] == parts["more.conf"]


@pytest.mark.parametrize(("slurm", "watches"), [("22.05.8", 0), ("24.11.5", 3)])
def test_a_daemon_whose_reconfigure_leaves_no_trace_does_not_watch_a_file_that_stays(slurm: str, watches: int) -> None:
    wanted = found(slurm, gpus=GPUS, of_hosts={"n1": {"gres_conf": OWN_GRES}, "n2": {"slurm_conf_digest": "0" * 64}})
    (slurmd,) = daemons.slurmd(wanted, "n1")
    assert isinstance(slurmd, Service)
    assert len(slurmd.watches) == watches
    (slurmd,) = daemons.slurmd(wanted, "n2")
    assert isinstance(slurmd, Service)
    assert "/etc/slurm/slurm.conf" in slurmd.watches


def test_devices_of_a_silent_node_count_as_right() -> None:
    wanted = found(gpus=GPUS, of_hosts={"n1": {"gres_conf": OWN_GRES}})
    assert replace(wanted, facts={name: wanted.facts[name] for name in ("c1", "n2")}).differences == ()


@pytest.mark.parametrize(
    ("is_by_hand", "digest", "lives_without"), [(True, "", True), (True, "0" * 64, False), (False, "", False)]
)
def test_slurmdbds_own_host_stays_without_slurm_conf_while_the_hand_made_files_stay(
    *, is_by_hand: bool, digest: str, lives_without: bool
) -> None:
    wanted = cluster(f"{THREE_HOSTS}database: {{host: db1}}\n".replace("addresses: {", "addresses: {db1: 10.0.0.9, "))
    facts = facts_of(wanted, prepared)
    text = plan_input(wanted, facts).rendered["slurm.conf"]
    main = by_hand(text) if is_by_hand else text
    there = hashlib.sha256(main.encode()).hexdigest()
    facts = {name: replace(fact, slurm_conf_digest=there) for name, fact in facts.items()}
    facts |= {"c1": replace(facts["c1"], slurm_conf=main), "db1": replace(facts["db1"], slurm_conf_digest=digest)}
    files = [one for one in slurm_conf.resources(plan_input(wanted, facts), "db1") if isinstance(one, SlurmFiles)]
    assert (files == []) == lives_without


@pytest.mark.parametrize(
    ("name", "actual", "wanted", "is_besides"),
    [
        ("SlurmctldParameters", "enable_configless", "", True),
        ("SlurmctldParameters", "a,enable_configless", "a", True),
        ("SlurmctldParameters", "enable_configless,b", "", False),
        ("SlurmctldParameters", "enable_configless", "a", False),
        ("SlurmdParameters", "enable_configless", "", False),
    ],
)
def test_a_slurmctld_that_serves_its_files_besides_says_nothing_else(
    name: str, actual: str, wanted: str, is_besides: bool
) -> None:
    assert by_hand_files.is_served_besides(Difference(MAIN, SETTING, name, "", actual, wanted)) is is_besides
    assert not by_hand_files.is_served_besides(Difference(MAIN, TEXT, name, "", actual, wanted))


def test_one_gres_conf_says_for_each_node_what_its_own_says() -> None:
    both = "NodeName=n[1-2] Name=gpu File=/dev/nvidia0\nName=nic Count=2 # of all\n"
    texts = {"n1": both, "n2": both, "n3": "NodeName=n9 Name=gpu File=/dev/x\n", "n4": "NodeName=n[4 Name=gpu\n"}
    assert by_hand_files.gres_of_nodes(texts) == (
        "NodeName=n[1-2] Name=gpu File=/dev/nvidia0\nNodeName=n[1-2] Name=nic Count=2\n"
    )
    other = {"n1": "NodeName=n[1-2] Name=gpu Count=1\n", "n3": "NodeName=n[1-2] Name=gpu Count=1\n"}
    assert by_hand_files.gres_of_nodes(other) == "NodeName=n1 Name=gpu Count=1\n"
