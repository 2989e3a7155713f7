"""The run of an upgrade: what of the plan is done now, what the lock remembers, and what is told of a conversion."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support import FakeHosts, cluster, run_over
from terminals import at_a_terminal, words_on

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.inventory.edits.slurm_key import with_slurm
from slurmfab.cluster.inventory.lock import Lock, UpgradeUnderWay
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade import conversion, running, under_way
from slurmfab.commands.upgrade.plan import HostVersions, Target, UpgradePlan, UpgradeStep
from slurmfab.commands.upgrade.running import UpgradeOptions, limited
from slurmfab.core.engine import file_writing
from slurmfab.core.engine.actor import host
from slurmfab.core.engine.run import Run, RunHooks
from slurmfab.core.engine.session import Output

NEW = SlurmVersion(26, 5)
OLD = {"slurmd": "24.11.5-4", "slurm-client": "24.11.5-4"}


def plan(*steps: tuple[Any, tuple[str, ...]]) -> UpgradePlan:
    made = tuple(UpgradeStep(what, hosts, {}, {}, "") for what, hosts in steps)
    hosts = {host: HostVersions(installed=OLD) for _, hosts in steps for host in hosts}
    return UpgradePlan(Target("26.05.*", "", NEW), SlurmVersion(24, 11), hosts, made)


WHOLE = plan(
    ("backup", ("db", "ctl")),
    ("slurmdbd", ("db",)),
    ("controllers", ("ctl",)),
    ("nodes", ("n1", "n2")),
    ("others", ("login",)),
)
ALL = frozenset({"db", "ctl", "n1", "n2", "login"})


@pytest.mark.parametrize(
    ("chosen", "done"),
    [
        (ALL, ["backup db ctl", "slurmdbd db", "controllers ctl", "nodes n1 n2", "others login"]),
        (frozenset({"db"}), ["backup db ctl", "slurmdbd db"]),
        (frozenset({"db", "ctl"}), ["backup db ctl", "slurmdbd db", "controllers ctl"]),
        (frozenset({"db", "ctl", "n2"}), ["backup db ctl", "slurmdbd db", "controllers ctl", "nodes n2"]),
        (frozenset(), []),
    ],
)
def test_an_upgrade_when_limited_to_hosts_then_does_their_steps_alone(chosen: frozenset[str], done: list[str]) -> None:
    assert [" ".join((step.what, *step.hosts)) for step in limited(WHOLE, chosen)] == done


@pytest.mark.parametrize("chosen", [{"ctl"}, {"n1"}, {"db", "n1"}, {"login"}])
def test_an_upgrade_when_hosts_leave_out_an_earlier_step_then_is_refused_with_the_command(chosen: set[str]) -> None:
    with pytest.raises(InputError, match=r"whose daemons are upgraded before those of .*First: fab upgrade --hosts"):
        limited(WHOLE, frozenset(chosen))


@pytest.mark.parametrize("chosen", [{"db", "ctl"}, {"db", "ctl2", "n1"}])
def test_an_upgrade_when_hosts_name_one_of_two_controllers_then_is_refused(chosen: set[str]) -> None:
    both = plan(("backup", ("db", "ctl")), ("slurmdbd", ("db",)), ("controllers", ("ctl", "ctl2")), ("nodes", ("n1",)))
    with pytest.raises(InputError, match=r"controllers are upgraded together, .* Name both\. Nothing was changed"):
        limited(both, frozenset(chosen))


def test_the_command_that_comes_first_when_one_host_is_in_two_steps_then_names_it_once() -> None:
    one = plan(("backup", ("ctl",)), ("slurmdbd", ("ctl",)), ("controllers", ("ctl",)), ("nodes", ("n1",)))
    with pytest.raises(InputError, match=r"First: fab upgrade --hosts ctl\. Nothing"):
        limited(one, frozenset({"n1"}))


def test_nodes_when_the_controllers_are_done_already_can_go_first() -> None:
    left = plan(("backup", ("ctl",)), ("nodes", ("n1", "n2")), ("others", ("login",)))
    assert [step.what for step in limited(left, frozenset({"n1"}))] == ["backup", "nodes"]
    assert [step.what for step in limited(left, frozenset({"login"}))] == ["backup", "others"]


def test_the_versions_before_when_remembered_then_are_folded_over_hosts() -> None:
    assert under_way.packages(plan(("nodes", ("n1", "n2", "n3")))) == {"n[1-3]": OLD}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"table": "", "seconds": 0, "percent": -1}, ""),
        ({"table": "lab_job_table", "seconds": 12, "percent": -1}, "lab_job_table, for 12 s"),
        ({"table": "lab_job_table", "seconds": 12, "percent": 40}, "lab_job_table, for 12 s, 40% done"),
    ],
)
def test_a_conversion_when_told_then_names_the_table_and_its_time(found: dict[str, Any], words: str) -> None:
    assert conversion.progress_text(found) == words


BASE = """\
cluster: lab
controllers: ctl
nodes:
  - hosts: n[1-2]   # two
"""


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("", {"version": "26.05.*"}, '\nslurm:\n  version: "26.05.*"\n'),
        (
            "",
            {"version": "26.05.*", "source": {"suite": "sid"}},
            '\nslurm:\n  version: "26.05.*"\n  source: {suite: sid}\n',
        ),
        ('slurm: {version: "24.11.*"}\n', {"version": "26.05.*"}, 'slurm: {version: "26.05.*"}\n'),
        (
            "slurm:\n  version: 24.11.5  # ours\n  source: {suite: trixie-backports}\nuser_tools: true\n",
            {"version": "26.05.*", "source": {"suite": "sid"}},
            'slurm:\n  version: "26.05.*"  # ours\n  source: {suite: sid}\nuser_tools: true\n',
        ),
        (
            "slurm:\n  version: 24.11.*\n  source: {uris: http://x.org/y, suites: trixie, key: k.asc}\n",
            {"version": "26.05.*", "source": {"uris": "http://x.org/y", "suites": "trixie", "key": "k.asc"}},
            'slurm:\n  version: "26.05.*"\n  source: {uris: http://x.org/y, suites: trixie, key: k.asc}\n',
        ),
        (
            "slurm: {version: '24.11.*', source: {suite: trixie}}  # ours\n",
            {"version": "26.05.*", "source": {"suite": "sid"}},
            "slurm: {version: '26.05.*', source: {suite: sid}}  # ours\n",
        ),
        (
            "slurm:\n  source:\n    suite: trixie\n  version: 24.11.*\n",
            {"version": "26.05.*", "source": {"suite": "sid"}},
            'slurm:\n  version: "26.05.*"\n  source: {suite: sid}\n',
        ),
    ],
)
def test_the_key_slurm_when_changed_then_nothing_else_is(before: str, wanted: dict[str, Any], after: str) -> None:
    new = with_slurm(BASE + before, SlurmPackages.model_validate(wanted))
    assert new.startswith(BASE.rstrip("\n"))
    assert [line for line in new[len(BASE) :].splitlines() if line] == [line for line in after.splitlines() if line]


def test_the_key_slurm_when_it_is_right_already_then_the_file_stays_as_it_is() -> None:
    text = BASE + "slurm: {version: '26.05.*'}  # as it is\n"
    assert with_slurm(text, SlurmPackages(version="26.05.*")) == text


class Claimed(Exception):
    """The upgrade has begun."""


@pytest.mark.parametrize(("typed", "ends"), [("y\n", Claimed), ("\n", SlurmfabError)])
def test_an_upgrade_when_somebody_can_answer_then_asks_behind_its_plan_and_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, ends: type[Exception]
) -> None:
    def claim(_run: object) -> None:
        raise Claimed

    monkeypatch.setattr(running.plans, "made", lambda *_, **__: WHOLE)
    monkeypatch.setattr(running, "require_claim", claim)
    shown = at_a_terminal(monkeypatch, typed)
    run = run_over(FakeHosts({}), cluster(), command="upgrade", asks=True)
    with pytest.raises(ends):
        running.carry_out(run, SlurmPackages(version="26.05.*"), UpgradeOptions(), frozenset({"db", "ctl"}), Output())
    assert "26.05" in capsys.readouterr().out
    assert "older ones do not read them any more. Upgrade Slurm on ctl,db to 26.05.*? [y/N]" in words_on(shown)


def run_with(path: Path, text: str, lock: Lock | None = None) -> tuple[Run, list[UpgradeUnderWay | None]]:
    """A run with the lock on the cluster, and the records of an upgrade that it saves."""
    path.write_text(text)
    saved: list[UpgradeUnderWay | None] = []
    hooks = RunHooks(save_lock=lambda run: saved.append(run.inventory.lock.upgrade))
    run = run_over(FakeHosts({}), cluster(text), (), lock, path=path, hooks=hooks)
    return run, saved


RECORD = UpgradeUnderWay("24.11.3", "26.05.*", "now", "ann@here")


@pytest.mark.parametrize(
    ("lock", "had", "is_new"),
    [
        (Lock(), "24.11", True),
        (Lock(slurm="24.11.5"), "24.11.5", True),
        (Lock(upgrade=RECORD), "24.11.3", False),
        (Lock(upgrade=dataclasses.replace(RECORD, to="25.11.*"), slurm="24.11.5"), "24.11.5", True),
    ],
)
def test_an_upgrade_that_begins_is_noted_in_the_lock_once(lock: Lock, had: str, is_new: bool, tmp_path: Path) -> None:
    run, saved = run_with(tmp_path / "lab.yaml", BASE.replace("name", "cluster"), lock)
    under_way.begin(run, WHOLE, "26.05.*")
    record = run.inventory.lock.upgrade
    assert record
    assert (record.had, record.to, len(saved)) == (had, "26.05.*", int(is_new))
    if is_new:
        assert (record.by.rpartition("@")[2], record.since[:2]) == (host(), "20")
        assert record.packages == {"ctl,db,login,n[1-2]": OLD}


def test_hosts_without_slurm_are_not_among_the_versions_before() -> None:
    there = plan(("nodes", ("n1", "n2")))
    bare = dataclasses.replace(there, hosts={**there.hosts, "n1": HostVersions()})
    assert under_way.packages(bare) == {"n2": OLD}


def test_the_new_version_goes_into_the_cluster_file_and_the_run_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(file_writing, "write", lambda _, text: written.append(text))
    run, _ = run_with(tmp_path / "lab.yaml", BASE.replace("name", "cluster"))
    lines: list[str] = []
    run.progress.line = lines.append  # type: ignore[method-assign]
    final = SlurmPackages(version="26.05.*")
    running.write_target(run, final)
    assert [text.splitlines()[-1] for text in written] == ['  version: "26.05.*"']
    assert (run.inventory.cluster.slurm, run.hosts) == (final, ("ctl", "n1", "n2"))
    assert lines == [f"{tmp_path}/lab.yaml: slurm.version is 26.05.* now."]
    (tmp_path / "lab.yaml").write_text(written[0])
    running.write_target(run, final)
    assert (len(written), len(lines)) == (1, 1)


def test_the_files_come_last_and_only_when_every_host_has_the_new_slurm() -> None:
    whole = plan(("backup", ("ctl",)), ("nodes", ("n1", "n2")), ("files", ("ctl", "n1")))
    assert [step.what for step in limited(whole, frozenset({"n1", "n2"}))] == ["backup", "nodes", "files"]
    assert [step.what for step in limited(whole, frozenset({"n1"}))] == ["backup", "nodes"]
    silent = dataclasses.replace(whole, silent={"n3": "it is off"})
    assert [step.what for step in limited(silent, frozenset({"n1", "n2"}))] == ["backup", "nodes"]
    assert [step.what for step in limited(plan(("files", ("ctl",))), frozenset())] == ["files"]


def test_an_upgrade_that_is_refused_changes_nothing_and_one_that_is_done_begins_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(running, "require_claim", lambda _: begun.append("claim"))
    run = run_over(FakeHosts({}), cluster(), command="upgrade")
    refused = dataclasses.replace(WHOLE, refusals=("too old",))
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: refused)
    words = (run, SlurmPackages(version="26.05.*"), UpgradeOptions(), ALL, Output())
    with pytest.raises(InputError, match=r"The upgrade is refused, for the reasons above\. Nothing was changed"):
        running.carry_out(*words)
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: plan())
    assert running.carry_out(*words) is False
    assert begun == []


def test_an_upgrade_whose_last_step_was_cut_off_goes_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    for name in ("require_claim", "write_target", "do"):
        monkeypatch.setattr(running, name, lambda *_, name=name: begun.append(name))
    monkeypatch.setattr(running, "finish", lambda *_: True)
    monkeypatch.setattr(running.under_way, "begin", lambda *_: None)
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: plan())
    run = run_over(FakeHosts({}), cluster(), (), Lock(upgrade=RECORD), command="upgrade")
    assert running.carry_out(run, SlurmPackages(version="26.05.*"), UpgradeOptions(), ALL, Output()) is True
    assert begun == ["require_claim", "write_target", "do"]


def test_an_upgrade_that_is_done_everywhere_brings_the_files_and_is_no_longer_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    run, saved = run_with(tmp_path / "lab.yaml", BASE.replace("name", "cluster"), Lock(upgrade=RECORD))
    run.progress.line = done.append  # type: ignore[method-assign]
    monkeypatch.setattr(running.plans, "made", lambda *_, **__: plan(("backup", ("ctl",))))
    monkeypatch.setattr(running.hints, "of_users", lambda _: ["n1: srun of ann: no service"])
    monkeypatch.setattr(running.last_files, "refuse_more", lambda plan, steps: done.append(f"compared {plan} {steps}"))

    def deploy(begun: Run) -> None:
        assert begun.hooks.check_survey
        begun.hooks.check_survey(begun, ())
        done.append("deployed")

    monkeypatch.setattr(running.converge, "deploy", deploy)
    assert running.finish(run, WHOLE, SlurmPackages(version="26.05.*")) is True
    assert done == [f"compared {WHOLE} ()", "deployed", "Slurm 26.05 runs on all hosts.", "n1: srun of ann: no service"]
    assert saved == [None]
