"""From words on the command line to a run: which hosts, which keys, which files."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from ssh_keys import ED25519, OTHER
from support import FakeHosts, cluster, run_over

from slurmfab.base.errors import DeployFailed, HostFailed, InputError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock, UpgradeUnderWay
from slurmfab.core.engine import lock_copy, record, session
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output, select_hosts
from slurmfab.on_hosts.agent.core.resource import Outcome

PATH = Path("configs/cluster.yaml")
CHANGED = Step("x", "n1", (Outcome("file:/etc/x", "changed"),), 1.0)
REPORT = Report("deploy", "lab", ("c1",), (), {}, 1.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without anything in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_selected_hosts_are_all_or_the_named_ones_in_the_clusters_order() -> None:
    assert select_hosts(cluster(), "", PATH) == ("c1", "n1", "n2")
    assert select_hosts(cluster(), "n2,c1", PATH) == ("c1", "n2")


def test_a_host_that_is_not_in_the_cluster_is_refused_with_advice() -> None:
    with pytest.raises(InputError, match=r"n\[3-4\]: not in configs/cluster\.yaml \(known: c1,n\[1-2\]\).*add-node"):
        select_hosts(cluster(), "n[1-4]", PATH)


def test_host_keys_in_the_lock_have_precedence_over_known_hosts(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/known_hosts").write_text(f"10.0.0.2 ssh-ed25519 {OTHER}\n")
    locked = Inventory(cluster(), Lock(hosts={"n1": HostLock(host_keys={"ssh-ed25519": ED25519})}), PATH)
    assert session.trusted_keys(locked, "n1") == {"ssh-ed25519": (ED25519,)}
    assert session.trusted_keys(Inventory(cluster(), Lock(), PATH), "n1") == {"ssh-ed25519": (OTHER,)}
    assert session.trusted_keys(Inventory(cluster(), Lock(), PATH), "n2") == {}


@pytest.mark.parametrize(("is_asked", "password"), [(True, "secret"), (False, None)])
def test_without_a_terminal_the_sudo_password_is_read_from_standard_input_if_asked_for(
    is_asked: bool, password: str | None
) -> None:
    asker = Output(ask_password=is_asked).asker(io.StringIO("secret\nmore\n"))
    assert (asker() if asker else None) == password


def test_json_goes_to_the_file_or_to_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=str(tmp_path / "report.json")).write_json(REPORT)
    assert json.loads((tmp_path / "report.json").read_text()) == as_json(REPORT)
    assert capsys.readouterr().out == ""
    Output(json="-").write_json(REPORT)
    assert json.loads(capsys.readouterr().out) == as_json(REPORT)


@dataclass
class ClosedHosts(FakeHosts):
    """Hosts that note the end of the connections to them."""

    closed: int = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("end", [None, DeployFailed("c1 is gone."), KeyboardInterrupt()], ids=["well", "error", "^C"])
def test_connections_are_closed_however_the_run_ends(tmp_path: Path, end: BaseException | None) -> None:
    def work(_: Run) -> None:
        if end:
            raise end

    hosts = ClosedHosts({})
    run = run_over(hosts, cluster(), path=tmp_path / "cluster.yaml")
    with pytest.raises(type(end)) if end else contextlib.nullcontext():
        session.perform(run, Output(json=str(tmp_path / "report")), work)
    assert hosts.closed == 1


def test_a_run_that_ends_early_says_what_failed_on_which_host(tmp_path: Path) -> None:
    def work(begun: Run) -> None:
        begun.exclude("n1", HostFailed("n1", "file:/etc/hosts: it is full"))
        raise DeployFailed("c1 is the controller.")

    shown = io.StringIO()
    run = run_over(FakeHosts({}), cluster(), path=tmp_path / "cluster.yaml", progress=Progress(shown))
    with pytest.raises(DeployFailed):
        session.perform(run, Output(json=str(tmp_path / "report")), work)
    assert shown.getvalue().splitlines()[-1] == "n1: file:/etc/hosts: it is full"


@pytest.mark.parametrize("is_held", [True, False])
def test_a_run_that_ends_well_is_summed_up_on_record_and_its_lock_kept_if_it_may_have_changed_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_held: bool
) -> None:
    kept = list[Run]()
    monkeypatch.setattr(lock_copy, "keep", kept.append)
    run = run_over(FakeHosts({}), cluster(), path=tmp_path / "lab.yaml", steps=[CHANGED])
    run.claim.is_held = is_held
    assert session.perform(run, Output(json=str(tmp_path / "report")), lambda _: None) == 0
    out = capsys.readouterr().out
    assert out.startswith("lab: 1 change")
    assert kept == [run] * is_held
    assert json.loads(record.path_of(run).read_text())["state"] == "finished"
    assert json.loads((tmp_path / "report").read_text())["exit_code"] == 0


def test_a_run_that_is_interrupted_stays_on_record_as_unfinished(tmp_path: Path) -> None:
    def work(_: Run) -> None:
        raise KeyboardInterrupt

    run = run_over(FakeHosts({}), cluster(), path=tmp_path / "lab.yaml", write_record=record.begin)
    run.before_change()
    record.path_of(run).unlink()
    with pytest.raises(KeyboardInterrupt):
        session.perform(run, Output(), work)
    assert json.loads(record.path_of(run).read_text())["state"] == "unfinished"


@pytest.mark.parametrize(("command", "is_told"), [("deploy", True), ("upgrade", False)])
def test_an_upgrade_that_is_under_way_is_told_by_all_other_commands(
    monkeypatch: pytest.MonkeyPatch, command: str, is_told: bool
) -> None:
    begun = UpgradeUnderWay("24.11", "25.11", "2026-01-02 12:00", "ann@laptop")
    shown = io.StringIO()
    monkeypatch.setattr(Output, "progress", lambda _: Progress(shown))
    session.progress_of(Inventory(cluster(), Lock(upgrade=begun), PATH), command, Output())
    words = "An upgrade of Slurm from 24.11 to 25.11 is under way (begun by ann@laptop, 2026-01-02 12:00)."
    assert (words in shown.getvalue()) is is_told


def test_the_lock_of_a_run_that_ends_early_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(_: Run) -> None:
        raise DeployFailed("c1 is gone.")

    kept = list[Run]()
    monkeypatch.setattr(lock_copy, "keep", kept.append)
    run = run_over(FakeHosts({}), cluster(), path=tmp_path / "lab.yaml")
    run.claim.is_held = True
    with pytest.raises(DeployFailed):
        session.perform(run, Output(), work)
    assert kept == [run]
