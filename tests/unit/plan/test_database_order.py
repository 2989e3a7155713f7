"""When slurmctld has to get its number from slurmdbd, and when slurm.conf has to wait for slurmdbd."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.errors import DeployFailed
from slurmfab.core.plan.phases import daemons, database, slurm_conf
from slurmfab.core.plan.phases.database import joins_accounting, needs_slurmdbd, require_slurmdbd
from slurmfab.core.plan.plan_input import PlanInput

ON_C1 = f"{THREE_HOSTS}database: c1\n"


def text_of(said: str) -> str:
    """The slurm.conf that a cluster file leads to."""
    return dict(prepared_input(said).files)["slurm.conf"]


def after(before: str, said: str, **differing: object) -> PlanInput:
    """What is known when a cluster file is deployed where another one has been, or none."""
    conf = {"slurm_conf": text_of(before)} if before else {}
    there = {"services": {"slurmctld": "active"}} if before else {}
    return prepared_input(said, **{**conf, **there, **differing})


@pytest.mark.parametrize(
    ("before", "said", "joins", "needs"),
    [
        ("", ON_C1, False, True),
        (THREE_HOSTS, ON_C1, True, True),
        (ON_C1, ON_C1, False, False),
        (ON_C1, f"{THREE_HOSTS}database: d1\n", True, True),
        (ON_C1, THREE_HOSTS, False, False),
        (ON_C1, f"{ON_C1}slurm_conf: {{SlurmdTimeout: 301}}\n", False, False),
        (ON_C1, f"{ON_C1}slurm_conf: {{AccountingStorageEnforce: limits}}\n", False, True),
        (ON_C1, f"{ON_C1}partitions: [{{PartitionName: main, Nodes: ALL, Default: YES, QOS: normal}}]\n", False, True),
    ],
)
def test_a_change_of_slurm_conf_that_relies_on_slurmdbd_is_known(
    before: str, said: str, joins: bool, needs: bool
) -> None:
    wanted = after(before, said)
    assert (joins_accounting(wanted), needs_slurmdbd(wanted)) == (joins, needs)


def test_slurmfabs_own_partition_when_an_older_slurm_conf_lacks_it_relies_on_nothing_in_slurmdbd() -> None:
    older = "".join(line for line in text_of(ON_C1).splitlines(keepends=True) if "PartitionName=slurmfab" not in line)
    wanted = after(ON_C1, ON_C1, slurm_conf=older)
    assert [str(one) for one in wanted.differences if one.file == "slurm.conf"] == ["partition slurmfab: added"]
    assert not needs_slurmdbd(wanted)


def test_a_cluster_that_joins_has_its_mark_removed_while_slurmctld_is_stopped() -> None:
    wanted = after(THREE_HOSTS, ON_C1)
    assert [one.id for one in daemons.stop(wanted, "c1")] == ["slurmctld-pause:slurmctld"]
    assert "absent:/var/lib/slurm/slurmctld/clustername" in [one.id for one in slurm_conf.resources(wanted, "c1")]
    assert [one.id for one in daemons.start(wanted, "c1")] == ["service:slurmctld", "registration:lab"]


def test_a_first_deployment_leaves_the_mark_of_another_cluster_for_slurmctld_to_see() -> None:
    assert not any(
        one.kind == "absent" and "clustername" in one.id for one in slurm_conf.resources(after("", ON_C1), "c1")
    )


def test_the_databases_host_has_a_server_then_slurmdbd_and_others_have_nothing() -> None:
    wanted = after("", ON_C1)
    assert [one.id for one in database.resources(wanted, "c1")] == [
        "directory:/etc/slurm",
        "directory:/var/log/slurm",
        "file:/etc/mysql/mariadb.conf.d/60-slurmfab.cnf",
        "service:mariadb",
        "slurmdbd-conf:/etc/slurm/slurmdbd.conf",
        "storage:slurm_acct_db of slurm",
        "service:slurmdbd",
        "listening:slurmdbd:6819",
    ]
    assert database.resources(wanted, "n1") == ()


def test_an_external_database_is_tried_before_slurmdbd_conf_names_it() -> None:
    said = f"{THREE_HOSTS}database: {{host: c1, external: db, password_file: /p}}\n"
    assert [one.id for one in database.resources(after("", said), "c1")][2:4] == [
        "storage-login:slurm@db:3306",
        "slurmdbd-conf:/etc/slurm/slurmdbd.conf",
    ]


def test_a_slurmdbd_on_a_host_that_is_not_the_databases_any_more_stops() -> None:
    wanted = after("", f"{THREE_HOSTS}database: d1\n", services={"slurmdbd": "active"})
    (service,) = database.resources(wanted, "c1")
    assert (service.id, vars(service)["running"]) == ("service:slurmdbd", False)


def test_a_cluster_without_a_database_has_nothing_of_it() -> None:
    for host in ("c1", "n1"):
        assert database.resources(after("", THREE_HOSTS), host) == ()
    assert needs_slurmdbd(after("", THREE_HOSTS)) is False


@pytest.mark.parametrize(
    ("more", "kept", "kinds"),
    [
        ("database: c1\n", False, ["directory", "directory"]),
        ("database: c1\nguard_directories: false\n", True, ["directory", "directory"]),
        ("database: c1\nslurmdbd_conf: {LogFile: /srv/dbd/x.log}\n", False, ["directory"] * 3),
    ],
)
def test_directories_of_slurmdbd_are_guarded_unless_nobody_wants_that(more: str, kept: bool, kinds: list[str]) -> None:
    found = [one for one in database.resources(after("", THREE_HOSTS + more), "c1") if one.kind == "directory"]
    assert [one.kind for one in found] == kinds
    assert [getattr(one, "kept", False) for one in found[:2]] == [kept, kept]
    assert all(getattr(one, "kept", False) for one in found[2:])


@pytest.mark.parametrize(("settings", "has_file"), [("true", True), ("false", False)])
def test_mariadb_has_settings_of_slurmfab_unless_it_has_its_own(settings: str, has_file: bool) -> None:
    there = after("", f"{THREE_HOSTS}database: {{host: c1, settings: {settings}}}\n")
    found = [one.id for one in database.resources(there, "c1")]
    assert any(one.startswith("file:/etc/mysql") for one in found) is has_file
    assert "service:mariadb" in found


@pytest.mark.parametrize(
    ("before", "failed", "is_refused"),
    [("", ("d1",), True), ("", ("n1",), False), (f"{THREE_HOSTS}database: d1\n", ("d1",), False)],
)
def test_a_slurm_conf_that_relies_on_slurmdbd_is_not_installed_without_its_host(
    before: str, failed: tuple[str, ...], is_refused: bool
) -> None:
    there = after(before, f"{THREE_HOSTS}database: d1\n")
    if is_refused:
        with pytest.raises(DeployFailed, match="d1 is the host of the accounting database"):
            require_slurmdbd(there, failed)
    else:
        require_slurmdbd(there, failed)
