"""What an upgrade waits for, goes on with, and proves: the conversion, a backup's dump, hosts that are left."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import FakeHosts, cluster, prepared, run_over

from slurmfab.base.archive import Part
from slurmfab.base.errors import DeployFailed, HostError, SlurmfabError, Unreachable
from slurmfab.base.exit_codes import DONE, FAILURE, NOT_ALL_CHECKED
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock, UpgradeUnderWay
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.upgrade import conversion, proof, refusals, running, under_way
from slurmfab.commands.upgrade.changes import Changes
from slurmfab.commands.upgrade.plan import HostVersions, Target, UpgradePlan, UpgradeStep
from slurmfab.commands.upgrade.running import UpgradeOptions
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.backup.archive import DATABASE
from slurmfab.on_hosts.agent.core.resource import Outcome
from slurmfab.on_hosts.agent.upgrade.proved_dump import ProvedDump

SITE = "cluster: lab\ncontrollers: [c1]\ndatabase: {host: c1}\nnodes: [{hosts: n1}]\n"
DONE_STATE = {"state": "done", "table": "", "seconds": 0, "percent": -1, "words": []}
AT_WORK = {**DONE_STATE, "state": "converting", "table": "lab_job_table", "seconds": 3}


@dataclass
class Converting(FakeHosts):
    """A host whose slurmdbd converts its database.

    Args:
        answers: what it tells, one after the other; `None` for silence.
        asked: the questions.
    """

    answers: Iterator[Mapping[str, Any] | None] = field(default_factory=lambda: iter(()))
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def call(self, host: str, request: Mapping[str, Any], *heard: Any) -> tuple[Line, ...]:
        if request["op"] != "conversion":
            return super().call(host, request, *heard)
        self.asked.append(request)
        answer = next(self.answers)
        if answer is None:
            raise Unreachable(host, "nothing listens at port 22.")
        return ({"conversion": answer},)


def waited(*answers: Mapping[str, Any] | None) -> tuple[list[str], Converting]:
    """What is told of a conversion, and the host."""
    hosts, out = Converting({}, answers=iter(answers)), io.StringIO()
    run = run_over(hosts, cluster(SITE), progress=Progress(out))
    conversion.wait(run, "c1", lambda _: None)
    return out.getvalue().splitlines(), hosts


def test_a_conversion_is_waited_for_over_a_hosts_silence_and_each_table_is_told_once() -> None:
    other = {**AT_WORK, "table": "lab_step_table", "percent": 40}
    told, hosts = waited(AT_WORK, {**AT_WORK, "seconds": 4}, None, other, {**other, "percent": 60}, DONE_STATE)
    assert [line for line in told if "converts" in line] == [
        "c1: slurmdbd converts its database: lab_job_table, for 3 s.",
        "c1: slurmdbd converts its database: lab_step_table, for 3 s, 40% done.",
    ]
    assert [line for line in told if "slurmdbd answers, after 0 s" in line]
    assert {(one["port"], one["database"]) for one in hosts.asked} == {(6819, "slurm_acct_db")}
    assert not [line for line in waited(DONE_STATE)[0] if "answers" in line]


def test_a_conversion_when_the_host_is_silent_for_minutes_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversion, "SILENCE_SECONDS", -1.0)
    with pytest.raises(HostError, match="nothing listens"):
        waited(AT_WORK, None, DONE_STATE)


def test_a_conversion_when_slurmdbd_ends_is_told_with_its_words_and_the_way_on() -> None:
    with pytest.raises(DeployFailed, match=r"converted its database: no space left\. .*run the same command again"):
        waited({**DONE_STATE, "state": "ended", "words": ["no space left"]})
    with pytest.raises(DeployFailed, match="it left no message"):
        waited({**DONE_STATE, "state": "ended"})


@dataclass
class Proving(FakeHosts):
    """A host that proves a dump, with this outcome."""

    status: str = "changed"
    message: str = ""

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Any:
        for outcome in super().outcomes(host, request):
            yield {**outcome, "status": self.status, "message": self.message}


def proved(monkeypatch: pytest.MonkeyPatch, status: str, message: str, text: str = SITE) -> tuple[str, Run, list[str]]:
    """What the proof of a dump says, the run, and what was sent and cleared."""
    done: list[str] = []
    monkeypatch.setattr(proof.restoring, "send_parts", lambda *words: done.append(f"send {words[1]} {words[3]}"))
    monkeypatch.setattr(proof.restoring, "request_step", lambda *words: done.append(f"{words[3]['do']} {words[1]}"))
    run = run_over(Proving({"c1": prepared("c1")}, status=status, message=message), cluster(text), command="upgrade")
    parts = {DATABASE: Part(1, "ab" * 32, 0, Path("dump"))}
    backup = Backup(Path("x.tar"), "cd" * 32, "lab", "24.11.5", "now", "ann@here", parts=parts)
    return proof.proof(run, backup, {"a": 1, "b": 2}, ProvedDump("slurm_acct_db", "", "")), run, done


def test_a_proof_says_what_was_loaded_and_how_long_its_conversion_took(monkeypatch: pytest.MonkeyPatch) -> None:
    text, run, done = proved(monkeypatch, "changed", "the new slurmdbd converted it in 3 s")
    assert text == ("its dump was loaded on c1 and has the rows of all 2 tables; the new slurmdbd converted it in 3 s")
    assert done == [f"send c1 ('{DATABASE}',)", "clear c1"]
    assert [(step.phase, step.host) for step in run.steps] == [("proof", "c1")]
    assert proved(monkeypatch, "changed", "")[0] == "its dump was loaded on c1 and has the rows of all 2 tables"


def test_a_proof_without_room_says_so_and_one_that_fails_ends_the_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proved(monkeypatch, "ok", "no room")[0] == "its dump was NOT loaded on c1: no room"
    with pytest.raises(DeployFailed, match=r"c1: the backup is not proved: it differs\. Nothing was upgraded"):
        proved(monkeypatch, "failed", "it differs")
    nothing = SITE.replace("database: {host: c1}\n", "")
    assert proved(monkeypatch, "ok", "", nothing)[0] == "there is no accounting database"
    elsewhere = SITE.replace("{host: c1}", "{host: c1, external: 10.0.0.9, password_file: pw}")
    assert "may make none there" in proved(monkeypatch, "ok", "", elsewhere)[0]


def test_the_proof_of_a_dump_has_packages_only_where_the_series_changes() -> None:
    def packages(new: str) -> tuple[str, ...]:
        there = HostVersions({"slurmdbd": "24.11.5-4"}, offered={"slurmdbd": new}, others={"libx": "1"})
        return Changes(cluster(SITE), {"c1": there}, "26.05", "/state").proved_dump().packages

    assert packages("26.05.5-1") == ("slurmdbd=26.05.5-1", "libx=1")
    assert packages("24.11.6-1") == ()


def test_a_backup_of_the_upgrade_counts_as_long_as_its_file_is_there(tmp_path: Path) -> None:
    def known(backup: str) -> Path | None:
        record = UpgradeUnderWay("24.11.5", "26.05.*", "now", "ann", backup)
        return under_way.backup_of(run_over(FakeHosts({}), cluster(SITE), (), Lock(upgrade=record), path=path))

    path = tmp_path / "lab.yaml"
    (tmp_path / "lab.backups").mkdir()
    (tmp_path / "lab.backups" / "one.tar").touch()
    assert known("one.tar") == tmp_path / "lab.backups" / "one.tar"
    assert (known("two.tar"), known(""), known("../lab.backups/one.tar")) == (None, None, None)


def test_hosts_that_would_get_another_series_than_others_are_told_by_version() -> None:
    old = HostVersions({"slurmd": "24.11.5-4"}, {"slurmd": "24.11.5"})
    new = HostVersions(offered={"slurmd": "26.05.5-1"})
    told = list(refusals.of_uneven_offers({"n1": old, "n2": new, "n3": new}))
    assert [text.partition(" Name")[0] for text in told] == [
        "The hosts would not have the same Slurm afterwards (n1: 24.11; n[2-3]: 26.05)."
    ]
    assert list(refusals.of_uneven_offers({"n2": new, "n3": new})) == []
    assert list(refusals.of_uneven_offers({"n1": old, "n2": dataclasses.replace(new, offered={}, programs={})})) == []


def plan(*steps: UpgradeStep, silent: Mapping[str, str] | None = None) -> UpgradePlan:
    """A plan to 26.05."""
    target, there = Target("26.05.*", "", SlurmVersion(26, 5)), {"c1": HostVersions({"slurmctld": "26.05.5-1"})}
    return UpgradePlan(target, SlurmVersion(24, 11), there, steps, silent=silent or {})


@pytest.mark.parametrize(
    ("again", "told"),
    [
        (plan(UpgradeStep("nodes", ("n1",), {}, {}, "")), "Still to be upgraded: n1. To go on: fab upgrade."),
        (plan(silent={"n1": "it is off"}), "Still to be upgraded: n1. To go on: fab upgrade."),
    ],
)
def test_hosts_that_are_left_are_told_and_the_upgrade_stays_under_way(
    again: UpgradePlan, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    run = run_over(FakeHosts({}), cluster(SITE), progress=Progress(out))
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: again)
    assert running.finish(run, plan(), SlurmPackages(version="26.05.*")) is False
    assert told in out.getvalue()


def test_a_plan_that_has_nothing_to_do_takes_no_time() -> None:
    assert plan().seconds == (0.0, 0.0)
    assert plan(UpgradeStep("nodes", ("n1",), {}, {}, "")).seconds == (30.0, 300.0)


@pytest.mark.parametrize(
    ("finished", "code", "checked", "ends"),
    [
        (True, DONE, DONE, DONE),
        (True, DONE, NOT_ALL_CHECKED, DONE),
        (True, DONE, FAILURE, FAILURE),
        (False, DONE, FAILURE, DONE),
        (True, FAILURE, DONE, FAILURE),
    ],
)
def test_an_upgrade_is_checked_when_it_is_done_and_ends_with_what_was_found(
    finished: bool, code: int, checked: int, ends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock(upgrade=UpgradeUnderWay("24.11.5", "26.05.*", "now", "ann"))
    known = Inventory(cluster(SITE), lock, Path("lab.yaml"))
    begun: list[Any] = []
    monkeypatch.setattr(running.loading, "load_named", lambda _: known)
    monkeypatch.setattr(running.session, "start", lambda *words: begun.append(words) or "run")
    monkeypatch.setattr(running.session, "perform", lambda run, _, work: (work(run), code)[1])
    monkeypatch.setattr(running, "carry_out", lambda *words: begun.append(words) or finished)
    monkeypatch.setattr(running.runner, "check", lambda *_, writes_json: FAILURE if writes_json else checked)
    assert running.upgrade("", UpgradeOptions(), Output()) == ends
    (_, _, _, asked), (run, wanted, options, chosen, _) = begun
    assert (asked.command, asked.asks, run) == ("upgrade", True, "run")
    assert (wanted.version, options.to, chosen) == ("26.05.*", "26.05", frozenset({"c1", "n1"}))
    running.upgrade("", UpgradeOptions(to="26.05.5", yes=True), Output())
    assert (begun[2][3].asks, begun[3][1].version) == (False, "26.05.5")


def test_nodes_are_upgraded_in_batches_of_a_part_of_all_compute_nodes() -> None:
    site = cluster('cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-4]"}]\n')
    there = Changes(site, {}, "26.05", "/state", at_once="50%")
    assert list(there.batches(("n1", "n2", "n3"))) == [("n1", "n2"), ("n3",)]


def test_a_backup_is_made_once_for_an_upgrade_and_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, out, made = tmp_path / "lab.yaml", io.StringIO(), list[ProvedDump]()
    (tmp_path / "lab.backups").mkdir()
    there = HostVersions({"slurmdbd": "24.11.5-4"}, offered={"slurmdbd": "26.05.5-1"})
    wanted = dataclasses.replace(plan(), hosts={"c1": there})
    record = UpgradeUnderWay("24.11.5", "26.05.*", "now", "ann")
    run = run_over(FakeHosts({}), cluster(SITE), (), Lock(upgrade=record), path=path, progress=Progress(out))
    monkeypatch.setattr(Run, "save_lock", lambda _: None)

    def prove(_: Run, dump: ProvedDump) -> Path:
        made.append(dump)
        (tmp_path / "lab.backups" / "one.tar").touch()
        return tmp_path / "lab.backups" / "one.tar"

    monkeypatch.setattr(running.proof, "proved_backup", prove)
    key = SlurmPackages.model_validate({"version": "26.05.*", "source": {"suite": "sid"}})
    for _ in range(2):
        running.back_up(run, wanted, key)
    source = (("manager", "apt"), ("suite", "sid"))
    assert [(one.packages, one.source) for one in made] == [(("slurmdbd=26.05.5-1",), source)]
    assert run.inventory.lock.upgrade
    assert run.inventory.lock.upgrade.backup == "one.tar"
    assert f"Backup of this upgrade, proved before: {tmp_path}/lab.backups/one.tar." in out.getvalue()


def test_a_dump_that_nobody_here_can_decrypt_is_proved_as_it_passed_by() -> None:
    parts = {DATABASE: Part(1, "ab" * 32, 0, Path("dump"))}
    plain = Backup(Path("x.tar"), "cd" * 32, "lab", "24.11.5", "now", "ann@here", parts=parts)
    with tempfile.TemporaryFile() as file:
        file.write(b"dump")
        assert proof.with_plain_dump(plain, file) is plain
        found = proof.with_plain_dump(dataclasses.replace(plain, encrypted_to=("age1x",)), file).parts[DATABASE]
        assert (found.size, found.sha256, found.offset) == (4, hashlib.sha256(b"dump").hexdigest(), 0)
        assert found.path == Path(f"/dev/fd/{file.fileno()}")


@dataclass
class Archive:
    """An archive that is being written."""

    recipients: tuple[str, ...] = ()
    is_abandoned: bool = False

    def abandon(self) -> None:
        self.is_abandoned = True


@pytest.mark.parametrize("recipients", [(), ("age1x",)])
def test_a_backup_is_read_back_and_proved_before_it_is_told(
    recipients: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, made, done = tmp_path / "x.tar", Archive(recipients), list[Any]()
    path.write_bytes(b"x" * 2048)
    monkeypatch.setattr(proof.saving, "new_archive", lambda *_: made)
    monkeypatch.setattr(proof.saving, "save", lambda _run, _archive, dump: done.append(dump is not None) or path)
    monkeypatch.setattr(proof.archive, "verified", lambda one: done.append(one) or "backup")
    monkeypatch.setattr(proof, "with_plain_dump", lambda backup, _: backup)
    monkeypatch.setattr(proof, "proof", lambda *words: done.append(words[1:]) or "it is proved")
    monkeypatch.setattr(proof, "rows", lambda _: {"a": 1})
    out, wanted = io.StringIO(), ProvedDump("slurm_acct_db", "", "")
    run = run_over(FakeHosts({}), cluster(SITE), progress=Progress(out))
    assert proof.proved_backup(run, wanted) == path
    assert done == [bool(recipients), path, ("backup", {"a": 1}, wanted)]
    assert made.is_abandoned
    assert f"Backup: {path} (2 KiB), read back as a whole; it is proved." in out.getvalue()


def test_a_backup_that_cannot_be_written_ends_the_upgrade_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Path:
        raise OSError(28, "No space left on device")

    made = Archive()
    monkeypatch.setattr(proof.saving, "new_archive", lambda *_: made)
    monkeypatch.setattr(proof.saving, "save", fail)
    monkeypatch.setattr(proof, "rows", lambda _: {})
    with pytest.raises(SlurmfabError, match=r"cannot be written: No space left on device\. Nothing was changed"):
        proof.proved_backup(run_over(FakeHosts({}), cluster(SITE)), ProvedDump("slurm_acct_db", "", ""))
    assert made.is_abandoned


def test_a_backup_without_the_database_says_so_and_why() -> None:
    run = run_over(FakeHosts({}), cluster(SITE), command="upgrade")
    for left_out, why in (({DATABASE: "it is too large"}, "it is too large"), ({}, "it was left out")):
        backup = Backup(Path("x.tar"), "cd" * 32, "lab", "24.11.5", "now", "ann@here", parts={}, left_out=left_out)
        text = proof.proof(run, backup, {}, ProvedDump("slurm_acct_db", "", ""))
        assert text == f"WITHOUT the accounting database: {why}"


def test_what_a_proof_has_sent_is_cleared_also_when_the_host_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(proof.restoring, "send_parts", lambda *_: done.append("send"))
    monkeypatch.setattr(proof.restoring, "request_step", lambda *words: done.append(words[3]["do"]))
    run = run_over(FakeHosts({}), cluster(SITE), command="upgrade")
    parts = {DATABASE: Part(1, "ab" * 32, 0, Path("dump"))}
    backup = Backup(Path("x.tar"), "cd" * 32, "lab", "24.11.5", "now", "ann@here", parts=parts)
    with pytest.raises(HostError):
        proof.proof(run, backup, {"b": 2, "a": 1}, ProvedDump("slurm_acct_db", "", ""))
    assert done == ["send", "clear"]


def test_a_dump_is_proved_by_its_digest_and_the_rows_of_before_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(proof.restoring, "send_parts", lambda *_: None)
    monkeypatch.setattr(proof.restoring, "request_step", lambda *_: None)
    monkeypatch.setattr(
        proof, "apply_step", lambda _run, phase, host, wanted: asked.append((phase, host, *wanted)) or PROVED
    )
    run = run_over(FakeHosts({}), cluster(SITE), command="upgrade")
    parts = {DATABASE: Part(1, "ab" * 32, 0, Path("dump"))}
    backup = Backup(Path("x.tar"), "cd" * 32, "lab", "24.11.5", "now", "ann@here", parts=parts)
    proof.proof(run, backup, {"b": 2, "a": 1}, ProvedDump("slurm_acct_db", "", ""))
    ((phase, host, wanted),) = asked
    assert (phase, host, wanted.sha256, wanted.before) == ("proof", "c1", "ab" * 32, (("a", 1), ("b", 2)))
    assert wanted.staged.endswith(DATABASE)
    assert run.steps == [PROVED]


PROVED = Step("proof", "c1", (Outcome("proved-dump:x", "changed"),))


def test_rows_of_a_database_elsewhere_are_not_asked_for() -> None:
    elsewhere = SITE.replace("{host: c1}", "{host: c1, external: 10.0.0.9, password_file: pw}")
    hosts = FakeHosts({})
    assert proof.rows(run_over(hosts, cluster(elsewhere))) == {}
    assert hosts.requests == []


def test_rows_of_the_database_are_what_its_host_counts() -> None:
    class Counting(FakeHosts):
        def call(self, host: str, request: Mapping[str, Any], *_: Any) -> tuple[Line, ...]:
            assert (host, request["op"], request["database"]) == ("c1", "upgrade-rows", "slurm_acct_db")
            return ({"upgrade_rows": {"a": 1}},)

    assert proof.rows(run_over(Counting({}), cluster(SITE))) == {"a": 1}
