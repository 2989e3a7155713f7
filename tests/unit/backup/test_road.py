"""The phases of a restoration: what comes before the daemons start, on which host."""

from __future__ import annotations

from pathlib import Path

import pytest
from saved_archives import CLUSTER_TEXT, PARTS, archive
from support import cluster, facts_of, prepared, situation

from slurmfab.agent.kinds import KINDS, build
from slurmfab.agent.resource import as_request
from slurmfab.backup.archive import verified
from slurmfab.backup.road import Road
from slurmfab.plan import PHASES
from slurmfab.situation import Situation

APART = CLUSTER_TEXT.replace("database: c1", "database: d1")


def wanted(text: str = CLUSTER_TEXT) -> Situation:
    return situation(cluster(text), facts_of(cluster(text), prepared))


@pytest.fixture
def road(tmp_path: Path) -> Road:
    return Road(verified(archive(tmp_path)), "20261121T150000Z")


def ids(road: Road, text: str, phase: str, host: str) -> list[str]:
    """What one phase has a host do."""
    found = next(one for one in (*road.preparing, *road.rest) if one.name == phase)
    return [resource.id for resource in found.resources(wanted(text), host)]


def test_all_phases_of_a_deployment_are_gone_through_in_their_order(road: Road) -> None:
    names = [phase.name for phase in (*road.preparing, *road.rest)]
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


def test_the_daemons_that_write_to_what_is_replaced_are_stopped_first(road: Road) -> None:
    assert ids(road, CLUSTER_TEXT, "halt", "c1") == ["service:slurmctld", "service:slurmdbd"]
    assert ids(road, CLUSTER_TEXT, "halt", "n1") == []
    assert ids(road, APART, "halt", "d1") == ["service:slurmdbd"]


def test_the_data_go_where_they_belong(road: Road) -> None:
    assert ids(road, CLUSTER_TEXT, "restored data", "c1") == [
        "directory:/var/lib/slurm/slurmctld",
        "restored-state:/var/lib/slurm/slurmctld",
        "restored-database:slurm_acct_db",
        "directory:/etc/slurm",
        "restored-files:/etc/slurm",
    ]
    assert ids(road, APART, "restored data", "d1") == ["restored-database:slurm_acct_db"]
    assert ids(road, CLUSTER_TEXT, "restored data", "n1") == []


def test_slurmdbd_does_not_start_before_its_tables_are_there(road: Road) -> None:
    assert "service:mariadb" in ids(road, CLUSTER_TEXT, "database server", "c1")
    assert not [one for one in ids(road, CLUSTER_TEXT, "database server", "c1") if "slurmdbd" in one.split(":")[1:]]
    assert "service:slurmdbd" in ids(road, CLUSTER_TEXT, "database", "c1")


def test_the_munge_key_goes_to_the_controller_alone_as_a_secret(road: Road) -> None:
    phase = next(one for one in road.preparing if one.name == "restored key")
    (key,) = phase.resources(wanted(), "c1")
    assert (key.id, key.secrets()) == ("file:/etc/munge/munge.key", {"content"})
    assert phase.resources(wanted(), "n1") == ()
    assert "a2tra2tr" not in repr(key)


def test_a_database_that_is_somebody_elses_is_left_alone(road: Road) -> None:
    text = CLUSTER_TEXT.replace("database: c1", "database: {host: c1, external: db.example.org, password_file: pw}")
    assert not [one for one in ids(road, text, "restored data", "c1") if "database" in one]
    assert ids(road, text, "halt", "c1") == ["service:slurmctld"]


def test_a_part_that_the_backup_has_not_is_not_asked_for(tmp_path: Path) -> None:
    parts = {name: content for name, content in PARTS.items() if name not in ("database.sql.gz", "munge.key")}
    road = Road(verified(archive(tmp_path, parts)), "")
    assert not [one for one in ids(road, CLUSTER_TEXT, "restored data", "c1") if "database" in one]
    assert ids(road, CLUSTER_TEXT, "restored key", "c1") == []


def test_every_resource_of_a_restoration_travels_to_a_host_and_back(road: Road) -> None:
    for phase in (*road.preparing, *road.rest):
        for resource in phase.resources(wanted(), "c1"):
            assert resource.kind in KINDS
            assert build(as_request(resource)).id == resource.id
