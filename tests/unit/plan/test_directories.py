"""The directories of Slurm's daemons follow the ways of a site: spool, logs and ports elsewhere, by slurm_conf."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.base.paths import FORMER_SPOOL, SLURM_LOGS, SLURM_SPOOL, SLURMD_LOGS
from slurmfab.cluster.facts import Account
from slurmfab.cluster.inventory.health import Health
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.ports import port
from slurmfab.commands.checks.directories import owners
from slurmfab.commands.checks.wanted import spool_directory, with_logs
from slurmfab.core.plan.directories import (
    SLURM_LIBRARY,
    backup_directory,
    log_directory,
    log_files,
    logs_owner,
    private_directory,
    shared_directory,
    slurm_directory,
    slurmd_log,
    state_directory,
    unguarded,
)
from slurmfab.core.plan.phases import files, scripts, slurm_conf
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan import make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import configuration, hosts
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.files.root_log import RootLog

ELSEWHERE = """\
slurm_conf:
  SlurmdSpoolDir: /srv/slurmd/%n
  SlurmctldLogFile: /srv/log/slurmctld.log
  SlurmdLogFile: /srv/log/slurmd-%h.log
  SlurmctldPidFile: /run/own/slurmctld.pid
  SlurmdPort: 7018
slurmdbd_conf: {LogFile: /srv/dbd/slurmdbd.log}
database: c1
health: true
"""


def planned(more: str = ELSEWHERE) -> PlanInput:
    return prepared_input(THREE_HOSTS + more)


def directories(wanted: PlanInput, host: str) -> dict[str, tuple[str, bool]]:
    """User, and whether it stays as it is, by path of each directory in the phases about Slurm's files."""
    plan = make_plan(wanted, (host,))
    others = ("munge", "recovery")
    found: list[Any] = [
        one for phase, one in plan.of_host(host) if one.kind == "directory" and phase.name not in others
    ]
    return {one.path: (one.owner, one.kept) for one in found}


def test_directories_that_slurm_conf_names_are_made_where_they_are_missing_and_left_otherwise() -> None:
    wanted = planned()
    node, controller = directories(wanted, "n1"), directories(wanted, "c1")
    assert (node["/srv/slurmd/n1"], node["/srv/log"]) == (("root", True), ("root", True))
    assert (controller["/srv/log"], controller["/srv/dbd"]) == (("slurm", True), ("slurm", True))
    assert SLURM_SPOOL not in node


def test_slurmfabs_own_directories_have_slurmfabs_owners() -> None:
    assert directories(planned(""), "n1")[SLURM_SPOOL] == ("root", False)


def test_directories_that_nobody_guards_are_made_where_they_are_missing_and_nothing_else_is_set_right() -> None:
    wanted = planned("guard_directories: false\ndatabase: c1\n")
    for host in ("c1", "n1"):
        assert all(kept for _, kept in directories(wanted, host).values())
    kinds = {one.kind for host in ("c1", "n1") for _, one in make_plan(wanted, (host,)).of_host(host)}
    assert "root-log" not in kinds


def test_another_slurm_user_has_state_logs_and_slurmdbd_conf_with_its_own_group() -> None:
    known = cluster(f"{THREE_HOSTS}slurm_user: hpc\ndatabase: c1\n")
    facts = {
        host: dataclasses.replace(
            one, accounts={**one.accounts, "hpc": Account(1800, 50, "/", "/bin/sh")}, gids={**one.gids, 50: "staff"}
        )
        for host, one in facts_of(known, prepared).items()
    }
    wanted = plan_input(known, facts)
    of_controller = {one.id: one for _, one in make_plan(wanted, ("c1",)).of_host("c1")}
    state: Any = of_controller["directory:/var/lib/slurm/slurmctld"]
    slurmdbd: Any = of_controller["slurmdbd-conf:/etc/slurm/slurmdbd.conf"]
    assert {(state.owner, state.group), (slurmdbd.owner, slurmdbd.group)} == {("hpc", "staff")}
    assert "SlurmUser=hpc\n" in slurmdbd.content
    assert "SlurmUser=hpc\n" in wanted.rendered["slurm.conf"]
    assert directories(wanted, "c1")[SLURM_LOGS] == ("hpc", False)
    assert directories(wanted, "n1")[SLURM_LOGS] == ("root", False)


@pytest.mark.parametrize(("uid", "told"), [(None, "there is no user hpc"), (1801, "has UID 1801, and 1800 on c1")])
def test_a_host_without_the_slurm_user_or_with_another_uid_is_left_out(uid: int | None, told: str) -> None:
    known = cluster(f"{THREE_HOSTS}slurm_user: hpc\n")
    facts = facts_of(known, prepared)
    uids = {"c1": 1800, "n1": 1800, "n2": uid}
    accounts = {host: {"hpc": Account(one, one, "/", "/bin/sh")} if one else {} for host, one in uids.items()}
    facts = {host: dataclasses.replace(one, accounts={**one.accounts, **accounts[host]}) for host, one in facts.items()}
    found = hosts.unfit(known, facts)
    assert list(found) == ["n2"]
    assert told in found["n2"]


def test_another_slurm_user_than_that_of_slurm_conf_is_refused_with_what_to_do_by_hand() -> None:
    known = cluster()
    facts = facts_of(known, prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf="ClusterName=tiny\nSlurmUser=hpc\n")
    with pytest.raises(InputError, match="SlurmUser is hpc on c1, and slurm_user in the cluster file is slurm"):
        configuration.refuse_other_slurm_user(plan_input(known, facts))


def test_room_and_health_are_about_the_directory_that_slurmd_uses() -> None:
    wanted = planned()
    assert "/srv/slurmd/n1" in files.free_space(wanted, "n1").paths
    disk = json.loads(scripts.settings(wanted, "n1", Health()))["disk"]
    assert (disk["/srv/slurmd/n1"], SLURM_SPOOL in disk) == ("3%", False)
    own = json.loads(scripts.settings(wanted, "n1", Health(disk={SLURM_SPOOL: "1G"})))["disk"]
    assert own == {SLURM_SPOOL: "1G"}


@pytest.mark.parametrize(
    ("before", "deployed", "expected"),
    [
        ("", "", SLURM_SPOOL),
        ("SlurmdSpoolDir=/var/lib/slurm/slurmd\n", "", FORMER_SPOOL),
        ("SlurmdSpoolDir=/var/lib/slurm/slurmd\n", FORMER_SPOOL, FORMER_SPOOL),
        ("SlurmdSpoolDir=/var/lib/slurm/slurmd\n", SLURM_SPOOL, SLURM_SPOOL),
        ("  slurmdspooldir = /var/spool/slurmd/\n", FORMER_SPOOL, SLURM_SPOOL),
        ("SlurmdSpoolDir=/srv/slurmd\n", "", SLURM_SPOOL),
        ("ClusterName=x\n", FORMER_SPOOL, FORMER_SPOOL),
    ],
)
def test_slurmds_directory_stays_where_a_cluster_has_it_until_somebody_moves_it(
    before: str, deployed: str, expected: str
) -> None:
    known = cluster(THREE_HOSTS)
    facts = {**facts_of(known, prepared), "c1": prepared("c1", slurm_conf=before)}
    lock = dataclasses.replace(prepared_input(known).lock, spool=deployed)
    wanted = PlanInput(known, pin(known, lock, facts), facts)
    assert wanted.conf_wanted.settings["slurmdspooldir"] == expected
    assert directories(wanted, "n1")[expected] == ("root", False)
    assert (SLURM_LIBRARY in directories(wanted, "n1")) == (expected == FORMER_SPOOL)


def test_a_lock_of_an_earlier_slurmfab_has_the_former_directory() -> None:
    assert Lock(slurm="24.11.5").spool_directory == FORMER_SPOOL
    assert Lock().spool_directory == SLURM_SPOOL


def test_logs_of_slurmctld_are_slurms_only_where_it_may_run() -> None:
    wanted = planned("")
    assert directories(wanted, "c1")[SLURM_LOGS] == ("slurm", False)
    assert directories(wanted, "n1")[SLURM_LOGS] == ("root", False)
    assert directories(wanted, "n1")[SLURMD_LOGS] == ("root", False)
    assert SLURMD_LOGS not in directories(wanted, "c1")


def test_a_log_of_slurmd_elsewhere_is_watched_for_links_too() -> None:
    plan = make_plan(planned(), ("n1",))
    assert {one.name() for _, one in plan.of_host("n1") if one.kind == "root-log"} == {
        "/srv/log/slurmd-n1.log", "/var/log/slurm/slurmd.log"
    }  # fmt: skip


def test_a_log_of_slurmd_has_the_hosts_own_name_where_that_is_another() -> None:
    known = cluster(THREE_HOSTS + ELSEWHERE)
    facts = facts_of(known, prepared)
    facts["n1"] = dataclasses.replace(facts["n1"], hostname="other")
    there = plan_input(known, facts)
    assert slurmd_log(there, "n1") == "/srv/log/slurmd-other.log"
    assert slurmd_log(there, "c1") == "/srv/log/slurmd-c1.log"
    assert [path for path, _ in log_files(there, "n1")] == ["/srv/log/slurmd-other.log"]
    assert [path for path, _ in log_files(there, "c1")] == ["/srv/log/slurmctld.log", "/srv/dbd/slurmdbd.log"]


def test_without_a_line_slurms_own_default_counts() -> None:
    wanted = planned("slurm_conf: {SlurmdSpoolDir: null, SlurmdLogFile: null}\n")
    assert directories(wanted, "n1")["/var/spool/slurmd"] == ("root", False)


def test_checks_look_where_the_daemons_are() -> None:
    wanted = planned()
    assert spool_directory(wanted.cluster, wanted.lock, "n1") == "/srv/slurmd/n1"
    assert SLURM_SPOOL not in owners(wanted.cluster, "n1", "/srv/slurmd/n1")
    assert owners(wanted.cluster, "n1")[SLURM_SPOOL] == "root"


@pytest.mark.parametrize(("node", "expected"), [("n1", 7018), ("n2", 7100), ("", 7018)])
def test_a_slurmd_may_have_a_port_of_its_own(node: str, expected: int) -> None:
    text = THREE_HOSTS.replace('[{hosts: "n[1-2]"}]', "[{hosts: n1}, {hosts: n2, Port: 7100}]")
    assert port(cluster(f"{text}slurm_conf: {{SlurmdPort: 7018}}\n"), "SlurmdPort", node) == expected


@pytest.mark.parametrize(
    ("more", "host", "expected"),
    [
        (ELSEWHERE, "n1", "see /srv/log/slurmd-n1.log there"),
        (ELSEWHERE, "", "see /srv/log/slurmd-NODE.log there"),
        ("slurm_conf: {SlurmdLogFile: null}\n", "n1", "see `journalctl -u slurmd` there"),
        ("", "n1", "see /var/log/slurmd/slurmd.log there"),
    ],
)
def test_messages_name_the_logs_where_they_are(more: str, host: str, expected: str) -> None:
    wanted = planned(more)
    lock = dataclasses.replace(wanted.lock, slurm="24.11.5")
    assert with_logs("see /var/log/slurmd/slurmd.log there", wanted.cluster, lock, host) == expected
    repair = "Repair: slurm_conf: {SlurmdLogFile: /var/log/slurmd/slurmd.log}"
    assert with_logs(repair, wanted.cluster, lock, host) == repair


@pytest.mark.parametrize(
    ("more", "host", "user"),
    [("", "c1", "slurm"), ("", "n1", "root"), ("slurm_user: hpc\n", "c1", "hpc"), ("slurm_user: hpc\n", "n1", "root")],
)
def test_logs_belong_to_who_writes_them(more: str, host: str, user: str) -> None:
    known = cluster(THREE_HOSTS + more)
    assert logs_owner(known, host) == user
    there = PlanInput(known, pin(known, Lock(), {}), facts_of(known, prepared))
    found = log_directory(there, host)
    assert (found.owner, found.group) == (user, user)


def test_nobody_guards_logs_that_must_be_roots_where_that_is_not_wanted() -> None:
    guarded = (Directory("/a", "x", "y", 0o700, for_root=True), RootLog("/b"), Absent("/c"))
    first, last = unguarded(guarded)
    assert isinstance(first, Directory)
    assert (first.path, first.kept, first.for_root, first.mode) == ("/a", True, False, 0o700)
    assert last == Absent("/c")


def test_state_backups_and_directories_of_jobs_are_for_slurm_and_root_alone() -> None:
    assert state_directory("/s", ("slurm", "slurm")).mode == 0o700
    backup = backup_directory("/b")
    assert (backup.mode, backup.alone, backup.owner) == (0o700, True, "root")
    private = private_directory("/p")
    assert (private.mode, private.for_root, private.owner) == (0o755, True, "root")
    assert slurm_directory().mode == shared_directory("/x").mode == 0o755


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        ("", set()),
        ("slurm_conf: {SlurmdSpoolDir: /srv/slurm/spool}", {"SlurmdSpoolDir"}),
        ("slurm_conf: {SlurmdSpoolDir: /srv/slurm/%n}", {"SlurmdSpoolDir"}),
        ("slurm_conf: {SlurmdSpoolDir: /srv/slurm2}", set()),
        ("slurm_conf: {SlurmdLogFile: /srv/slurm/slurmd.log}", {"SlurmdLogFile"}),
        ("slurm_conf: {SlurmdPidFile: /srv/slurm/slurmd.pid}", {"SlurmdPidFile"}),
        ("slurm_conf: {SlurmctldPidFile: /srv/slurm/slurmctld.pid}", set()),
        ("slurm_conf: {TaskProlog: /srv/slurm/task.sh}", {"TaskProlog"}),
    ],
)
def test_the_state_directory_when_other_keys_have_files_in_it_then_is_compared_with_them(
    said: str, keys: set[str]
) -> None:
    both = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: [c1, n1]}]\nstate_directory: /srv/slurm\n"
    resources = slurm_conf.directories(prepared_input(both + said), "c1")
    (state,) = (one for one in resources if isinstance(one, Directory) and one.key == "StateSaveLocation")
    assert {key for key, path in state.used if f"{path}/".startswith("/srv/slurm/")} == keys
