"""The cluster that a backup is restored to, decided before any host is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest
from saved_archives import CLUSTER_TEXT, LOCK_TEXT, PARTS, archive
from support import FakeHosts, cluster, facts_of, plan_input, run_over
from terminals import at_a_terminal, words_on

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.commands.backup import restoring
from slurmfab.commands.backup.archive import Backup, verified
from slurmfab.commands.backup.restoring import RestoreOptions, inventory_for
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, STATE


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return verified(archive(tmp_path))


def test_without_a_cluster_file_the_backups_files_are_used(tmp_path: Path, backup: Backup) -> None:
    known = inventory_for(backup, tmp_path / "configs/cluster.yaml")
    assert (known.cluster.controller, known.lock.slurm) == ("c1", "24.11.5")
    assert not (tmp_path / "configs").exists()


def test_an_existing_cluster_file_is_used(tmp_path: Path, backup: Backup) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER_TEXT.replace("[c1]", "[c2]").replace("c1: 10", "c2: 10").replace(": c1", ": c2"))
    known = inventory_for(backup, path)
    assert known.cluster.controller == "c2"
    assert known.lock.slurm == "24.11.5"
    (tmp_path / "cluster.lock.json").write_text(LOCK_TEXT.replace("24.11.5", "24.11.6"))
    assert inventory_for(backup, path).lock.slurm == "24.11.6"


def test_a_backup_of_another_cluster_is_refused(tmp_path: Path, backup: Backup) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER_TEXT.replace("cluster: lab", "cluster: other"))
    with pytest.raises(InputError, match=r"a backup of the cluster lab, and .* describes other"):
        inventory_for(backup, path)


@pytest.mark.parametrize(
    ("missing", "words"), [(CLUSTER_FILE, "There is no cluster file"), (STATE, "holds no state of slurmctld, so")]
)
def test_a_backup_without_a_necessary_part_is_refused(tmp_path: Path, missing: str, words: str) -> None:
    parts = {name: content for name, content in PARTS.items() if name != missing}
    with pytest.raises(InputError, match=words):
        inventory_for(verified(archive(tmp_path, parts)), tmp_path / "configs/cluster.yaml")


class Claimed(Exception):
    """The restoration has begun."""


@pytest.mark.parametrize(("typed", "ends"), [("y\n", Claimed), ("\n", SlurmfabError)])
def test_a_restoration_when_somebody_can_answer_then_says_what_it_replaces_and_asks_before_it_begins(
    backup: Backup, monkeypatch: pytest.MonkeyPatch, typed: str, ends: type[Exception]
) -> None:
    def claim(_run: object) -> None:
        raise Claimed

    here = plan_input(cluster(), facts_of(cluster()))
    monkeypatch.setattr(restoring.converge, "survey", lambda *_, **__: (here, []))
    monkeypatch.setattr(restoring, "refuse", lambda *_: None)
    monkeypatch.setattr(restoring, "require_claim", claim)
    shown = at_a_terminal(monkeypatch, typed)
    run = run_over(FakeHosts({}), cluster(), command="restore", asks=True)
    with pytest.raises(ends):
        restoring.restore_hosts(run, backup, RestoreOptions(), JobSafety(run))
    assert f"munge key of lab become those of {backup.made}." in words_on(shown)
    assert "such as jobs, is lost" in words_on(shown)
    assert "Restore lab? [y/N]" in words_on(shown)
