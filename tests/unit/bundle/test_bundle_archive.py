"""Bundles on the deployer: read if they are valid, refused with the reason otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from saved_archives import archive as saved_backup
from saved_bundles import DEBS, index_of, saved
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.bundle import archive


def test_a_valid_bundle_has_the_values_of_its_manifest_and_its_files(tmp_path: Path) -> None:
    bundle = archive.verified(saved(tmp_path))
    about = bundle.manifest
    assert (about.suite, about.architecture, about.slurm) == ("trixie", "amd64", "24.11.5-4+deb13u1")
    assert "slurmd" in about.names
    assert set(bundle.parts) == {*DEBS, "Packages"}
    assert bundle.index == index_of(DEBS)
    for name, content in DEBS.items():
        part = bundle.parts[name]
        assert part.path.read_bytes()[part.offset : part.offset + part.size] == content
    words = archive.description(bundle)
    assert "trixie on amd64, Slurm 24.11.5-4+deb13u1, 3 packages" in words
    assert "made 2026-11-21 14:32:00+00:00, by ann@laptop, with the package sources of c1" in words


def middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9000])


def text(path: Path) -> None:
    path.write_text("this is no bundle")


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [middle, end, text, nothing, gone], ids=lambda harm: str(harm.__name__))
def test_a_damaged_bundle_is_refused_with_its_path_and_the_remedy(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = saved(tmp_path)
    archive.verified(path)
    harm(path)
    with pytest.raises(InputError) as refused:
        archive.verified(path)
    assert str(path) in str(refused.value)
    assert "fab bundle" in str(refused.value)


def test_a_backup_is_refused_as_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the name of a package's file"):
        archive.verified(saved_backup(tmp_path))


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "munge.deb", "a_1_amd64.deb/x", ".a_1_amd64.deb", "a b_1_all.deb"]
)
def test_a_bundle_with_unexpected_files_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="not the name of a package's file"):
        archive.verified(saved(tmp_path, {name: b"x"}))


def test_a_bundle_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"newer slurmfab \(format 2"):
        archive.verified(saved(tmp_path, format=2))


def test_relative_paths_of_bundles_begin_at_the_cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    named = cluster(f"{THREE_HOSTS}bundle: [here.tar, ../there.tar, /srv/b.tar, ~/c.tar]\n")
    known = Inventory(named, Lock(), tmp_path / "cluster.yaml")
    assert [str(path) for path in archive.paths_by_name(known).values()] == [
        f"{tmp_path}/here.tar", f"{tmp_path}/../there.tar", "/srv/b.tar", "/home/ann/c.tar",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "bundles"),
    [("", ()), ("bundle: b.tar\n", ("b.tar",)), ("bundle: [a.tar, b.tar]\n", ("a.tar", "b.tar")), ("bundle:\n", ())],
)
def test_the_key_bundle_can_be_one_name_or_a_list(text: str, bundles: tuple[str, ...]) -> None:
    assert cluster(THREE_HOSTS + text).bundle == bundles


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bundle: {file: b.tar}\n", "it must be the name of a file made by fab bundle, or a list of such names"),
        ("bundle: ['']\n", "it must be the name of a file"),
        ("bundle: [a.tar, a.tar]\n", '"a.tar" is listed twice'),
    ],
)
def test_an_invalid_key_bundle_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=r"cluster.yaml:5: bundle") as refused:
        cluster(THREE_HOSTS + text)
    assert said in str(refused.value)
