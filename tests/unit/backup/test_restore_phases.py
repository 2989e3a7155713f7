"""The phases of a restoration: what is restored before the daemons start, on which host."""

from __future__ import annotations

from pathlib import Path

import pytest
from saved_archives import CLUSTER_TEXT, PARTS, archive
from support import prepared_input

from slurmfab.commands.backup.archive import verified
from slurmfab.commands.backup.restoring import RestorePhases
from slurmfab.core.plan.plan import PHASES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import as_request
from slurmfab.on_hosts.agent.kinds import KINDS, build

APART = CLUSTER_TEXT.replace("database: c1", "database: d1")


def wanted(text: str = CLUSTER_TEXT) -> PlanInput:
    return prepared_input(text)


@pytest.fixture
def phases(tmp_path: Path) -> RestorePhases:
    return RestorePhases(verified(archive(tmp_path)), "20261121T150000Z")


def ids(phases: RestorePhases, text: str, phase: str, host: str) -> list[str]:
    """What one phase has a host do."""
    found = next(one for one in (*phases.preparing, *phases.rest) if one.name == phase)
    return [resource.id for resource in found.resources(wanted(text), host)]


def test_a_restoration_has_all_phases_of_a_deployment_in_their_order(phases: RestorePhases) -> None:
    names = [phase.name for phase in (*phases.preparing, *phases.rest)]
    known = [phase.name for phase in PHASES]
    assert sorted(name for name in names if name in known) == sorted(known)
    assert [name for name in names if name not in known] == ["halt", "restored key", "database server", "restored data"]
    assert names[0] == "halt"
    order = [
        "packages",
        "restored key",
        "munge key",
        "munge",
        "database server",
        "restored data",
        "database",
        "accounts",
    ]
    assert [name for name in names if name in order] == order
    assert names.index("restored data") < names.index("slurm.conf") < names.index("slurmctld")


def test_daemons_that_write_to_replaced_files_are_stopped_first(phases: RestorePhases) -> None:
    assert ids(phases, CLUSTER_TEXT, "halt", "c1") == ["service:slurmctld", "service:slurmdbd"]
    assert ids(phases, CLUSTER_TEXT, "halt", "n1") == []
    assert ids(phases, APART, "halt", "d1") == ["service:slurmdbd"]


def test_each_host_gets_the_data_of_its_roles(phases: RestorePhases) -> None:
    assert ids(phases, CLUSTER_TEXT, "restored data", "c1") == [
        "directory:/var/lib/slurm/slurmctld",
        "restored-state:/var/lib/slurm/slurmctld",
        "restored-database:slurm_acct_db",
        "directory:/etc/slurm",
        "restored-files:/etc/slurm",
    ]
    assert ids(phases, APART, "restored data", "d1") == ["restored-database:slurm_acct_db"]
    assert ids(phases, CLUSTER_TEXT, "restored data", "n1") == []


def test_slurmdbd_does_not_start_before_its_tables_are_there(phases: RestorePhases) -> None:
    assert "service:mariadb" in ids(phases, CLUSTER_TEXT, "database server", "c1")
    assert not [one for one in ids(phases, CLUSTER_TEXT, "database server", "c1") if "slurmdbd" in one.split(":")[1:]]
    assert "service:slurmdbd" in ids(phases, CLUSTER_TEXT, "database", "c1")


def test_the_munge_key_goes_to_the_controller_alone_as_a_secret(phases: RestorePhases) -> None:
    phase = next(one for one in phases.preparing if one.name == "restored key")
    (key,) = phase.resources(wanted(), "c1")
    assert (key.id, key.secrets()) == ("file:/etc/munge/munge.key", {"content"})
    assert phase.resources(wanted(), "n1") == ()
    assert "a2tra2tr" not in repr(key)


def test_an_external_database_is_not_restored(phases: RestorePhases) -> None:
    text = CLUSTER_TEXT.replace("database: c1", "database: {host: c1, external: db.example.org, password_file: pw}")
    assert not [one for one in ids(phases, text, "restored data", "c1") if "database" in one]
    assert ids(phases, text, "halt", "c1") == ["service:slurmctld"]


def test_parts_that_are_not_in_the_backup_are_not_restored(tmp_path: Path) -> None:
    parts = {name: content for name, content in PARTS.items() if name not in ("database.sql.gz", "munge.key")}
    phases = RestorePhases(verified(archive(tmp_path, parts)), "")
    assert not [one for one in ids(phases, CLUSTER_TEXT, "restored data", "c1") if "database" in one]
    assert ids(phases, CLUSTER_TEXT, "restored key", "c1") == []


def test_every_resource_of_a_restoration_can_be_sent_to_a_host(phases: RestorePhases) -> None:
    for phase in (*phases.preparing, *phases.rest):
        for resource in phase.resources(wanted(), "c1"):
            assert resource.kind in KINDS
            assert build(as_request(resource)).id == resource.id
