"""The lock of a deployed cluster that is not there: told before any host is asked, and put back from a record."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import DeployFailed, HostKeyUnknown, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.core.engine import lost_lock, missing_lock, session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.pinned import pin

LOCK = pin(cluster(), locks.Lock(), facts_of(cluster(), prepared))
OLDER, NEWER = "20261121T112423.829348Z-deploy", "20261122T112423.829348Z-deploy"
MESSAGE = "cluster.lock.json is missing, and this cluster has been deployed."


def deployed(folder: Path, **records: object) -> Path:
    """A cluster file without a lock.

    Args:
        folder: where it is made.
        records: what each record has as the lock, by the record's name.
    """
    path = folder / "cluster.yaml"
    path.write_text(THREE_HOSTS)
    (folder / "cluster.runs").mkdir()
    for name, lock in records.items():
        values = {"command": "deploy", "by": "ann@laptop", "hosts": ["c1"], "exit_code": 0, "steps": [], "lost": {}}
        (folder / f"cluster.runs/{name}.json").write_text(
            json.dumps({**values, "lock": lock, "ended": "2026-11-22T12:00:00+00:00"})
        )
    return path


def started(path: Path) -> None:
    session.start(loading.load(path), "", Output(), RunOptions("deploy"))


def restored(path: Path) -> int:
    return lost_lock.restore(str(path), Output(), from_controller=False, fingerprint="")


def values(lock: locks.Lock = LOCK) -> object:
    return json.loads(locks.text_of(lock))


def test_a_run_without_the_lock_of_a_deployed_cluster_then_names_the_record_that_has_it(tmp_path: Path) -> None:
    path = deployed(tmp_path, **{OLDER: values(), NEWER: values()})
    with pytest.raises(InputError) as refused:
        started(path)
    assert MESSAGE in str(refused.value)
    assert f"the record of {NEWER} by ann@laptop. To put that back: fab restore-lock. Nothing" in str(refused.value)


def test_a_lock_in_git_then_is_told_too(tmp_path: Path) -> None:
    path = deployed(tmp_path, **{NEWER: values()})
    lock = tmp_path / "cluster.lock.json"
    lock.touch()
    git = ("git", "-C", str(tmp_path), "-c", "user.name=ann", "-c", "user.email=ann@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "lock")):
        subprocess.run([*git, *words], check=True)
    lock.unlink()
    with pytest.raises(InputError, match=r"Git has one too: git checkout HEAD -- .*cluster\.lock\.json\."):
        started(path)


@pytest.mark.parametrize(
    "records", [{}, {NEWER: None}, {NEWER: {"hosts": 7}}], ids=["no-record", "without-a-lock", "a-broken-lock"]
)
def test_a_cluster_whose_records_have_no_lock_then_begins_anew(tmp_path: Path, records: dict[str, object]) -> None:
    path = deployed(tmp_path, **records)
    started(path)
    with pytest.raises(InputError, match=r"No record in .* has a lock"):
        restored(path)


def test_a_missing_lock_when_put_back_then_is_that_of_the_newest_record_and_runs_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = locks.without_hosts(LOCK, ["n2"])
    path = deployed(tmp_path, **{OLDER: values(), NEWER: values(newer), f"{NEWER}2": {"hosts": 7}})
    assert restored(path) == 0
    assert f"cluster.lock.json as the record of {NEWER} by ann@laptop has it." in capsys.readouterr().out
    assert loading.load(path).lock == newer
    started(path)


def test_a_lock_that_is_there_then_stays_whatever_it_has(tmp_path: Path) -> None:
    path = deployed(tmp_path, **{NEWER: values()})
    (tmp_path / "cluster.lock.json").write_text("{}")
    with pytest.raises(InputError, match="is there; nothing was changed"):
        restored(path)
    assert (tmp_path / "cluster.lock.json").read_text() == "{}"


@pytest.mark.parametrize(("lock", "told"), [(locks.Lock(), True), (LOCK, False)], ids=["without-a-lock", "with-one"])
def test_a_controller_with_an_unknown_key_then_is_not_to_be_accepted_if_only_the_lock_is_missing(
    lock: locks.Lock, told: bool
) -> None:
    run = run_over(FakeHosts(facts_of(cluster())), cluster(), lock=lock)
    run.exclude("c1", HostKeyUnknown("c1", "ssh-ed25519", "AAAA", "SHA256:x"))
    with pytest.raises(DeployFailed, match="c1 is the controller") as ended:
        run.require_controller()
    assert ("do not accept keys: its lock has the right ones." in str(ended.value)) == told


def test_a_lock_that_the_last_commit_has_is_found_there(tmp_path: Path) -> None:
    lock = tmp_path / "cluster.lock.json"
    assert missing_lock.is_in_git(lock) is False
    git = ("git", "-C", str(tmp_path), "-c", "user.name=ann", "-c", "user.email=ann@example.org")
    subprocess.run([*git, "init", "-q"], check=True)
    assert missing_lock.is_in_git(lock) is False
    lock.write_text("{}")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    lock.unlink()
    assert missing_lock.is_in_git(lock) is True
    assert missing_lock.is_in_git(tmp_path / "other.json") is False
