"""The record of a run: begun before the first change, ended with the whole story, and not too many of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import MUNGE_KEY, THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import AnotherRun, DeployFailed, InputError, SlurmfabError, Unreachable
from slurmfab.base.exit_codes import LEFT_OUT
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.history import listing
from slurmfab.commands.history.rollback import undoing
from slurmfab.core.engine import record
from slurmfab.core.engine.converge import deploy
from slurmfab.core.engine.report import UNKNOWN, Step
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output, perform
from slurmfab.core.engine.summary import summary
from slurmfab.core.plan.plan import choose
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
CHANGED = Step("x", "n1", (Outcome("file:/etc/x", "changed", (Change("mode", "0600", "0644"),)),), 1.0)
CONF = "slurm-files:/etc/slurm"
DIRECTORY = "directory:/var/log/slurm"


def changing(requests: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The hosts that were asked to change anything."""
    return [host for host, one in requests if one["op"] == "apply" and not one["dry_run"] and one["resources"]]


@dataclass
class WatchedHosts(FakeHosts):
    """Hosts that look, at each request that may change them, whether the run is on record."""

    folder: Path = Path()

    def call(self, host: str, request: Mapping[str, Any], *rest: Any) -> Any:
        if changing([(host, request)]):
            (path,) = (self.folder / "lab.runs").iterdir()
            assert json.loads(path.read_text())["state"] == "unfinished"
        return super().call(host, request, *rest)


def recorded(folder: Path, hosts: FakeHosts | None = None, **more: Any) -> Run:
    """A run over a deployed cluster whose file lies in this folder."""
    path = folder / "lab.yaml"
    if not path.exists():
        path.write_text(THREE_HOSTS)
    return run_over(
        hosts or FakeHosts(facts_of(cluster(), prepared)),
        cluster(),
        lock=Lock(slurm="24.11.5"),
        path=path,
        **{"write_record": record.begin, "started": NOON, **more},
    )


def read(run: Run) -> dict[str, Any]:
    """The run's record."""
    plain: dict[str, Any] = json.loads(record.path_of(run).read_text())
    return plain


def names(folder: Path) -> list[str]:
    """The records that there are."""
    return sorted(path.name for path in folder.glob("lab.runs/*"))


def test_a_record_is_beside_its_cluster_file_with_user_command_and_time(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    record.finish(run)
    assert names(tmp_path) == ["20260102T120000.000000Z-deploy.json"]
    plain = read(run)
    assert (plain["command"], plain["cluster"], plain["begun"]) == ("deploy", "lab", "2026-01-02T12:00:00+00:00")
    assert (plain["run"], plain["state"]) == (run.id, "finished")
    assert "@" in plain["by"]


def test_a_run_is_recorded_before_it_changes_the_first_host(tmp_path: Path) -> None:
    hosts = WatchedHosts(facts_of(cluster(), prepared), {"c1": {CONF}, "n1": {CONF}, "n2": {CONF}}, folder=tmp_path)
    run = recorded(tmp_path, hosts)
    assert perform(run, Output(json=str(tmp_path / "report")), deploy) == 0
    assert changing(hosts.requests)
    plain = read(run)
    assert (plain["state"], {step["host"] for step in plain["steps"]}) == ("finished", {"c1", "n1", "n2"})


def test_the_record_is_updated_after_each_phase_that_changed_anything(
    tmp_path: Path,
) -> None:
    seen: list[list[str]] = []
    hosts = FakeHosts(facts_of(cluster(), prepared), {"n1": {CONF, "service:slurmd"}})
    run = recorded(tmp_path, hosts)
    hosts.when_changed = lambda _host, _id: seen.append([step["phase"] for step in read(run)["steps"]])
    perform(run, Output(json=str(tmp_path / "report")), deploy)
    assert seen == [[], ["slurm.conf"]]
    assert [step["phase"] for step in read(run)["steps"]] == ["slurm.conf", "slurmd"]


def test_a_record_that_cannot_be_updated_does_not_stop_the_run(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    run.update_record()
    assert names(tmp_path) == []
    run.before_change()
    record.path_of(run).unlink()
    (tmp_path / "lab.runs").rmdir()
    (tmp_path / "lab.runs").write_text("in the way")
    run.update_record()


def test_a_run_that_installs_python_is_recorded_before(tmp_path: Path) -> None:
    hosts = FakeHosts(facts_of(cluster(), prepared), without_python={"n1"})
    seen: list[bool] = []

    def write_record(run: Run) -> None:
        seen.append("n1" in hosts.without_python)
        record.begin(run)

    run = recorded(tmp_path, hosts, write_record=write_record)
    perform(run, Output(json=str(tmp_path / "report")), deploy)
    assert seen == [True]


def test_a_run_that_installs_python_on_the_controller_is_recorded_before_too(tmp_path: Path) -> None:
    hosts = FakeHosts(facts_of(cluster(), prepared), without_python={"c1"})
    seen: list[bool] = []

    def write_record(run: Run) -> None:
        seen.append("c1" in hosts.without_python)
        record.begin(run)

    perform(recorded(tmp_path, hosts, write_record=write_record), Output(json=str(tmp_path / "report")), deploy)
    assert seen[0] is True


def test_a_run_that_changes_nothing_and_excludes_no_host_has_no_record(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    perform(run, Output(json=str(tmp_path / "report")), deploy)
    assert names(tmp_path) == []
    perform(run, Output(json=str(tmp_path / "report")), Run.before_change)
    assert names(tmp_path) == []


def test_a_deployment_without_changes_after_an_interrupted_one_is_recorded(tmp_path: Path) -> None:
    cut_off = recorded(tmp_path)
    record.begin(cut_off)
    for minutes, is_kept in ((1, True), (2, False)):
        run = recorded(tmp_path, started=NOON + timedelta(minutes=minutes))
        record.finish(run)
        assert record.path_of(run).exists() is is_kept


def test_a_run_that_only_excludes_a_host_is_recorded(tmp_path: Path) -> None:
    run = recorded(tmp_path, failed_hosts={"n2": Unreachable("n2", "nothing listens.")})
    record.finish(run)
    assert read(run)["lost"] == {"n2": "nothing listens."}


def test_a_run_that_stops_early_records_the_reason(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])

    def stop(_: Run) -> None:
        raise DeployFailed("The controller is gone.")

    with pytest.raises(DeployFailed):
        perform(run, Output(), stop)
    assert (read(run)["state"], read(run)["error"]) == ("finished", "The controller is gone.")


@pytest.mark.parametrize(("has_changed", "left"), [(True, ["unfinished"]), (False, [])])
def test_an_interrupted_run_records_its_steps_and_is_unfinished(
    tmp_path: Path, has_changed: bool, left: list[str]
) -> None:
    run = recorded(tmp_path)

    def interrupt(run: Run) -> None:
        if has_changed:
            run.before_change()
            run.record_steps(CHANGED)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(run, Output(), interrupt)
    plain = [json.loads(path.read_text()) for path in tmp_path.glob("lab.runs/*")]
    assert [one["state"] for one in plain] == left
    assert all(len(one["steps"]) == 1 for one in plain)


def test_a_run_begins_its_record_once(tmp_path: Path) -> None:
    asked: list[Run] = []
    run = recorded(tmp_path, write_record=asked.append)
    run.before_change()
    run.before_change()
    assert asked == [run]


def test_a_record_that_cannot_be_begun_stops_the_run_before_any_change(tmp_path: Path) -> None:
    hosts = FakeHosts(facts_of(cluster(), prepared), {"c1": {CONF}})
    (tmp_path / "lab.runs").write_text("in the way")
    with pytest.raises(SlurmfabError, match="cannot be written"):
        perform(recorded(tmp_path, hosts), Output(), deploy)
    assert hosts.wrong == {"c1": {CONF}}
    assert changing(hosts.requests) == []


def test_a_record_holds_the_cluster_file_and_the_lock_at_the_end(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    run.before_change()
    locks.save(Lock(slurm="24.11.6"), loading.lock_path(run.inventory.path))
    run.inventory.path.write_text("# New.\n" + THREE_HOSTS)
    record.finish(run)
    plain = read(run)
    assert plain["cluster_file"] == "# New.\n" + THREE_HOSTS
    assert plain["lock"] == locks.values_of(Lock(slurm="24.11.6"))


@pytest.mark.parametrize(
    ("of_the_file", "mode", "of_the_folder"),
    [(0o600, 0o600, 0o700), (0o640, 0o600, 0o700), (0o644, 0o600, 0o700), (0o664, 0o660, 0o750)],
)
def test_a_record_is_for_those_alone_who_may_change_the_cluster_file_and_earlier_ones_become_so(
    tmp_path: Path, of_the_file: int, mode: int, of_the_folder: int
) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    run.inventory.path.chmod(of_the_file)
    folder = record.directory(run.inventory.path)
    folder.mkdir(mode=0o755)
    earlier, outside = folder / "20250101T000000Z.json", tmp_path / "outside"
    for path in (earlier, outside):
        path.write_text("{}")
        path.chmod(0o644)
    (folder / "link").symlink_to(outside)
    record.begin(run)
    found = [path.stat().st_mode & 0o777 for path in (record.path_of(run), folder, outside)]
    assert found == [mode, of_the_folder, 0o644]
    assert earlier.stat().st_mode & 0o007 == 0
    record.finish(run)
    assert record.path_of(run).stat().st_mode & 0o777 == mode


def test_only_the_newest_records_are_kept(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    written = []
    for number in range(record.MOST_RECORDS + 3):
        run.started = NOON + timedelta(seconds=number)
        record.finish(run)
        written.append(f"{run.id}.json")
    assert names(tmp_path) == written[3:]


def test_no_record_has_the_munge_key(tmp_path: Path) -> None:
    facts = facts_of(cluster(), prepared) | {"c1": prepared("c1", munge_key=MUNGE_KEY)}
    key = {"file:/etc/munge/munge.key"}
    hosts = FakeHosts(facts, wrong={"n1": set(key), "n2": set(key)}, failing={"n2": key})
    run = recorded(tmp_path, hosts)
    perform(run, Output(json=str(tmp_path / "report")), deploy)
    text = record.path_of(run).read_text()
    assert "file:/etc/munge/munge.key" in text
    assert MUNGE_KEY not in text


def test_a_record_that_cannot_be_written_is_an_error_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "lab.runs").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        record.finish(recorded(tmp_path, steps=[CHANGED]))


def test_a_record_when_read_again_is_the_run(tmp_path: Path) -> None:
    lost = {"n2": Unreachable("n2", "nothing listens.")}
    run = recorded(tmp_path, steps=[CHANGED], failed_hosts=lost, undoes="20260101T120000.000000Z-deploy")
    record.finish(run, "It stopped.")
    (one,), complaints = record.load_all(run.inventory.path)
    assert complaints == ()
    assert (one.run, one.command, one.begun, one.hosts) == (run.id, "deploy", NOON, ("c1", "n1", "n2"))
    assert (one.steps, one.lost, one.error, one.exit_code) == (
        (CHANGED,),
        {"n2": "nothing listens."},
        "It stopped.",
        3,
    )
    assert (one.cluster_file, one.undoes) == (THREE_HOSTS, "20260101T120000.000000Z-deploy")
    assert one.ended is not None


def test_a_record_of_an_older_slurmfab_is_read(tmp_path: Path) -> None:
    plain = {
        "slurmfab": "0.1.0", "ended": "2026-01-02T12:00:05+00:00", "by": "ann@laptop", "command": "deploy",
        "cluster": "lab", "hosts": ["c1"], "exit_code": 0, "seconds": 5.0, "lost": {}, "steps": [],
    }  # fmt: skip
    (tmp_path / "lab.runs").mkdir()
    (tmp_path / "lab.runs/20260102T120005.123456Z-deploy.json").write_text(json.dumps(plain))
    (one,), complaints = record.load_all(tmp_path / "lab.yaml")
    assert (one.run, one.cluster_file, complaints) == ("20260102T120005.123456Z-deploy", None, ())
    assert one.begun == datetime(2026, 1, 2, 12, 0, 5, 123456, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"command": "deploy"}', "null", "\xff"])
def test_a_file_that_is_not_a_record_is_named_and_ignored(tmp_path: Path, text: str) -> None:
    record.finish(recorded(tmp_path, steps=[CHANGED]))
    broken = tmp_path / "lab.runs/20260103T120000.000000Z-deploy.json"
    broken.write_bytes(text.encode("latin-1"))
    records, complaints = record.load_all(tmp_path / "lab.yaml")
    assert len(records) == 1
    (complaint,) = complaints
    assert complaint.startswith(f"{broken}: this file is not the record of a run and was ignored: ")
    assert complaint.endswith(", in line 1")


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    record.finish(recorded(tmp_path, steps=[CHANGED]))
    gone = tmp_path / "lab.runs/20260103T120000.000000Z-deploy.json"
    gone.mkdir()
    records, complaints = record.load_all(tmp_path / "lab.yaml")
    assert (len(records), complaints) == (1, (f"{gone}: cannot be read: Is a directory",))


@pytest.mark.parametrize(
    ("mode", "shared", "is_read"),
    [(0o600, 0o644, True), (0o644, 0o644, True), (0o660, 0o664, True), (0o660, 0o644, False), (0o666, 0o664, False)],
)
def test_a_record_that_somebody_may_change_who_may_not_change_the_cluster_file_is_named_and_ignored(
    tmp_path: Path, mode: int, shared: int, *, is_read: bool
) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    record.finish(run)
    path, folder = record.path_of(run), record.directory(run.inventory.path)
    run.inventory.path.chmod(shared)
    for place, bits in ((path, mode), (folder, mode | 0o100), (folder, 0o700)):
        path.chmod(0o600)
        place.chmod(bits)
        records, complaints = record.load_all(run.inventory.path)
        is_fit = is_read or bits == 0o700
        assert (len(records), len(complaints)) == ((1, 0) if is_fit else (0, 1))
        assert is_fit or f"others may write to {place} (mode " in complaints[0]


@pytest.mark.parametrize("what", ["record", "folder"])
def test_a_record_behind_a_link_is_named_and_ignored(tmp_path: Path, what: str) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    record.finish(run)
    place = record.path_of(run) if what == "record" else record.directory(run.inventory.path)
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    records, (complaint,) = record.load_all(run.inventory.path)
    assert (records, f"{place} is a link" in complaint) == ((), True)


@pytest.mark.needs_root("only root can give a file to another user")
@pytest.mark.parametrize("what", ["record", "folder"])
def test_a_record_of_another_user_is_named_and_ignored(tmp_path: Path, what: str) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    record.finish(run)
    place = record.path_of(run) if what == "record" else record.directory(run.inventory.path)
    os.chown(place, 4711, -1)
    records, (complaint,) = record.load_all(run.inventory.path)
    assert (records, f"{place} belongs to another user (UID 4711)" in complaint) == ((), True)


def test_keys_of_a_newer_slurmfab_are_ignored(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    record.finish(run)
    plain = read(run)
    plain["steps"][0]["outcomes"][0]["novelty"] = plain["novelty"] = 1
    record.path_of(run).write_text(json.dumps(plain))
    assert record.load_all(run.inventory.path)[0][0].steps == (CHANGED,)


def test_two_runs_in_one_second_have_two_records(tmp_path: Path) -> None:
    for microseconds in (1, 2):
        run = recorded(tmp_path, steps=[CHANGED])
        run.started = NOON + timedelta(microseconds=microseconds)
        record.finish(run)
    assert len(names(tmp_path)) == 2


def test_what_a_host_did_until_it_was_lost_is_in_the_report_and_the_record(tmp_path: Path) -> None:
    wrong = {"n1": {DIRECTORY, CONF}}
    run = recorded(tmp_path, FakeHosts(facts_of(cluster(), prepared), wrong=wrong, vanishing={"n1": CONF}))
    assert perform(run, Output(), deploy) == LEFT_OUT
    told = {(step.host, one.id): one.status for step in run.steps for one in step.outcomes if one.status != "ok"}
    assert told == {("n1", DIRECTORY): "changed", ("n1", CONF): UNKNOWN}
    assert "1 change on 3 hosts; not done: n1; perhaps changed: n1" in summary(run.report())
    (kept,), _ = record.load_all(run.inventory.path)
    assert [[one.status for one in step.outcomes] for step in kept.steps] == [["changed"], [UNKNOWN]]
    assert listing.changes_text(kept) == "1 directory on n1; perhaps more on n1"


@pytest.mark.parametrize("first", [CONF, DIRECTORY])
def test_a_run_whose_only_changes_were_on_a_host_that_was_lost_is_the_one_that_a_rollback_undoes(
    tmp_path: Path, first: str
) -> None:
    wrong = {"n1": {DIRECTORY, CONF}}
    perform(recorded(tmp_path, FakeHosts(facts_of(cluster(), prepared), wrong={"n1": {CONF}})), Output(), deploy)
    hosts = FakeHosts(facts_of(cluster(), prepared), wrong=wrong, vanishing={"n1": first})
    run = recorded(tmp_path, hosts, started=NOON + timedelta(hours=1))
    perform(run, Output(), deploy)
    records, _ = record.load_all(run.inventory.path)
    assert undoing.target_latest(records).run == run.id


def test_a_host_that_another_run_is_changing_was_changed_by_nobody_here(tmp_path: Path) -> None:
    hosts = HeldHosts(facts_of(cluster(), prepared), wrong={"n1": {CONF}})
    run = recorded(tmp_path, hosts)
    assert perform(run, Output(), deploy) == LEFT_OUT
    assert run.steps == []


class HeldHosts(FakeHosts):
    """Hosts of which n1 is locked by another run."""

    def call(self, host: str, request: Mapping[str, Any], *rest: Any) -> Any:
        if host == "n1" and changing([(host, request)]):
            raise AnotherRun(host, "ann@laptop")
        return super().call(host, request, *rest)


def test_a_record_is_read_back_with_the_times_of_its_steps(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    run.record_steps(replace(CHANGED, at=2.5))
    run.progress.note("x")
    record.finish(run)
    (back,), complaints = record.load_all(tmp_path / "lab.yaml")
    assert not complaints
    assert [step.at for step in back.steps] == [0.0, 2.5]
    assert [(at >= 0, doing) for at, doing in back.timeline] == [(True, "x")]
    assert back.seconds == read(run)["seconds"]


def test_a_record_of_an_earlier_version_is_read_without_times(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=[CHANGED])
    record.finish(run)
    plain = read(run)
    del plain["timeline"], plain["seconds"], plain["steps"][0]["at"]
    record.path_of(run).write_text(json.dumps(plain))
    (back,), _ = record.load_all(tmp_path / "lab.yaml")
    assert (back.timeline, back.seconds, [step.at for step in back.steps]) == ((), 0.0, [None])


@pytest.mark.parametrize(
    ("before", "options", "completes"),
    [
        ("unfinished", {}, True),
        ("finished", {}, False),
        ("", {}, False),
        ("broken", {}, False),
        ("unfinished", {"command": "update"}, False),
        ("unfinished", {"chosen": ("c1",)}, False),
        ("unfinished", {"only": choose(["slurm-conf"])}, False),
        ("unfinished", {"command": "rollback"}, True),
    ],
)
def test_a_run_completes_the_one_before_if_that_was_interrupted_and_it_is_about_all_hosts(
    before: str, options: dict[str, Any], completes: bool, tmp_path: Path
) -> None:
    first = recorded(tmp_path, steps=[CHANGED])
    if before in ("unfinished", "finished"):
        record.begin(first)
    if before == "finished":
        record.finish(first)
    if before == "broken":
        (tmp_path / "lab.runs").mkdir()
        (tmp_path / "lab.runs" / "20260103T120000.000000Z-deploy.json").write_text("{")
    run = run_over(
        FakeHosts({}), cluster(), options.get("chosen", ()), path=tmp_path / "lab.yaml",
        started=NOON + timedelta(minutes=1), command=options.get("command", "deploy"), only=options.get("only"),
    )  # fmt: skip
    assert record.completes_interrupted(run) is completes
