"""Others who may write beside a cluster file exchange names there while slurmfab works: they lead it nowhere else."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from slurmfab.base import atomic_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.cluster.inventory import shared_files
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.backup.archive import make_directory
from slurmfab.commands.bundle import making
from slurmfab.commands.checks import kept
from slurmfab.commands.eject import ejecting
from slurmfab.commands.eject.scripts import Ejected
from slurmfab.commands.import_cluster import writing
from slurmfab.commands.import_cluster.found import Takeover
from slurmfab.core.engine import record
from slurmfab.on_hosts.agent.backup.archive import UNFINISHED, Archive, sweep
from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.safe_paths import Folder

sys.path.append(str(Path(__file__).parents[1] / "agent"))
sys.path.append(str(Path(__file__).parent / "bundle"))
from hostile_directory import OTHER, state_of
from test_making import run_from

pytestmark = pytest.mark.needs_root("only root can give files to other users and groups")

CALLS = (
    "chmod",
    "fchmod",
    "fstat",
    "link",
    "listdir",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "rename",
    "scandir",
    "stat",
    "unlink",
)
GROUP = 4711
SET_IDS = 0o6777
EJECTED = Ejected({"README.md": "x\n", "make-cluster": "#!/bin/sh\n", "hosts/n1.sh": "y\n"}, {}, (), ())
TAKEOVER = Takeover("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n", {"slurm_files/a.conf": b"A\n"})


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory that root shares with a group, and a cluster file that the group may change."""
    place = tmp_path / "site"
    place.mkdir()
    (place / "cluster.yaml").write_text("cluster: lab\n")
    for path, mode in ((place, 0o2775), (place / "cluster.yaml", 0o664)):
        os.chown(path, 0, GROUP)
        path.chmod(mode)
    return place


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of root's, with files that only root may read, one of the name of a record."""
    place = tmp_path / "victim"
    place.mkdir(mode=0o755)
    for name in ("secret", "old.json", "cluster.yaml"):
        (place / name).write_text("precious\n")
        (place / name).chmod(0o604)
    return place


def at_each_step(
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[], object],
    prepare: Callable[[], object],
    meddle: Callable[[], object],
) -> int:
    """Repeat some work, and let somebody meddle before another call of the system each time; how often it was so."""
    for number in itertools.count():
        prepare()
        left = [number]

        def meddled(real: Callable[..., object], *given: object, left: list[int] = left, **named: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                meddle()
            return real(*given, **named)

        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, partial(meddled, getattr(os, name)))
            with suppress(InputError, BrokenFile):
                work()
        if left[0] >= 0:
            return number
    raise AssertionError


def records(site: Path) -> Path:
    """The directory of records, with one of an earlier run with every bit of its mode set."""
    runs = site / "cluster.runs"
    atomic_file.write_private(runs / "new.json", "{}", site / "cluster.yaml")
    (runs / "old.json").write_text("{}")
    (runs / "old.json").chmod(SET_IDS)
    return runs


def keep(site: Path) -> None:
    atomic_file.write_private(site / "cluster.runs/new.json", "{}", site / "cluster.yaml")
    atomic_file.keep_newest(site / "cluster.runs", 10)
    atomic_file.remove(site / "cluster.runs/secret")


def once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, step: Callable[[], None]) -> None:
    """Let somebody do a step when a function has ended for the first time."""
    real, done = getattr(owner, name), list[bool]()

    def meddled(*given: object, **named: object) -> object:
        result = real(*given, **named)
        if not done:
            done.append(True)
            step()
        return result

    monkeypatch.setattr(owner, name, meddled)


def exchange(path: Path, target: Path) -> None:
    path.rename(path.with_name("away"))
    path.symlink_to(target)


def test_records_of_a_group_go_on_being_the_groups(site: Path) -> None:
    keep(site)
    keep(site)
    found = [(site / name).stat() for name in ("cluster.runs", "cluster.runs/new.json")]
    assert [(stat.S_IMODE(one.st_mode), one.st_gid) for one in found] == [(0o2770, GROUP), (0o660, GROUP)]
    assert record.load_all(site / "cluster.yaml")[1] == (
        f"{site}/cluster.runs/new.json: this file is not the record of a run and was ignored: command: Field required, "
        "in line 1",
    )


@pytest.mark.parametrize(("name", "leads_to"), [("old.json", "secret"), ("", "")])
def test_a_record_or_its_directory_when_exchanged_with_a_link_at_any_step_then_nothing_behind_it_changes(
    site: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, name: str, leads_to: str
) -> None:
    before = state_of(victim)

    def prepare() -> None:
        assert state_of(victim) == before
        for path in (site / "away", site / "cluster.runs"):
            path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
        records(site).chmod(SET_IDS)

    def meddle() -> None:
        exchange(site / "cluster.runs" / name, victim / leads_to)

    assert at_each_step(monkeypatch, lambda: keep(site), prepare, meddle) > 50
    prepare()


@pytest.mark.parametrize(("name", "leads_to"), [("cluster.yaml", "cluster.yaml"), ("", "")])
def test_a_cluster_file_or_its_directory_when_exchanged_with_a_link_at_any_step_then_nothing_behind_it_changes(
    site: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, name: str, leads_to: str
) -> None:
    before = state_of(victim)
    configs = site / "configs"

    def prepare() -> None:
        assert state_of(victim) == before
        for path in (site / "away", configs):
            path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
        configs.mkdir()
        configs.chmod(0o2775)
        (configs / "cluster.yaml").touch()

    def work() -> None:
        with shared_files.exclusively(configs / "cluster.yaml"):
            atomic_file.write(configs / "cluster.yaml", "new", through_link=True)

    assert at_each_step(monkeypatch, work, prepare, lambda: exchange(configs / name, victim / leads_to)) > 20
    prepare()


def test_bits_that_make_a_program_root_are_taken_from_a_record(site: Path) -> None:
    keep_mode = stat.S_IMODE(records(site).stat().st_mode)
    keep(site)
    assert stat.S_IMODE((site / "cluster.runs/old.json").stat().st_mode) == 0o770
    assert stat.S_IMODE((site / "cluster.runs").stat().st_mode) == keep_mode


def test_files_of_others_and_other_names_of_files_keep_their_modes(site: Path, victim: Path) -> None:
    runs = records(site)
    (runs / "theirs.json").write_text("{}")
    (runs / "theirs.json").chmod(0o644)
    os.chown(runs / "theirs.json", OTHER, OTHER)
    (runs / "hard.json").hardlink_to(victim / "secret")
    os.mkfifo(runs / "fifo.json", 0o666)
    keep(site)
    found = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in runs.iterdir()}
    assert (found["theirs.json"], found["hard.json"]) == (0o644, 0o604)
    assert any("fifo.json" in one and "not a regular file" in one for one in record.load_all(site / "cluster.yaml")[1])


@pytest.mark.parametrize("write", [keep, lambda site: make_directory(site / "cluster.yaml")])
def test_a_directory_of_slurmfabs_that_somebody_else_made_beforehand_is_refused_and_stays(
    site: Path, write: Callable[[Path], object]
) -> None:
    (site / "cluster.yaml").chmod(0o644)
    site.chmod(0o1777)
    for name in ("cluster.runs", "cluster.backups"):
        (site / name).mkdir()
        (site / name).chmod(0o777)
        os.chown(site / name, OTHER, OTHER)
    before = state_of(site)
    with pytest.raises(InputError, match=rf"belongs to another user \(UID {OTHER}\), so nothing is written there"):
        write(site)
    assert state_of(site) == before
    assert kept.last(site / "cluster.yaml") is None


@pytest.mark.parametrize(("mode", "owner", "is_followed"), [
    (0o755, 0, True), (0o1777, 0, True), (0o1777, OTHER, False), (0o2775, 0, False), (0o755, OTHER, False),
])  # fmt: skip
def test_a_link_on_the_way_is_followed_if_nobody_else_could_have_put_it_there(
    site: Path, mode: int, owner: int, *, is_followed: bool
) -> None:
    (site / "there").mkdir()
    (site / "link").symlink_to("there")
    os.chown(site / "link", owner, -1, follow_symlinks=False)
    site.chmod(mode)
    if is_followed:
        atomic_file.write(site / "link/report.json", "{}", through_link=True)
    else:
        with pytest.raises(InputError, match="is not followed"):
            atomic_file.require_writable(site / "link/report.json", "--json")
        with pytest.raises(InputError, match="is not followed"):
            atomic_file.write(site / "link/report.json", "{}", through_link=True)
    assert [one.name for one in (site / "there").iterdir()] == ["report.json"] * is_followed


def test_a_file_that_somebody_else_left_where_all_may_put_files_does_not_say_who_reads_the_new_one(site: Path) -> None:
    site.chmod(0o1777)
    (site / "report.json").touch()
    (site / "report.json").chmod(0o666)
    os.chown(site / "report.json", OTHER, OTHER)
    atomic_file.write(site / "report.json", "{}", through_link=True)
    assert stat.S_IMODE((site / "report.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("place", [0o777, 0o2775])
def test_a_file_that_somebody_else_left_where_others_may_write_does_not_let_all_read_the_new_one(
    site: Path, place: int
) -> None:
    site.chmod(place)
    (site / "report.json").touch()
    (site / "report.json").chmod(0o666)
    os.chown(site / "report.json", OTHER, GROUP)
    atomic_file.write(site / "report.json", "{}", through_link=True)
    assert stat.S_IMODE((site / "report.json").stat().st_mode) == 0o660


def test_a_private_directory_that_a_group_has_moved_to_a_name_of_slurmfabs_stays_private(site: Path) -> None:
    (site / "private").mkdir(mode=0o700)
    (site / "private/token").write_text("secret")
    (site / "private").rename(site / "cluster.runs")
    with pytest.raises(InputError, match="is private and has token in it, which is none of slurmfab's"):
        atomic_file.write_private(site / "cluster.runs/a.json", "{}", site / "cluster.yaml")
    assert stat.S_IMODE((site / "cluster.runs").stat().st_mode) & 0o777 == 0o700


def test_scripts_when_their_directory_is_exchanged_while_they_are_written_then_lead_nowhere_else(
    site: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(victim)
    once(monkeypatch, replace, "write_in", lambda: exchange(next(site.glob(".scripts.*")), victim))
    with pytest.raises(InputError, match="has put another directory in the place of"):
        ejecting.write_files(EJECTED, site / "scripts")
    assert state_of(victim) == before


def test_scripts_when_one_cannot_be_written_then_none_is_left(site: Path) -> None:
    before = state_of(site)
    missing = dataclasses.replace(EJECTED, copies={"packages/x.deb": site / "x.deb"})
    with pytest.raises(InputError, match=r"cannot be written to .*: No such file"):
        ejecting.write_files(missing, site / "scripts")
    assert state_of(site) == before
    ejecting.write_files(EJECTED, site / "scripts")
    found = {str(path.relative_to(site)): stat.S_IMODE(path.stat().st_mode) & 0o777 for path in site.rglob("scripts*")}
    assert found == {"scripts": 0o700}
    modes = [(site / "scripts" / name).stat().st_mode & 0o777 for name in EJECTED.files]
    assert modes == [0o600, 0o700, 0o600]


def test_an_import_when_a_directory_is_exchanged_while_it_is_written_then_leads_nowhere_else(
    site: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(victim)
    (site / "lab.runs").mkdir(mode=0o770)  # so that the first directory that is made is the one exchanged
    once(monkeypatch, Folder, "make", lambda: exchange(site / "slurm_files", victim))
    writing.write(site / "lab.yaml", TAKEOVER, lambda _: Lock())
    assert state_of(victim) == before
    assert (site / "away/a.conf").read_bytes() == b"A\n"


@pytest.mark.parametrize("write", [
    lambda place: ejecting.refuse_place(place / "scripts"),
    lambda place: ejecting.write_files(EJECTED, place / "scripts"),
    lambda place: writing.write(place / "lab.yaml", TAKEOVER, lambda _: Lock()),
])  # fmt: skip
def test_a_directory_in_which_everybody_may_exchange_names_is_refused_by_its_path(
    site: Path, write: Callable[[Path], object]
) -> None:
    site.chmod(0o777)
    before = state_of(site)
    with pytest.raises(InputError, match=rf"Everybody may exchange what is in {site} .*chmod o-w {site}"):
        write(site)
    assert state_of(site) == before


def test_a_bundle_when_exchanged_with_a_link_then_the_file_behind_it_keeps_its_mode(
    site: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(victim)
    once(monkeypatch, Folder, "sync", lambda: exchange(site / "cluster.bundle-trixie-amd64.tar", victim / "secret"))
    making.collect(run_from(site), "c1", "")
    assert state_of(victim) == before
    assert stat.S_IMODE((site / "away").stat().st_mode) == 0o644


def test_an_archive_when_another_file_has_taken_its_name_then_is_told(
    site: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Archive(str(site), "lab")
    once(monkeypatch, Folder, "take_name", lambda: exchange(site / "lab.tar", victim / "secret"))
    with pytest.raises(OSError, match="somebody has put another file in its place"):
        made.finish({})
    made.abandon()


def test_unfinished_archives_when_they_are_pipes_or_links_then_nobody_waits_and_nothing_behind_them_is_touched(
    site: Path, victim: Path
) -> None:
    os.mkfifo(site / f"{UNFINISHED}fifo")
    (site / f"{UNFINISHED}link").symlink_to(victim / "secret")
    (site / f"{UNFINISHED}left").touch()
    before = state_of(victim)
    sweep(str(site))
    assert sorted(path.name for path in site.glob(".new-*")) == [f"{UNFINISHED}fifo", f"{UNFINISHED}link"]
    assert state_of(victim) == before
