"""What the plan of an upgrade refuses on the cluster's own hosts is told of a rehearsal, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.lock import HostLock, Lock, save
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.rehearse import refused
from slurmfab.commands.upgrade import planning
from slurmfab.commands.upgrade.plan import Target, UpgradePlan
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output


@pytest.fixture
def known(tmp_path: Path) -> loading.Inventory:
    path = tmp_path / "cluster.yaml"
    path.write_text("cluster: titanic\ncontrollers: [mn01]\nnodes: [{hosts: 'cn[01-04]'}]\n")
    names = ("mn01", "cn01", "cn02", "cn03", "cn04")
    save(Lock(slurm="24.11.5", hosts=dict.fromkeys(names, HostLock("x"))), loading.lock_path(path))
    return loading.load(path)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The versions and suites of the plans that were made: each refuses, and did not get an answer of one host."""
    found: list[tuple[str, str]] = []

    def plan(_run: Any, _wanted: Any, to: str, suite: str, **_options: Any) -> UpgradePlan:
        found.append((to, suite))
        target = Target("26.05.*", "", SlurmVersion(26, 5))
        return UpgradePlan(target, SlurmVersion(24, 11), {}, (), ("mn01: no room.",), silent={"cn03": "no route"})

    monkeypatch.setattr(planning, "made", plan)
    return found


def test_an_upgrade_when_the_clusters_own_hosts_refuse_it_then_that_is_found(
    known: loading.Inventory, planned: list[tuple[str, str]]
) -> None:
    found = refused.of_upgrade(known, ("upgrade", "--to", "26.05", "--at-once", "2"), Output())
    assert planned == [("26.05", "")]
    assert found.reasons == ("On the cluster itself, the upgrade is refused: mn01: no room.",)
    assert found.notes == ("cn03: no answer, so what the upgrade needs there is not known.",)


def test_another_command_asks_no_host(known: loading.Inventory, planned: list[tuple[str, str]]) -> None:
    assert refused.of_upgrade(known, ("deploy",), Output()) == refused.Refused()
    assert planned == []


def test_an_upgrade_when_nothing_says_where_it_leads_then_is_refused(known: loading.Inventory) -> None:
    with pytest.raises(InputError, match="Say where to"):
        refused.of_upgrade(known, ("upgrade",), Output())


def test_an_upgrade_when_the_controller_is_silent_then_its_room_is_not_known(
    known: loading.Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Run, *_values: Any, **_options: Any) -> UpgradePlan:
        run.exclude("mn01", HostError("mn01", "no route to host"))
        raise SlurmfabError("mn01 is the controller, so nothing else was started.")

    monkeypatch.setattr(planning, "made", fail)
    found = refused.of_upgrade(known, ("upgrade", "--to", "26.05"), Output())
    assert found.reasons == ()
    assert found.notes == ("Whether the cluster has room for the upgrade is not known: mn01: no route to host",)
