"""Packages of a bundle on a host: copied whole or not at all, only with enough space, removed after installation."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_directory import locks_met_by

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.packages import bundle_making, bundle_place, bundle_staging
from slurmfab.on_hosts.agent.packages.packages import Packages

BUNDLE = "ab" * 32
DEB = "munge_0.5.16-1.1_amd64.deb"
CONTENT = b"the first half, the second half"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
STATUS = b"Package: munge\nStatus: install ok installed\nVersion: 0.5\nArchitecture: all\n\n"


@pytest.fixture
def dpkg(root: Path) -> Path:
    """A context with a scratch root where munge is installed."""
    for folder in ("usr/sbin", "var/lib/dpkg/updates"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_bytes(STATUS)
    return root


def write(context: Context, at: int, data: bytes, sha256: str = "", file: str = DEB) -> None:
    step = {"do": "write", "bundle": BUNDLE, "file": file, "at": at, "sha256": sha256}
    bundle_staging.stage({**step, "data": base64.b64encode(data).decode()}, context)


def test_a_package_when_sent_in_pieces_gets_its_name_when_it_is_complete(context: Context) -> None:
    place = Path(bundle_place.begin(context, BUNDLE, "Package: munge\n"))
    write(context, 0, CONTENT[:16])
    assert not (place / DEB).exists()
    write(context, 16, CONTENT[16:], SHA256)
    assert (place / DEB).read_bytes() == CONTENT
    assert [path.name for path in place.glob("*.part")] == []


def test_a_package_when_damaged_on_the_way_is_removed_and_reported(context: Context) -> None:
    place = Path(bundle_place.begin(context, BUNDLE, "Package: munge\n"))
    with pytest.raises(ResourceFailed, match="was damaged on the way; run the same command again"):
        write(context, 0, CONTENT[:-1], SHA256)
    assert list(place.glob("*.deb*")) == []


def test_a_package_when_an_earlier_copy_was_interrupted_is_written_from_the_start(context: Context) -> None:
    place = Path(bundle_place.begin(context, BUNDLE, "Package: munge\n"))
    write(context, 0, b"what an interrupted run has left of a longer file")
    write(context, 0, CONTENT, SHA256)
    assert (place / DEB).read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["../munge_1_all.deb", "/etc/passwd", "munge", "Packages", "munge_1_all.deb/x"])
def test_a_file_name_that_is_not_a_packages_is_refused(context: Context, name: str) -> None:
    bundle_place.begin(context, BUNDLE, "")
    with pytest.raises(ResourceFailed, match="not the name of a package's file"):
        write(context, 0, CONTENT, file=name)


def test_a_bundle_when_another_one_was_begun_before_replaces_it(context: Context) -> None:
    older = Path(bundle_place.begin(context, "0" * 64, ""))
    newer = Path(bundle_place.begin(context, BUNDLE, ""))
    assert (older.exists(), newer.exists()) == (False, True)


def test_a_bundles_directory_is_readable_by_apt_whatever_the_umask(context: Context) -> None:
    before = os.umask(0o077)
    try:
        place = Path(bundle_place.begin(context, BUNDLE, "Package: munge\n"))
        write(context, 0, CONTENT, SHA256)
    finally:
        os.umask(before)
    for path in (place, *place.parents[:2], *place.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


@pytest.mark.parametrize("bundle", ["", "../../etc", "ab", "AB" * 32])
def test_a_bundle_whose_name_is_not_a_digest_is_refused(context: Context, bundle: str) -> None:
    with pytest.raises(ResourceFailed, match="not a digest of a bundle"):
        bundle_place.begin(context, bundle, "")


def test_packages_when_the_disk_has_too_little_space_are_refused_with_both_numbers(dpkg: Path) -> None:
    context = Context(str(dpkg))
    bundle_place.begin(context, BUNDLE, "")
    bundle_staging.refuse_without_room(context, 1 << 20, 1 << 20)
    with pytest.raises(ResourceFailed, match=r"the packages need \d+ MiB below .*, and \d+ MiB are free there"):
        bundle_staging.refuse_without_room(context, 1 << 20, 1 << 60)


def test_packages_that_an_interrupted_run_copied_are_found_and_removed_by_the_next(dpkg: Path) -> None:
    context = Context(str(dpkg))
    bundle_place.begin(context, BUNDLE, "")
    outcome = apply(Packages(("munge",)), context)
    assert [(change.name, change.actual) for change in outcome.changes] == [("bundle", "left by an interrupted run")]
    assert outcome.status == "changed"
    assert not (dpkg / "var/lib/slurmfab/bundle").exists()


def test_packages_that_were_copied_for_this_run_do_not_count_as_leftovers(dpkg: Path) -> None:
    context = Context(str(dpkg))
    bundle_place.begin(context, BUNDLE, "")
    assert apply(Packages(("munge",), BUNDLE), context).status == "ok"


def deb(place: Path, name: str, more: str = "") -> Path:
    """A package without any files."""
    tree = place / name
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1:2.0+x-1\nArchitecture: all\nMaintainer: A <a@example.org>\n{more}"
    (tree / "DEBIAN/control").write_text(f"{control}Installed-Size: 3\nDescription: nothing\n of any use\n")
    path = place / f"{name}_1%3a2.0+x-1_all.deb"
    subprocess.run(["dpkg-deb", "--build", tree, path], check=True, capture_output=True)
    return path


@pytest.fixture
def private_apt(monkeypatch: pytest.MonkeyPatch, dpkg: Path) -> Context:
    """A scratch root whose dpkg status apt uses in place of this machine's."""
    plain: Callable[..., tuple[str, ...]] = bundle_place.options
    status = ("-o", f"Dir::State::status={dpkg}/var/lib/dpkg/status", "-o", "Debug::NoLocking=1")
    monkeypatch.setattr(bundle_place, "options", lambda context, bundle: (*plain(context, bundle), *status))
    return Context(str(dpkg))


@pytest.mark.needs_root("apt writes its lists as root")
@pytest.mark.skipif(not shutil.which("apt-get"), reason="it asks this machine's apt")
def test_a_host_names_the_files_that_apt_needs_and_that_were_not_copied_yet(
    private_apt: Context, tmp_path: Path
) -> None:
    context = private_apt
    place = tmp_path / "debs"
    debs = [deb(place, "alpha", "Depends: munge, beta (>= 1:2)\n"), deb(place, "beta"), deb(place, "gamma")]
    index = "\n\n".join(bundle_making.paragraph(context, str(place), path.name) for path in debs) + "\n"
    assert "of any use" not in index
    request = {"do": "begin", "bundle": BUNDLE, "index": index, "names": ["munge", "alpha"]}
    assert sorted(bundle_staging.stage(request, context)["lacking"]) == [debs[0].name, debs[1].name]

    data = debs[1].read_bytes()
    write(context, 0, data, hashlib.sha256(data).hexdigest(), file=debs[1].name)
    assert bundle_staging.stage(request, context)["lacking"] == [debs[0].name]

    # What has the right size and other bytes is no package that was brought.
    damaged = Path(context.path(f"{bundle_place.PLACE}/{BUNDLE}")) / debs[1].name
    damaged.write_bytes(bytes(len(data)))
    assert sorted(bundle_staging.stage(request, context)["lacking"]) == [debs[0].name, debs[1].name]

    with pytest.raises(ResourceFailed, match=r"cannot be installed from the bundle: .*delta.* fab bundle"):
        bundle_staging.stage({**request, "names": ["delta"]}, context)


def test_a_directory_for_downloads_is_removed_at_the_end_as_are_those_of_interrupted_requests(
    context: Context,
) -> None:
    base = Path(context.path(bundle_making.BASE))
    (base / "bundling-killed/archives").mkdir(parents=True)
    with bundle_making.temporary_directory(context) as first:
        assert [path.name for path in base.iterdir()] == [Path(first).name]
        with bundle_making.temporary_directory(context) as second:
            assert Path(first).is_dir()
            assert Path(second).is_dir()
        if os.geteuid() == 0:
            base.parent.chmod(0o755)
            assert locks_met_by(base) == []
            assert locks_met_by(base, 0, 0) == [f"{Path(first).name}/.lock"]
    assert not base.exists()


def test_packages_in_files_lie_where_root_alone_reads_them_and_are_asked_for_until_they_are_whole(dpkg: Path) -> None:
    context = Context(str(dpkg))
    digest = bundle_place.digest_of(((DEB, SHA256),))
    older = Path(bundle_place.begin(context, BUNDLE, ""))
    step = {"do": "begin-files", "bundle": digest, "files": {DEB: SHA256}, "bytes": [30, 100]}
    assert bundle_staging.stage(step, context) == {"lacking": [DEB]}
    place = Path(context.path(bundle_place.place_of(digest)))
    assert (place.stat().st_mode & 0o777, older.exists()) == (0o700, False)
    write_step = {"do": "write", "bundle": digest, "file": DEB, "at": 0, "sha256": SHA256}
    bundle_staging.stage({**write_step, "data": base64.b64encode(CONTENT).decode()}, context)
    assert bundle_staging.stage(step, context) == {"lacking": []}
    files = (("munge", DEB, SHA256),)
    assert bundle_place.as_files(context, files, ["htop", "munge=0.5"]) == ["htop", str(place / DEB)]
    assert bundle_place.as_files(context, (), ["htop"]) == ["htop"]
    wanted = Packages(("munge",), versions=("munge=0.5",), files=files)
    assert apply(wanted, context).status == "ok"


def test_packages_in_files_when_a_name_is_none_are_refused(dpkg: Path) -> None:
    step = {"do": "begin-files", "bundle": BUNDLE, "files": {"../x_1_all.deb": SHA256}, "bytes": [1, 1]}
    with pytest.raises(ResourceFailed, match="not the name of a package's file"):
        bundle_staging.stage(step, Context(str(dpkg)))
