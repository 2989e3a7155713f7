"""Rollbacks as tables: what hosts keep goes in, the resources of each host by phase come out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from support import MUNGE_KEY, cluster, prepared, situation

from slurmfab.agent.kinds import KINDS
from slurmfab.plan import make_plan
from slurmfab.rollback.kept import Kept, KeptFile, KeptService
from slurmfab.rollback.past import PHASES, Past

RUN = "20261121T100000.000000Z-deploy"
CONF = "/etc/slurm/slurm.conf"
KEY = "/etc/munge/munge.key"
NOW = "ClusterName=lab\nSlurmdTimeout=600\nNodeName=n[1-2] CPUs=4\n"
BEFORE = "ClusterName=lab\nSlurmdTimeout=300\nNodeName=n[1-2] CPUs=4\n"
FEWER = "ClusterName=lab\nNodeName=n1 CPUs=4\n"
ACTIVE = {
    "c1": {"slurmctld": "active", "munge": "active"},
    "n1": {"slurmd": "active", "munge": "active"},
    "n2": {"slurmd": "active", "munge": "active"},
}
HOSTS = ("c1", "n1", "n2")


def text(path: str, content: str) -> KeptFile:
    return KeptFile(path, RUN, content=content)


def absent(path: str) -> KeptFile:
    return KeptFile(path, RUN, existed=False)


def secret(path: str) -> KeptFile:
    return KeptFile(path, RUN, secret=True)


def off(unit: str, *, enabled: bool = False) -> KeptService:
    return KeptService(unit, RUN, enabled, running=False)


def past(kept: Mapping[str, Kept], slurm: str = "24.11.5", *, was_deployed: bool = True, conf: str = NOW) -> Past:
    """Three hosts at work with a slurm.conf of now, and what they keep."""
    facts = {host: prepared(host, slurm, services=ACTIVE[host]) for host in HOSTS}
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY, slurm_conf=conf)
    known = situation(cluster(), facts)
    return Past(known.cluster, known.lock, known.facts, kept=kept, was_deployed=was_deployed)


def planned(wanted: Past, host: str) -> dict[str, list[str]]:
    """The ids of a host's resources by phase, those of services with `stop` where they are to stop."""
    found: dict[str, list[str]] = {}
    for phase, resource in make_plan(wanted, HOSTS, PHASES).of_host(host):
        word = "" if getattr(resource, "running", True) else " stop"
        found.setdefault(phase.name, []).append(resource.id + word)
    return found


def resource(wanted: Past, host: str, phase: str) -> Any:
    (found,) = (one for of, one in make_plan(wanted, HOSTS, PHASES).of_host(host) if of.name == phase)
    return found


def test_a_host_that_keeps_nothing_gets_no_file_and_only_daemons_that_run() -> None:
    assert planned(past({}), "c1") == {
        "munge": ["service:munge"],
        "slurmctld": ["service:slurmctld"],
        "nodes": ["slurm-nodes:n1,n2"],
    }
    assert planned(past({}), "n1") == {"munge": ["service:munge"], "slurmd": ["service:slurmd"]}


def test_a_changed_setting_goes_back_by_what_the_installed_slurm_accepts() -> None:
    wanted = past({host: Kept((text(CONF, BEFORE),)) for host in HOSTS})
    assert planned(wanted, "n1") == {
        "munge": ["service:munge"],
        "slurm.conf": ["slurm-files:/etc/slurm"],
        "slurmd": ["service:slurmd"],
    }
    files = resource(wanted, "n1", "slurm.conf")
    assert (files.files, files.node, files.beside) == ((("slurm.conf", BEFORE),), "n1", ("gres.conf", "cgroup.conf"))
    assert resource(wanted, "c1", "slurm.conf").node == ""


@pytest.mark.parametrize("slurm", ["22.05.8", "24.11.5"])
def test_a_changed_setting_never_stops_slurmctld(slurm: str) -> None:
    wanted = past({host: Kept((text(CONF, BEFORE),)) for host in HOSTS}, slurm)
    assert "slurmctld stop" not in planned(wanted, "c1")
    assert planned(wanted, "c1")["slurmctld"] == ["service:slurmctld"]


@pytest.mark.parametrize(
    ("slurm", "stop", "start"),
    [("22.05.8", ["service:slurmctld stop"], ["service:slurmctld"]), ("24.11.5", None, None)],
)
def test_another_set_of_nodes_stops_slurmctld_where_a_deployment_would(slurm: str, stop: Any, start: Any) -> None:
    wanted = past({host: Kept((text(CONF, FEWER),)) for host in HOSTS}, slurm)
    assert wanted.changes_nodes
    assert planned(wanted, "c1").get("slurmctld stop") == stop
    assert planned(wanted, "c1").get("slurmctld start") == start


def test_hosts_get_what_each_of_them_keeps_even_where_that_differs() -> None:
    by_hand = BEFORE + "# by hand\n"
    wanted = past({"c1": Kept((text(CONF, BEFORE),)), "n2": Kept((text(CONF, by_hand),))})
    assert resource(wanted, "n2", "slurm.conf").files == (("slurm.conf", by_hand),)
    assert "slurm.conf" not in planned(wanted, "n1")


def test_a_munge_key_comes_from_the_hosts_own_copy_and_before_its_daemon() -> None:
    wanted = past({host: Kept((secret(KEY),)) for host in HOSTS})
    assert planned(wanted, "n1")["munge"] == [f"restored:{KEY}", "service:munge"]
    restored, service = (one for of, one in make_plan(wanted, HOSTS, PHASES).of_host("n1") if of.name == "munge")
    assert vars(restored) == {"path": KEY, "run": RUN, "secret": True}
    assert (vars(service)["watches"], vars(service)["followers"]) == ((KEY,), ("slurmd",))


def test_slurmctld_is_away_while_keys_are_exchanged_and_stays_where_they_are_back_already() -> None:
    wanted = past({host: Kept((secret(KEY),)) for host in HOSTS})
    assert planned(wanted, "c1")["daemons stop"] == ["service:slurmctld stop"]
    assert planned(wanted, "c1")["slurmctld"] == ["service:slurmctld"]
    assert "daemons stop" not in planned(wanted, "n1")
    back = past({host: Kept((dataclasses.replace(secret(KEY), is_back=True),)) for host in HOSTS})
    assert "daemons stop" not in planned(back, "c1")


@pytest.mark.parametrize("controller", [Kept(), Kept((absent(KEY),))])
def test_a_munge_key_that_the_controller_does_not_keep_stays_everywhere(controller: Kept) -> None:
    wanted = past({"c1": controller, "n1": Kept((secret(KEY),)), "n2": Kept((secret(KEY),))})
    assert all(planned(wanted, host)["munge"] == ["service:munge"] for host in HOSTS)


def test_other_files_go_back_in_the_order_of_their_names_and_before_all_daemons() -> None:
    wanted = past({"n1": Kept((text("/etc/ssh/ssh_known_hosts", ""), text("/etc/hosts", "127.0.0.1 x\n")))})
    assert next(iter(planned(wanted, "n1").items())) == (
        "files",
        ["restored:/etc/hosts", "restored:/etc/ssh/ssh_known_hosts"],
    )


def test_what_slurmd_runs_comes_before_slurm_conf_names_it_and_goes_after_that() -> None:
    back, gone = text("/etc/slurm/prolog.d/10-a", "#!/bin/sh\n"), absent("/usr/local/lib/slurmfab/epilog")
    wanted = past({"n1": Kept((text(CONF, BEFORE), back, gone, absent("/etc/slurm/epilog.d/10-b")))})
    phases = planned(wanted, "n1")
    assert phases["files"] == ["restored:/etc/slurm/prolog.d/10-a"]
    assert phases["former scripts"] == [
        "restored:/etc/slurm/epilog.d/10-b", "restored:/usr/local/lib/slurmfab/epilog",
    ]  # fmt: skip
    order = list(phases)
    assert order.index("files") < order.index("slurm.conf") < order.index("slurmd") < order.index("former scripts")


def test_a_gres_conf_that_was_not_there_goes_and_is_not_judged() -> None:
    wanted = past({"n1": Kept((text(CONF, BEFORE), absent("/etc/slurm/gres.conf")))})
    assert planned(wanted, "n1")["slurm.conf"] == ["slurm-files:/etc/slurm", "absent:/etc/slurm/gres.conf"]
    files = next(one for of, one in make_plan(wanted, HOSTS, PHASES).of_host("n1") if one.kind == "slurm-files")
    assert vars(files)["beside"] == ("cgroup.conf",)


def test_a_gres_conf_alone_is_judged_with_the_slurm_conf_that_stays() -> None:
    wanted = past({"n1": Kept((text("/etc/slurm/gres.conf", "Name=gpu\n"),))})
    files = resource(wanted, "n1", "slurm.conf")
    assert (files.files, files.beside) == ((("gres.conf", "Name=gpu\n"),), ("slurm.conf", "cgroup.conf"))


def test_a_file_of_slurms_that_is_secret_or_no_text_is_restored_on_the_host_itself() -> None:
    wanted = past({"n1": Kept((secret("/etc/slurm/slurmdbd.conf"), KeptFile("/etc/slurm/gres.conf", RUN)))})
    assert planned(wanted, "n1")["files"] == ["restored:/etc/slurm/gres.conf", "restored:/etc/slurm/slurmdbd.conf"]


def test_a_daemon_that_had_died_before_the_run_goes_on_running() -> None:
    wanted = past({"n1": Kept(services=(off("slurmd", enabled=True),))})
    assert planned(wanted, "n1")["slurmd"] == ["service:slurmd"]
    assert "daemons stop" not in planned(wanted, "n1")


def test_a_backup_controller_of_the_run_is_stopped_again() -> None:
    wanted = past({"n1": Kept(services=(off("slurmctld"),))})
    assert planned(wanted, "n1")["daemons stop"] == ["service:slurmctld stop"]


def first_deployment() -> Past:
    """What hosts keep that had packages installed, their daemons enabled by them and never started."""
    units = {"c1": ("slurmctld", "munge"), "n1": ("slurmd", "munge"), "n2": ("slurmd", "munge")}
    kept = {
        host: Kept((absent(CONF), secret(KEY)), tuple(off(unit, enabled=True) for unit in units[host]))
        for host in HOSTS
    }
    return past(kept, was_deployed=False)


def test_before_the_first_deployment_daemons_stop_while_their_files_are_there_and_munge_at_last() -> None:
    assert planned(first_deployment(), "n1") == {
        "daemons stop": ["service:slurmd stop"],
        "slurm.conf": [f"absent:{CONF}"],
        "munge stop": ["service:munge stop", f"restored:{KEY}"],
    }
    assert planned(first_deployment(), "c1")["daemons stop"] == ["service:slurmctld stop"]
    assert "nodes" not in planned(first_deployment(), "c1")


@pytest.mark.parametrize("slurm", ["22.05.8", "24.11.5"])
def test_a_cluster_gets_its_old_name_back_while_slurmctld_is_stopped(slurm: str) -> None:
    mark = "/var/lib/slurm/slurmctld/clustername"
    kept = Kept((text(CONF, BEFORE), text(mark, "lab")))
    wanted = past({"c1": kept}, slurm, conf=NOW.replace("=lab", "=other"))
    found = planned(wanted, "c1")
    assert found["slurmctld stop"] == ["service:slurmctld stop"]
    assert found["slurm.conf"] == [f"restored:{mark}", "slurm-files:/etc/slurm"]
    assert found["slurmctld start"] == ["service:slurmctld"]
    assert "files" not in found


def test_where_no_slurm_conf_is_left_nodes_go_and_no_setting_matters() -> None:
    assert {one.kind for one in first_deployment().differences} == {"node"}
    assert {one.name for one in past({"c1": Kept((text(CONF, BEFORE),))}).differences} == {"SlurmdTimeout"}


def test_before_the_first_deployment_a_cluster_made_by_hand_has_its_own_files_and_daemons_again() -> None:
    wanted = past({host: Kept((text(CONF, BEFORE),)) for host in HOSTS}, was_deployed=False)
    assert planned(wanted, "n1") == {
        "munge": ["service:munge"],
        "slurm.conf": ["slurm-files:/etc/slurm"],
        "slurmd": ["service:slurmd"],
    }
    assert planned(wanted, "c1")["slurmctld"] == ["service:slurmctld"]


def test_a_state_directory_that_had_moved_moves_back() -> None:
    before = text(CONF, BEFORE + "StateSaveLocation=/var/lib/old\n")
    wanted = past({host: Kept((before,)) for host in HOSTS}, conf=NOW + "StateSaveLocation=/srv/state\n")
    assert planned(wanted, "c1")["slurmctld stop"] == ["service:slurmctld stop"]
    assert planned(wanted, "c1")["slurm.conf"] == ["slurm-state:/var/lib/old", "slurm-files:/etc/slurm"]
    assert planned(wanted, "n1")["slurm.conf"] == ["slurm-files:/etc/slurm"]


def test_every_planned_resource_is_of_a_kind_that_the_agent_knows() -> None:
    plan = make_plan(first_deployment(), HOSTS, PHASES)
    assert {resource.kind for host in plan.hosts for _, resource in plan.of_host(host)} <= set(KINDS)


def test_the_controller_has_its_slurm_conf_before_anybody_else() -> None:
    assert [phase.name for phase in PHASES if phase.controller_first] == ["slurm.conf", "slurmctld", "slurmctld start"]
