"""Plans of rollbacks as tables: undo states in, the resources of each host by phase out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from support import MUNGE_KEY, cluster, plan_input, prepared

from slurmfab.commands.history.rollback.plan_input import PHASES, RollbackInput
from slurmfab.commands.history.rollback.undo_state import SavedFile, SavedService, UndoState
from slurmfab.core.plan.phases.daemons import renewal
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.kinds import KINDS

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


def text(path: str, content: str) -> SavedFile:
    return SavedFile(path, RUN, content=content)


def absent(path: str) -> SavedFile:
    return SavedFile(path, RUN, existed=False)


def secret(path: str) -> SavedFile:
    return SavedFile(path, RUN, secret=True)


def off(unit: str, *, enabled: bool = False) -> SavedService:
    return SavedService(unit, RUN, enabled, running=False)


def rollback(
    undo_states: Mapping[str, UndoState], slurm: str = "24.11.5", *, was_deployed: bool = True, conf: str = NOW
) -> RollbackInput:
    """Three running hosts with the present slurm.conf, and their undo states."""
    facts = {host: prepared(host, slurm, services=ACTIVE[host]) for host in HOSTS}
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY, slurm_conf=conf)
    known = plan_input(cluster(), facts)
    return RollbackInput(known.cluster, known.lock, known.facts, undo_states=undo_states, was_deployed=was_deployed)


def planned(wanted: RollbackInput, host: str) -> dict[str, list[str]]:
    """The ids of a host's resources by phase, those of services with `stop` where they are to stop."""
    found: dict[str, list[str]] = {}
    for phase, resource in make_plan(wanted, HOSTS, PHASES).of_host(host):
        word = "" if getattr(resource, "running", True) else " stop"
        found.setdefault(phase.name, []).append(resource.id + word)
    return found


def resource(wanted: RollbackInput, host: str, phase: str) -> Any:
    (found,) = (one for of, one in make_plan(wanted, HOSTS, PHASES).of_host(host) if of.name == phase)
    return found


def test_a_host_without_undo_state_gets_no_file_and_only_running_daemons() -> None:
    assert planned(rollback({}), "c1") == {
        "munge": ["service:munge"],
        "slurmctld": ["service:slurmctld"],
        "nodes": ["slurm-nodes:n1,n2"],
    }
    assert planned(rollback({}), "n1") == {"munge": ["service:munge"], "slurmd": ["service:slurmd"]}


def test_a_node_that_says_it_had_files_of_slurms_elsewhere_then_that_is_about_this_node_alone() -> None:
    sshd = "/etc/ssh/sshd_config.d/slurmfab-users.conf"
    own = {host: UndoState((text(CONF, BEFORE), text(sshd, "AllowUsers ann\n"))) for host in HOSTS}
    liar = UndoState((*own["n1"].files, absent("/etc/ssh/sshd_config.d/slurm.conf")))
    honest, lied = rollback(own), rollback({**own, "n1": liar})
    for host in ("c1", "n2"):
        assert planned(lied, host) == planned(honest, host)
    assert lied.files == honest.files
    assert planned(lied, "n1") != planned(honest, "n1")


def test_a_changed_setting_is_rolled_back_as_the_installed_slurm_accepts_it() -> None:
    wanted = rollback({host: UndoState((text(CONF, BEFORE),)) for host in HOSTS})
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
    wanted = rollback({host: UndoState((text(CONF, BEFORE),)) for host in HOSTS}, slurm)
    assert "slurmctld stop" not in planned(wanted, "c1")
    assert planned(wanted, "c1")["slurmctld"] == ["service:slurmctld"]


@pytest.mark.parametrize(
    ("slurm", "stop", "start"),
    [("22.05.8", ["slurmctld-pause:slurmctld"], ["service:slurmctld"]), ("24.11.5", None, None)],
)
def test_a_change_of_nodes_stops_slurmctld_as_in_a_deployment(slurm: str, stop: Any, start: Any) -> None:
    wanted = rollback({host: UndoState((text(CONF, FEWER),)) for host in HOSTS}, slurm)
    assert wanted.changes_nodes
    assert planned(wanted, "c1").get("slurmctld stop") == stop
    assert planned(wanted, "c1").get("slurmctld start") == start


def test_daemons_and_timers_that_did_not_run_before_stop_first_and_others_stay() -> None:
    others = (SavedService("ssh", RUN), off("chrony", enabled=True), off("home.automount"), off("munge"))
    started = (off("docker-registry"), off("slurmfab-backup.timer"), *others)
    wanted = rollback({"n1": UndoState((absent("/etc/docker/registry/slurmfab.yml"),), started)}, was_deployed=False)
    found = planned(wanted, "n1")
    assert found["daemons stop"] == ["service:docker-registry stop", "service:slurmfab-backup.timer stop"]
    assert found["munge stop"] == ["service:munge stop"]
    assert list(found) == ["daemons stop", "files", "slurmd", "munge stop"]


def test_each_host_gets_its_own_saved_files() -> None:
    by_hand = BEFORE + "# by hand\n"
    wanted = rollback({"c1": UndoState((text(CONF, BEFORE),)), "n2": UndoState((text(CONF, by_hand),))})
    assert resource(wanted, "n2", "slurm.conf").files == (("slurm.conf", by_hand),)
    assert "slurm.conf" not in planned(wanted, "n1")


def test_a_munge_key_is_restored_from_the_hosts_undo_store_before_munged() -> None:
    wanted = rollback({host: UndoState((secret(KEY),)) for host in HOSTS})
    assert planned(wanted, "n1")["munge"] == [f"restored:{KEY}", "service:munge"]
    restored, service = (one for of, one in make_plan(wanted, HOSTS, PHASES).of_host("n1") if of.name == "munge")
    assert vars(restored) == {"path": KEY, "run": RUN, "secret": True}
    assert (vars(service)["watches"], vars(service)["followers"]) == ((KEY,), ("slurmd",))


def test_slurmctld_is_stopped_only_while_munge_keys_change() -> None:
    wanted = rollback({host: UndoState((secret(KEY),)) for host in HOSTS})
    assert planned(wanted, "c1")["daemons stop"] == ["slurmctld-pause:slurmctld"]
    assert planned(wanted, "c1")["slurmctld"] == ["service:slurmctld"]
    assert "daemons stop" not in planned(wanted, "n1")
    back = rollback({host: UndoState((dataclasses.replace(secret(KEY), is_back=True),)) for host in HOSTS})
    assert "daemons stop" not in planned(back, "c1")


@pytest.mark.parametrize("controller", [UndoState(), UndoState((absent(KEY),))])
def test_no_munge_key_is_restored_if_the_controller_has_no_saved_one(controller: UndoState) -> None:
    wanted = rollback({"c1": controller, "n1": UndoState((secret(KEY),)), "n2": UndoState((secret(KEY),))})
    assert all(planned(wanted, host)["munge"] == ["service:munge"] for host in HOSTS)


def test_other_files_are_restored_by_path_before_all_daemons() -> None:
    wanted = rollback({"n1": UndoState((text("/etc/ssh/ssh_known_hosts", ""), text("/etc/hosts", "127.0.0.1 x\n")))})
    assert next(iter(planned(wanted, "n1").items())) == (
        "files",
        ["restored:/etc/hosts", "restored:/etc/ssh/ssh_known_hosts"],
    )


def test_programs_of_slurmd_are_restored_before_slurm_conf_and_removed_after_it() -> None:
    back, gone = text("/etc/slurm/prolog.d/10-a", "#!/bin/sh\n"), absent("/usr/local/lib/slurmfab/epilog")
    wanted = rollback({"n1": UndoState((text(CONF, BEFORE), back, gone, absent("/etc/slurm/epilog.d/10-b")))})
    phases = planned(wanted, "n1")
    assert phases["files"] == ["restored:/etc/slurm/prolog.d/10-a"]
    assert phases["former scripts"] == [
        "restored:/etc/slurm/epilog.d/10-b", "restored:/usr/local/lib/slurmfab/epilog",
    ]  # fmt: skip
    order = list(phases)
    assert order.index("files") < order.index("slurm.conf") < order.index("slurmd") < order.index("former scripts")


def test_a_gres_conf_that_did_not_exist_is_removed_and_not_checked() -> None:
    wanted = rollback({"n1": UndoState((text(CONF, BEFORE), absent("/etc/slurm/gres.conf")))})
    assert planned(wanted, "n1")["slurm.conf"] == ["slurm-files:/etc/slurm", "absent:/etc/slurm/gres.conf"]
    files = next(one for of, one in make_plan(wanted, HOSTS, PHASES).of_host("n1") if one.kind == "slurm-files")
    assert vars(files)["beside"] == ("cgroup.conf",)


def test_a_gres_conf_alone_is_checked_with_the_present_slurm_conf() -> None:
    wanted = rollback({"n1": UndoState((text("/etc/slurm/gres.conf", "Name=gpu\n"),))})
    files = resource(wanted, "n1", "slurm.conf")
    assert (files.files, files.beside) == ((("gres.conf", "Name=gpu\n"),), ("slurm.conf", "cgroup.conf"))


def test_a_secret_or_binary_file_of_slurm_is_restored_on_the_host_itself() -> None:
    wanted = rollback({"n1": UndoState((secret("/etc/slurm/slurmdbd.conf"), SavedFile("/etc/slurm/gres.conf", RUN)))})
    assert planned(wanted, "n1")["files"] == ["restored:/etc/slurm/gres.conf", "restored:/etc/slurm/slurmdbd.conf"]


def test_a_daemon_that_had_died_before_the_run_keeps_running() -> None:
    wanted = rollback({"n1": UndoState(services=(off("slurmd", enabled=True),))})
    assert planned(wanted, "n1")["slurmd"] == ["service:slurmd"]
    assert "daemons stop" not in planned(wanted, "n1")


def test_a_backup_controller_of_the_run_is_stopped_again() -> None:
    wanted = rollback({"n1": UndoState(services=(off("slurmctld"),))})
    assert planned(wanted, "n1")["daemons stop"] == ["service:slurmctld stop"]


def first_deployment() -> RollbackInput:
    """Undo states of hosts on which packages had enabled the daemons, which never ran."""
    units = {"c1": ("slurmctld", "munge"), "n1": ("slurmd", "munge"), "n2": ("slurmd", "munge")}
    kept = {
        host: UndoState((absent(CONF), secret(KEY)), tuple(off(unit, enabled=True) for unit in units[host]))
        for host in HOSTS
    }
    return rollback(kept, was_deployed=False)


def test_undoing_the_first_deployment_stops_daemons_before_files_go_and_munged_last() -> None:
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
    kept = UndoState((text(CONF, BEFORE), text(mark, "lab")))
    wanted = rollback({"c1": kept}, slurm, conf=NOW.replace("=lab", "=other"))
    found = planned(wanted, "c1")
    assert found["slurmctld stop"] == ["slurmctld-pause:slurmctld"]
    assert found["slurm.conf"] == [f"restored:{mark}", "slurm-files:/etc/slurm"]
    assert found["slurmctld start"] == ["service:slurmctld"]
    assert "files" not in found


def test_without_a_slurm_conf_before_only_nodes_differ() -> None:
    assert {one.kind for one in first_deployment().differences} == {"node"}
    assert {one.name for one in rollback({"c1": UndoState((text(CONF, BEFORE),))}).differences} == {"SlurmdTimeout"}


def test_undoing_the_first_deployment_restores_a_cluster_made_by_hand() -> None:
    wanted = rollback({host: UndoState((text(CONF, BEFORE),)) for host in HOSTS}, was_deployed=False)
    assert planned(wanted, "n1") == {
        "munge": ["service:munge"],
        "slurm.conf": ["slurm-files:/etc/slurm"],
        "slurmd": ["service:slurmd"],
    }
    assert planned(wanted, "c1")["slurmctld"] == ["service:slurmctld"]


def test_a_moved_state_directory_is_moved_back() -> None:
    before = text(CONF, BEFORE + "StateSaveLocation=/var/lib/old\n")
    wanted = rollback({host: UndoState((before,)) for host in HOSTS}, conf=NOW + "StateSaveLocation=/srv/state\n")
    assert planned(wanted, "c1")["slurmctld stop"] == ["slurmctld-pause:slurmctld"]
    assert planned(wanted, "c1")["slurm.conf"] == ["slurm-state:/var/lib/old", "slurm-files:/etc/slurm"]
    assert planned(wanted, "n1")["slurm.conf"] == ["slurm-files:/etc/slurm"]


def test_every_planned_resource_is_of_a_kind_that_the_agent_knows() -> None:
    plan = make_plan(first_deployment(), HOSTS, PHASES)
    assert {resource.kind for host in plan.hosts for _, resource in plan.of_host(host)} <= set(KINDS)


def test_files_that_decide_who_may_log_in_are_restored_last_under_their_guard() -> None:
    saved = (text("/etc/pam.d/sshd", "before\n"), absent("/etc/pam.d/slurmfab-account"), text("/etc/hosts", "\n"))
    wanted = rollback({"n1": UndoState(saved)})
    assert planned(wanted, "n1")["files"] == ["restored:/etc/hosts"]
    assert planned(wanted, "n1")["node logins"] == ["login-guard:taken back", "earlier-logins:/etc/pam.d/sshd"]
    assert [phase.name for phase in PHASES if phase.guards_logins] == ["firewall", "directory", PHASES[-1].name]
    files = make_plan(wanted, HOSTS, PHASES).of_host("n1")[-1][1].files  # type: ignore[attr-defined]
    assert files == (("/etc/pam.d/sshd", RUN), ("/etc/pam.d/slurmfab-account", RUN))


def test_rules_of_the_firewall_are_restored_before_other_files_under_the_same_guard() -> None:
    saved = (text("/etc/slurmfab-firewall.nft", "before\n"), text("/etc/hosts", "\n"))
    wanted = rollback({"n1": UndoState(saved)})
    assert planned(wanted, "n1")["files"] == ["restored:/etc/hosts"]
    assert planned(wanted, "n1")["firewall"] == [
        "login-guard:taken back", "earlier-logins:/etc/slurmfab-firewall.nft",
    ]  # fmt: skip
    names = [phase.name for phase in PHASES]
    assert names.index("firewall") < names.index("files")


def test_the_controller_gets_its_slurm_conf_before_other_hosts() -> None:
    assert [phase.name for phase in PHASES if phase.controller_first] == ["slurm.conf", "slurmctld", "slurmctld start"]


SHARED = "/shared/etc/slurm.conf"


def linked(path: str, target: str, content: str) -> SavedFile:
    return SavedFile(path, RUN, content=content, link=target)


def shared_rollback(states: Mapping[str, UndoState], *, is_shared: bool) -> RollbackInput:
    """A rollback to a cluster file with a shared directory of Slurm's files, or without one."""
    wanted = rollback(states)
    place = "/shared/etc" if is_shared else None
    return dataclasses.replace(wanted, cluster=wanted.cluster.model_copy(update={"slurm_conf_directory": place}))


def test_a_shared_file_when_it_is_restored_then_the_controller_writes_it_and_other_hosts_read_it() -> None:
    wanted = shared_rollback({"c1": UndoState((text(SHARED, BEFORE),))}, is_shared=True)
    assert dict(wanted.files)["slurm.conf"] == BEFORE
    assert planned(wanted, "c1")["slurm.conf"] == ["slurm-files:/shared/etc"]
    assert planned(wanted, "n1")["slurm.conf"] == ["shared-files:/etc/slurm"]
    assert resource(wanted, "n1", "slurm.conf").files == (("slurm.conf", BEFORE),)
    assert [one.name for one in wanted.differences] == ["SlurmdTimeout"]


def test_links_when_they_took_the_place_of_files_then_the_files_come_first_and_the_shared_ones_go() -> None:
    own = {host: UndoState((text(CONF, BEFORE),)) for host in ("n1", "n2")}
    wanted = shared_rollback({**own, "c1": UndoState((text(CONF, BEFORE), absent(SHARED)))}, is_shared=False)
    assert dict(wanted.files)["slurm.conf"] == BEFORE
    assert planned(wanted, "c1")["slurm.conf"] == ["slurm-files:/etc/slurm", f"absent:{SHARED}"]
    assert planned(wanted, "n1")["slurm.conf"] == ["slurm-files:/etc/slurm"]


def test_files_when_they_took_the_place_of_links_then_the_links_come_back() -> None:
    states = {host: UndoState((linked(CONF, SHARED, BEFORE),)) for host in HOSTS}
    wanted = shared_rollback(states, is_shared=True)
    assert dict(wanted.files)["slurm.conf"] == BEFORE
    assert planned(wanted, "c1")["slurm.conf"] == [f"restored:{CONF}"]
    assert planned(wanted, "n1")["slurm.conf"] == [f"restored:{CONF}"]


def test_a_rollback_to_before_there_was_a_slurm_conf_then_says_that_daemons_do_not_start_again() -> None:
    wanted = rollback({host: UndoState((absent(CONF),)) for host in HOSTS})
    assert renewal(wanted, HOSTS) == "slurmctld on c1 and slurmd on n[1-2] stop, and do not start again."
    back = rollback({host: UndoState((text(CONF, BEFORE),)) for host in HOSTS})
    assert "do not start again" not in renewal(back, HOSTS)
