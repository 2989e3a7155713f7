"""Links to Slurm's files in a directory that the hosts share: made once the wanted files are read there, and undone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.host_paths import SITE_FILES
from slurmfab.on_hosts.agent.core.resource import Context, apply, compare
from slurmfab.on_hosts.agent.services.service import changed_at, is_touched
from slurmfab.on_hosts.agent.slurm import shared_files
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles
from slurmfab.on_hosts.agent.slurm.shared_files import SharedFiles
from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.restored_file import Restored

CONF = "ClusterName=lab\n"
TREE = "SwitchName=a Nodes=n1\n"
RUN = "20260101T120001.000000Z-deploy"
FILES = (("slurm.conf", CONF), ("topology.conf", TREE))
WANTED = SharedFiles("/etc/slurm", "/shared/etc", FILES, ("topology.conf",))


@pytest.fixture
def shared(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shared directory, which has the wanted files; /etc/slurm has others."""
    monkeypatch.setattr(shared_files, "CACHE_SECONDS", 0.0)
    for name in ("etc/slurm", "shared/etc"):
        (root / name).mkdir(parents=True)
    for name, text in FILES:
        (root / "shared/etc" / name).write_text(text)
    (root / "etc/slurm/slurm.conf").write_text("ClusterName=own\n")
    return root / "shared/etc"


def during(root: Path, *resources: SharedFiles | Restored) -> list[str]:
    """Apply resources in a run, and return their outcomes."""
    context = Context(str(root), run_id=RUN)
    context.keep = undo_store.keep
    return [apply(one, context).status for one in resources]


def test_links_when_the_files_are_there_then_are_made_and_a_file_is_shown_before(
    shared: Path, context: Context
) -> None:
    changes = {one.name: (one.actual, one.wanted) for one in compare(WANTED, context)}
    assert changes["slurm.conf"] == ("a file of its own", "a link to /shared/etc/slurm.conf")
    assert apply(WANTED, context).status == "changed"
    assert compare(WANTED, context) == ()
    for name, text in FILES:
        link = Path(context.path(f"/etc/slurm/{name}"))
        assert (link.is_symlink(), link.read_text(), link.resolve()) == (True, text, shared / name)
    assert Path(context.path(SITE_FILES)).read_text() == "topology.conf\n"


@pytest.mark.parametrize("content", [None, "ClusterName=other\n"])
def test_links_when_the_directory_is_not_shared_then_are_refused_and_the_own_file_stays(
    shared: Path, context: Context, content: str | None
) -> None:
    for path in shared.iterdir():
        path.unlink()
    if content:
        (shared / "slurm.conf").write_text(content)
    assert "/shared/etc is not shared on this host" in failure(WANTED, context)
    assert Path(context.path("/etc/slurm/slurm.conf")).read_text() == "ClusterName=own\n"


def test_a_new_text_when_only_the_controller_can_write_it_then_is_shown_on_other_hosts(
    shared: Path, context: Context
) -> None:
    apply(WANTED, context)
    (shared / "slurm.conf").write_text("ClusterName=lab # before\n")
    dry = Context(context.root, dry_run=True)
    assert [change.name for change in apply(WANTED, dry).changes] == ["slurm.conf content"]
    assert is_touched(dry, "/etc/slurm/slurm.conf")
    writing = SharedFiles("/etc/slurm", "/shared/etc", FILES, writes=True)
    assert compare(writing, context) == ()


def test_a_hand_made_file_when_it_includes_others_then_is_read_with_these(shared: Path, context: Context) -> None:
    (shared / "slurm.conf").write_text("Include name.conf\n")
    (shared / "name.conf").write_text(CONF)
    assert apply(WANTED, context).status == "changed"


def test_a_directory_when_it_is_a_link_to_the_shared_one_then_is_right(shared: Path, context: Context) -> None:
    own = Path(context.path("/etc/slurm"))
    (own / "slurm.conf").unlink()
    own.rmdir()
    own.symlink_to(shared)
    assert compare(WANTED, context) == ()


def test_a_shared_directory_when_others_can_change_it_then_is_refused(shared: Path, context: Context) -> None:
    shared.chmod(0o777)
    done = apply(WANTED, context)
    assert (done.status, "can be changed by" in done.message) == ("failed", True)


def test_a_watched_link_when_it_or_its_file_changes_then_counts_as_changed(shared: Path, context: Context) -> None:
    apply(WANTED, context)
    link = context.path("/etc/slurm/slurm.conf")
    assert changed_at(link) == max(os.lstat(link).st_ctime, (shared / "slurm.conf").stat().st_ctime)
    dry = Context(context.root, dry_run=True)
    dry.touched.add("/shared/etc/slurm.conf")
    assert is_touched(dry, "/etc/slurm/slurm.conf")


def test_files_when_the_directory_is_shared_no_more_then_take_the_place_of_links(
    shared: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlurmFiles, "parse_with_slurm", lambda *_: None)
    apply(WANTED, context)
    own = SlurmFiles("/etc/slurm", FILES[:1]), SiteFiles("/etc/slurm", ((*FILES[1], 0o644),))
    assert [apply(one, context).status for one in own] == ["changed", "changed"]
    assert [path.is_symlink() for path in sorted(Path(context.path("/etc/slurm")).iterdir())] == [False, False]
    assert (shared / "slurm.conf").read_text() == CONF


@pytest.mark.usefixtures("shared")
def test_an_undo_when_links_took_the_place_of_files_or_the_reverse_then_brings_back_what_was_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlurmFiles, "parse_with_slurm", lambda *_: None)
    conf = root / "etc/slurm/slurm.conf"
    back = Restored("/etc/slurm/slurm.conf", RUN)
    assert during(root, WANTED, back) == ["changed", "changed"]
    assert (conf.is_symlink(), conf.read_text()) == (False, "ClusterName=own\n")
    conf.unlink()
    conf.symlink_to("../../shared/etc/slurm.conf")
    other = RUN.replace("1200", "1300")
    context = Context(str(root), run_id=other)
    context.keep = undo_store.keep
    assert apply(SlurmFiles("/etc/slurm", (("slurm.conf", "ClusterName=new\n"),)), context).status == "changed"
    (told,) = (one for one in undo_store.read({"since": other}, context)["files"] if "slurm.conf" in one["path"])
    assert (told["link"], told["content"], told["same"]) == ("../../shared/etc/slurm.conf", CONF, False)
    assert apply(Restored("/etc/slurm/slurm.conf", other), context).status == "changed"
    assert (str(conf.readlink()), conf.read_text()) == ("../../shared/etc/slurm.conf", CONF)
