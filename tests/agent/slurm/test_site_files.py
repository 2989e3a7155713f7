"""Files of the site's own in Slurm's directory, in a scratch root: written, left as they are, and taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.host_paths import SITE_FILES
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.facts import facts
from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles

TOPOLOGY = "SwitchName=s1 Nodes=n[1-2]\n"
FILES = (
    ("topology.conf", TOPOLOGY, 0o644),
    ("plugstack.conf.d/x11.conf", "optional x11.so\n", 0o644),
    ("prolog.sh", "#!/bin/sh\n\udcff\n", 0o755),
)
WRITTEN = SiteFiles("/etc/slurm", FILES)
GONE = SiteFiles("/etc/slurm", (), tuple(name for name, _, _ in FILES), renews=True)


@pytest.fixture
def slurm(root: Path) -> Path:
    (root / "etc/slurm").mkdir()
    return root / "etc/slurm"


def record(root: Path) -> list[str]:
    path = root / SITE_FILES.lstrip("/")
    return path.read_text().split() if path.exists() else []


def test_files_are_written_once_with_their_modes_and_bytes(slurm: Path, root: Path, context: Context) -> None:
    assert apply(WRITTEN, context).status == "changed"
    assert (slurm / "prolog.sh").read_bytes() == b"#!/bin/sh\n\xff\n"
    assert (slurm / "prolog.sh").stat().st_mode & 0o7777 == 0o755
    assert (slurm / "plugstack.conf.d/x11.conf").stat().st_mode & 0o7777 == 0o644
    assert record(root) == sorted(name for name, _, _ in FILES)
    assert apply(WRITTEN, context).status == "ok"


def test_a_file_that_differs_is_replaced_and_shown(slurm: Path, context: Context) -> None:
    apply(WRITTEN, context)
    (slurm / "topology.conf").write_text("SwitchName=s1 Nodes=n1\n")
    outcome = apply(WRITTEN, context)
    assert [change.name for change in outcome.changes] == ["topology.conf"]
    assert WRITTEN.touches(frozenset({"topology.conf"})) == ("/etc/slurm/topology.conf",)
    assert (slurm / "topology.conf").read_text() == TOPOLOGY


def test_a_file_made_by_hand_with_the_same_bytes_is_left_as_it_is_and_never_taken_away(
    slurm: Path, root: Path, context: Context
) -> None:
    path = slurm / "topology.conf"
    path.write_text(TOPOLOGY)
    path.chmod(0o664 & ~0o020)
    before = path.stat()
    assert apply(SiteFiles("/etc/slurm", FILES[:1]), context).status == "ok"
    assert (path.stat().st_ctime_ns, path.stat().st_ino) == (before.st_ctime_ns, before.st_ino)
    assert record(root) == []
    assert facts.read_site_files(str(root), ("topology.conf",))["written_site_files"] == []


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o646])
def test_a_file_made_by_hand_that_others_can_change_or_not_read_gets_its_mode(
    slurm: Path, context: Context, mode: int
) -> None:
    (slurm / "topology.conf").write_text(TOPOLOGY)
    (slurm / "topology.conf").chmod(mode)
    assert apply(SiteFiles("/etc/slurm", FILES[:1]), context).status == "changed"
    assert (slurm / "topology.conf").stat().st_mode & 0o7777 == 0o644


def test_a_link_to_the_same_bytes_is_right_and_one_to_others_is_replaced(
    slurm: Path, root: Path, context: Context
) -> None:
    shared = root / "shared.conf"
    shared.write_text(TOPOLOGY)
    (slurm / "topology.conf").symlink_to(shared)
    assert apply(SiteFiles("/etc/slurm", FILES[:1]), context).status == "ok"
    shared.write_text("SwitchName=s9 Nodes=n9\n")
    assert apply(SiteFiles("/etc/slurm", FILES[:1]), context).status == "changed"
    assert not (slurm / "topology.conf").is_symlink()
    assert shared.read_text() == "SwitchName=s9 Nodes=n9\n"


def test_files_are_taken_away_with_their_empty_directory_and_daemons_notice(
    slurm: Path, root: Path, context: Context
) -> None:
    apply(WRITTEN, context)
    conf = slurm / "slurm.conf"
    conf.write_text("ClusterName=lab\n")
    before = conf.stat().st_ctime_ns
    (slurm / "other.conf").write_text("")
    assert apply(GONE, context).status == "changed"
    assert sorted(path.name for path in slurm.iterdir()) == ["other.conf", "slurm.conf"]
    assert (conf.read_text(), conf.stat().st_ctime_ns > before) == ("ClusterName=lab\n", True)
    assert record(root) == []
    assert apply(GONE, context).status == "ok"


def test_a_directory_with_files_of_others_stays(slurm: Path, context: Context) -> None:
    apply(WRITTEN, context)
    (slurm / "plugstack.conf.d/theirs.conf").write_text("")
    apply(GONE, context)
    assert [path.name for path in (slurm / "plugstack.conf.d").iterdir()] == ["theirs.conf"]


def test_something_else_in_a_files_place_is_refused(slurm: Path, context: Context) -> None:
    (slurm / "topology.conf").mkdir()
    outcome = apply(SiteFiles("/etc/slurm", FILES[:1]), context)
    assert (outcome.status, "is not a regular file" in outcome.message) == ("failed", True)


def test_facts_tell_digests_of_the_files_asked_about_and_of_those_that_slurmfab_wrote(
    slurm: Path, root: Path, context: Context
) -> None:
    apply(WRITTEN, context)
    (slurm / "topology.conf").unlink()
    (slurm / "mpi.conf").write_text("")
    found = facts.read_site_files(str(root), ("mpi.conf", "topology.conf", "oci.conf"))
    assert sorted(found["site_files"]) == ["mpi.conf", "plugstack.conf.d/x11.conf", "prolog.sh"]
    assert found["written_site_files"] == sorted(name for name, _, _ in FILES)
