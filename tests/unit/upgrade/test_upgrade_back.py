"""The way back from an upgrade: which packages each host gets, in which order, and what becomes of the cluster file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from saved_archives import CLUSTER_TEXT, LOCK_TEXT, PARTS, archive
from support import FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import DeployFailed, InputError, Unreachable
from slurmfab.base.exit_codes import DONE, FAILURE
from slurmfab.cluster.inventory.lock import Lock, UpgradeUnderWay
from slurmfab.commands.backup import archive as archives
from slurmfab.commands.backup.restoring import RestoreOptions
from slurmfab.commands.upgrade import back
from slurmfab.commands.upgrade.plan import HostVersions
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, LOCK

OLD, NEW = "24.11.5-4", "26.05.5-1"
PACKAGES = {"c1": {"slurmctld": OLD, "slurmdbd": OLD}, "n[1-2]": {"slurmd": OLD}}
UPGRADE = {"had": "24.11.5", "to": "26.05.*", "since": "now", "by": "ann@laptop", "packages": PACKAGES}
UPGRADED = CLUSTER_TEXT + 'slurm: {version: "26.05.*"}\n'


@dataclass
class Hosts(FakeHosts):
    """Hosts of which some have the packages of before, and some say nothing of them."""

    old: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def call(self, host: str, request: Mapping[str, Any], *heard: Any) -> tuple[Line, ...]:
        if request["op"] != "upgrade":
            return super().call(host, request, *heard)
        if host in self.silent:
            raise Unreachable(host, "nothing listens at port 22.")
        version = OLD if host in self.old else NEW
        names = PACKAGES.get(host) or PACKAGES["n[1-2]"]
        told = {"packages": dict.fromkeys(names, version), "programs": dict.fromkeys(names, version[:7]), "running": {}}
        lists: dict[str, list[str]] = {name: [] for name in ("held", "plugins", "foreign", "spank", "users")}
        return ({"upgrade": {**told, **lists, "state": "", "free": {}, "digest": "x"}},)


def put_back(tmp_path: Path, text: str = UPGRADED, **hosts: Any) -> tuple[list[str], str]:
    """What is changed on the hosts, in order, and the cluster file afterwards."""
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    lock = {**json.loads(LOCK_TEXT), "upgrade": UPGRADE}
    made = archives.verified(archive(tmp_path, {**PARTS, LOCK: json.dumps(lock).encode()}))
    wanted = cluster(text)
    wrong = {
        host: {*(f"service:{one}" for one in ("slurmctld", "slurmdbd", "slurmd")), f"packages-exchanged:{packages}"}
        for host, packages in (("c1", "slurmctld,slurmdbd"), ("n1", "slurmd"), ("n2", "slurmd"))
    }
    there = Hosts(facts_of(wanted, prepared), wrong=wrong, **hosts)
    done: list[str] = []
    there.when_changed = lambda host, one: done.append(f"{host} {one}")
    known = Lock(upgrade=UpgradeUnderWay(**{**UPGRADE, "packages": PACKAGES}))
    run = run_over(there, wanted, lock=known, path=path, command="upgrade")
    back.put_back(run, made, back.packages_before(made))
    assert run.inventory.lock.upgrade is None
    assert run.inventory.cluster.slurm == cluster(CLUSTER_TEXT).slurm
    assert there.installed == []
    begun = [(host, request) for host, request in there.requests if request["op"] == "apply"]
    assert (begun[0][0], [*begun[0][1]["resources"]]) == ("c1", []), "the claim comes first"
    services = [one for _, request in begun for one in request["resources"] if one["kind"] == "service"]
    assert not any(one["running"] for one in services)
    return done, path.read_text()


def test_all_daemons_stop_before_any_host_gets_its_packages_of_before(tmp_path: Path) -> None:
    done, text = put_back(tmp_path)
    stops = ["c1 service:slurmctld", "n1 service:slurmd", "n2 service:slurmd", "c1 service:slurmdbd"]
    assert done[0] == stops[0]
    assert sorted(done[:4]) == sorted(stops)
    assert sorted(done[4:]) == [
        "c1 packages-exchanged:slurmctld,slurmdbd",
        "n1 packages-exchanged:slurmd",
        "n2 packages-exchanged:slurmd",
    ]
    assert text == CLUSTER_TEXT, "byte for byte"


def test_hosts_that_have_the_packages_of_before_are_left_alone(tmp_path: Path) -> None:
    done, _ = put_back(tmp_path, old=("n1", "n2"))
    assert {one.partition(" ")[0] for one in done} == {"c1"}


def test_a_cluster_file_that_was_edited_meanwhile_keeps_its_edits_or_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be changed safely\. Write this into it yourself: slurm: \{\}"):
        put_back(tmp_path, UPGRADED + "mpi: pmi2\n")


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        (
            "packages-exchanged:slurmd",
            "n2 did not get the packages of before. Repair that",
        ),
        ("service:slurmd", "n2 did not stop its daemons. Repair that"),
    ],
)
def test_a_host_that_fails_ends_the_way_back_before_the_cluster_file_changes(
    tmp_path: Path, failing: str, words: str
) -> None:
    with pytest.raises(DeployFailed, match=re.escape(words)):
        put_back(tmp_path, failing={"n2": {failing}})
    assert (tmp_path / "cluster.yaml").read_text() == UPGRADED


def test_a_backup_that_no_upgrade_has_made_is_refused(tmp_path: Path) -> None:
    for parts in (PARTS, {name: content for name, content in PARTS.items() if name != LOCK}):
        with pytest.raises(InputError, match=r"was not made by fab upgrade\. Nothing was changed"):
            back.packages_before(archives.verified(archive(tmp_path, parts)))
    assert CLUSTER_FILE in PARTS


def test_the_way_back_is_not_begun_while_a_host_is_silent(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"n2: no answer\. All hosts go back together, so nothing was changed"):
        put_back(tmp_path, silent=("n2",))


def test_the_way_back_is_asked_about_where_a_host_gets_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Run, "confirm", lambda _, text, question: asked.append(f"{text} {question}"))
    put_back(tmp_path, old=("n1", "n2"))
    assert len(asked) == 1
    assert "Slurm's daemons stop on all hosts, c1 gets the packages of before" in asked[0]


@pytest.mark.parametrize(
    ("file", "is_alone", "words"),
    [
        ("", True, "--abandon-jobs and --identity are for --back: an upgrade ends no job and reads no backup"),
        ("b.tar", False, "--back takes no other options than --abandon-jobs, --identity and --yes"),
    ],
)
def test_options_that_do_not_fit_the_way_back_are_refused(file: str, is_alone: bool, words: str) -> None:
    with pytest.raises(InputError, match=words):
        back.back("", file, Output(), back.Options(is_alone, abandon_jobs=True, identity="", yes=False))


@pytest.mark.parametrize("code", [DONE, FAILURE])
def test_the_way_back_restores_the_backup_when_the_packages_of_before_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path, done = tmp_path / "cluster.yaml", list[Any]()
    path.write_text(UPGRADED)
    lock = {**json.loads(LOCK_TEXT), "upgrade": UPGRADE}
    made = archive(tmp_path, {**PARTS, LOCK: json.dumps(lock).encode()})
    monkeypatch.setattr(back.trust, "require_before_decryption", lambda *_, trust: done.append(f"archive {trust}"))
    monkeypatch.setattr(back.trust, "require", lambda *_, trust: done.append(f"parts {trust}"))
    monkeypatch.setattr(back.session, "start", lambda *words: done.append(words[3]) or "run")
    monkeypatch.setattr(back.session, "perform", lambda run, _, work: (work(run), code)[1])
    monkeypatch.setattr(back, "put_back", lambda _run, _backup, before: done.append(before))
    monkeypatch.setattr(back.restoring, "restore_to", lambda *words: done.append(words[2]) or 7)
    options = back.Options(is_alone=True, abandon_jobs=True, identity="", yes=False)
    ended = back.back(str(path), str(made), Output(), options)
    assert (done[:2], done[2].command, done[2].asks) == (
        ["archive False", "parts False"],
        "upgrade",
        True,
    )
    assert done[3]["n2"] == {"slurmd": OLD}
    assert ended == (7 if code == DONE else FAILURE)
    assert done[4:] == ([RestoreOptions(overwrite=True, abandon_jobs=True, yes=True)] if code == DONE else [])


def test_a_host_that_has_one_package_of_before_gets_them_all() -> None:
    before = {"slurmd": OLD, "slurm-client": OLD}
    assert back.older(HostVersions({"slurmd": OLD, "slurm-client": NEW}), before) == (
        f"slurm-client={OLD}",
        f"slurmd={OLD}",
    )
    assert back.older(HostVersions({"slurm-client": OLD, "slurmd": OLD}), before) == ()
    assert back.older(HostVersions({"slurmd": OLD}), before) != (), "one is gone"


def test_a_backup_whose_lock_names_hosts_wrongly_is_refused(tmp_path: Path) -> None:
    lock = {**json.loads(LOCK_TEXT), "upgrade": {**UPGRADE, "packages": {"n[1-": {"slurmd": OLD}}}}
    made = archives.verified(archive(tmp_path, {**PARTS, LOCK: json.dumps(lock).encode()}))
    with pytest.raises(InputError, match=r"its lock names hosts wrongly: .*Nothing was changed"):
        back.packages_before(made)
