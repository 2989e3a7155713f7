"""A cluster file and a lock that others change while a run waits: nobody's change is undone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support import MUNGE_KEY, THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over, with_key

from slurmfab.base.errors import AnotherRun, FilesChanged, SlurmfabError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.people import users
from slurmfab.core.engine import file_writing, record
from slurmfab.core.engine.converge import deploy
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunHooks
from slurmfab.core.plan.pinned import pin
from slurmfab.on_hosts.agent.core.resource import Outcome

GROWN = THREE_HOSTS.replace("n[1-2]", "n[1-3]").replace("10.0.0.[2-3]", "10.0.0.[2-4]")
SLURMD = "service:slurmd"


def in_place(**more: Any) -> FakeHosts:
    facts = with_key()
    return FakeHosts(facts, **more)


def known_lock() -> Lock:
    return pin(cluster(), Lock(), in_place().facts)


def files(folder: Path, lock: Lock | None = None) -> Path:
    """The files of a cluster that was deployed."""
    path = folder / "cluster.yaml"
    path.write_text(THREE_HOSTS)
    locks.save(lock or known_lock(), loading.lock_path(path))
    return path


def loaded(folder: Path, hosts: FakeHosts, **more: Any) -> Run:
    """A run that has read its files, and begins."""
    known = loading.load(folder / "cluster.yaml")
    hooks = RunHooks(save_lock=file_writing.save_lock)
    run = run_over(hosts, known.cluster, lock=known.lock, path=known.path, hooks=hooks, **more)
    assert known.files is not None
    run.note_files(known.files)
    return run


def add_node(folder: Path, command: str = "add-node", by: str = "ann") -> str:
    """What the add-node of a colleague leaves in the directory; the id of that run."""
    path = folder / "cluster.yaml"
    path.write_text(GROWN)
    grown = cluster(GROWN)
    locks.save(pin(grown, known_lock(), facts_of(grown, prepared)), loading.lock_path(path))
    done = Step("users", "n3", (Outcome("user:slurm", "changed"),))
    theirs = run_over(in_place(), grown, ("n3",), path=path, command=command, steps=[done])
    record.finish(theirs)
    written = record.path_of(theirs)
    written.write_text(written.read_text().replace('"by": "', f'"by": "{by} as '))
    return theirs.id


def changes(hosts: FakeHosts) -> list[str]:
    return [host for host, one in hosts.requests if one["op"] == "apply" and not one["dry_run"] and one["resources"]]


def test_a_deployment_older_than_a_colleagues_add_node_stops_and_says_who_added_what(tmp_path: Path) -> None:
    path = files(tmp_path)
    hosts = in_place(wrong={"n1": {SLURMD}})
    run = loaded(tmp_path, hosts)
    theirs = add_node(tmp_path)
    before = {one.name: one.read_bytes() for one in (path, loading.lock_path(path))}
    with pytest.raises(FilesChanged) as stopped:
        deploy(run)
    said = str(stopped.value)
    assert f"{path} was changed at " in said
    assert f"{loading.lock_path(path)} was changed at " in said
    assert ": n3 joined" in said
    assert "by ann as " in said
    assert f": add-node on n3 ({theirs})" in said
    assert said.endswith("This run changed nothing. Run the same command again.")
    assert changes(hosts) == []
    assert {one.name: one.read_bytes() for one in (path, loading.lock_path(path))} == before
    assert stopped.value.exit_code == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(f"{THREE_HOSTS}# edited\n"),
        lambda path: path.unlink(),
        lambda path: loading.lock_path(path).unlink(),
        lambda path: locks.save(Lock(slurm="24.11.5"), loading.lock_path(path)),
    ],
    ids=["edited", "removed", "without lock", "other lock"],
)
def test_any_change_of_a_file_between_reading_and_the_claim_stops_the_run(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = files(tmp_path)
    hosts = in_place(wrong={"n1": {SLURMD}})
    run = loaded(tmp_path, hosts)
    change(path)
    with pytest.raises(FilesChanged, match="has changed since this run read it"):
        deploy(run)
    assert changes(hosts) == []


def test_an_older_run_on_record_is_not_named_as_the_one_that_changed_the_files(tmp_path: Path) -> None:
    path = files(tmp_path)
    old = run_over(in_place(), cluster(), path=path, steps=[Step("x", "n1", (Outcome("file:/x", "changed"),))])
    record.finish(old)
    written = record.path_of(old)
    ended = datetime.now(timezone.utc).isoformat(timespec="seconds")[:10]
    written.write_text(written.read_text().replace(f'"ended": "{ended}', '"ended": "2020-01-01'))
    run = loaded(tmp_path, in_place(wrong={"n1": {SLURMD}}))
    path.write_text(f"{THREE_HOSTS}# edited\n")
    with pytest.raises(FilesChanged) as stopped:
        deploy(run)
    assert old.id not in str(stopped.value)


def test_the_lock_is_written_only_under_the_claim(tmp_path: Path) -> None:
    files(tmp_path, Lock(slurm="24.11.5"))
    seen: list[bool] = []
    hosts = in_place()
    run = loaded(tmp_path, hosts)
    hosts.when_changed = lambda _host, _id: seen.append(run.claim.is_held)
    assert deploy(run).exit_code == 0
    assert hosts.of("c1") == ["facts", "compare", "claim"]
    assert loading.load(run.inventory.path).lock == known_lock()


def test_a_run_with_nothing_to_write_takes_no_claim(tmp_path: Path) -> None:
    files(tmp_path)
    hosts = in_place()
    deploy(loaded(tmp_path, hosts))
    assert hosts.of("c1") == ["facts", "compare"]


def test_a_lock_that_has_not_changed_is_not_written_and_holds_no_secret(tmp_path: Path) -> None:
    path = loading.lock_path(files(tmp_path, Lock(slurm="24.11.5")))
    run = loaded(tmp_path, in_place())
    deploy(run)
    before = path.stat()
    run.save_lock()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert MUNGE_KEY not in path.read_text()


@dataclasses.dataclass
class HeldHosts(FakeHosts):
    """Hosts whose controller is held by another run."""

    def call(self, host: str, request: Any, *rest: Any) -> Any:
        if request["op"] == "apply" and not request["dry_run"]:
            raise AnotherRun(host, "ann@laptop, fab add-node")
        return super().call(host, request, *rest)


def test_a_lock_is_not_written_while_another_run_has_the_claim(tmp_path: Path) -> None:
    path = files(tmp_path, Lock(slurm="24.11.5"))
    before = loading.lock_path(path).read_bytes()
    with pytest.raises(SlurmfabError, match="another run is changing this cluster"):
        deploy(loaded(tmp_path, HeldHosts(in_place().facts)))
    assert loading.lock_path(path).read_bytes() == before


def test_an_edit_of_the_cluster_file_during_a_run_is_kept_when_the_run_saves_its_lock(tmp_path: Path) -> None:
    path = files(tmp_path)
    hosts = in_place(wrong={"n1": {SLURMD}})
    hosts.when_changed = lambda _host, _id: path.write_text(f"{THREE_HOSTS}# edited\n") and None
    run = loaded(tmp_path, hosts)
    deploy(run)
    run.update_lock(dataclasses.replace(run.inventory.lock, leaving=("bob",)))
    run.save_lock()
    assert path.read_text().endswith("# edited\n")
    assert loading.load(path).lock.leaving == ("bob",)


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.lock.json"])
def test_a_file_that_is_edited_after_the_claim_is_not_overwritten(tmp_path: Path, name: str) -> None:
    path = files(tmp_path)
    run = loaded(tmp_path, in_place(wrong={"n1": {SLURMD}}))
    deploy(run)
    (tmp_path / name).write_text("# mine\n")
    with pytest.raises(FilesChanged, match="Nothing more was changed"):
        file_writing.write(run, GROWN, Lock())
    assert (tmp_path / name).read_text() == "# mine\n"
    assert path.read_text() != GROWN


def test_a_runs_own_writing_is_no_change_by_somebody_else(tmp_path: Path) -> None:
    path = files(tmp_path)
    run = loaded(tmp_path, in_place())
    file_writing.write(run, GROWN)
    file_writing.write(run, THREE_HOSTS)
    assert path.read_text() == THREE_HOSTS
    assert [one["op"] for _, one in run.transport.requests] == ["apply"]  # type: ignore[attr-defined]


def test_a_user_who_was_added_meanwhile_is_not_removed_by_an_older_add_user(tmp_path: Path) -> None:
    path = files(tmp_path)
    run = loaded(tmp_path, in_place(), command="add-user")
    with_ann = f"{THREE_HOSTS}users: [{{name: ann}}]\n"
    path.write_text(with_ann)
    with pytest.raises(FilesChanged):
        users.write(run, f"{THREE_HOSTS}users: [{{name: bob}}]\n")
    assert path.read_text() == with_ann
