"""What the controller's apt has fetched, given to the apt of another host by a program in place of its own."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import OK, Context, Outcome, ResourceFailed, apply
from slurmfab.on_hosts.agent.packages import apt, bundle_place, bundle_staging, lent_files
from slurmfab.on_hosts.agent.packages.package_way import PackageWay

DIGEST = "ab" * 32
URI = "http://mirror.example/debian/dists/trixie/InRelease"


@pytest.fixture(autouse=True)
def own_way() -> Iterator[None]:
    yield
    apt.WAY.clear()


@pytest.fixture
def place(root: Path) -> Path:
    """The directory on a host, as a run begins with it."""
    lent_files.begin(Context(str(root)), DIGEST, {})
    return root / bundle_place.place_of(DIGEST)[1:]


def answers(place: Path, *uris: str) -> str:
    """What the program tells apt that asks for files, and writes to `place/got`."""
    asked = "".join(f"600 URI Acquire\nURI: {uri}\nFilename: {place}/got\n\n" for uri in uris)
    done = subprocess.run([sys.executable, place / "method"], input=asked, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_file_from_the_controller_when_apt_asks_for_it_then_it_gets_it_with_its_digest(place: Path) -> None:
    (place / f"{lent_files.key_of(URI)}.gz").write_bytes(gzip.compress(b"signed"))
    said = answers(place, URI)
    assert said.startswith("100 Capabilities\n")
    assert f"201 URI Done\nURI: {URI}\nSize: 6\n" in said
    assert f"SHA256-Hash: {hashlib.sha256(b'signed').hexdigest()}\n" in said
    assert (place / "got").read_bytes() == b"signed"


@pytest.mark.parametrize(
    "uri", ["http://169.254.169.254/latest/meta-data/", "http://mirror.example/../../../etc/shadow", "file:/etc/shadow"]
)
def test_an_address_that_the_controller_did_not_fetch_then_nothing_is_opened_and_nobody_is_asked(
    place: Path, uri: str
) -> None:
    said = answers(place, uri)
    assert f"400 URI Failure\nURI: {uri}\nMessage: 404 It is not among what the controller has fetched" in said
    assert not (place / "got").exists()


def test_the_way_when_a_host_takes_it_then_apt_has_the_program_and_no_setting_is_left(root: Path, place: Path) -> None:
    assert apply(PackageWay(DIGEST), Context(str(root))) == Outcome("package-way:controller", OK)
    assert f"Dir::Bin::Methods::https={place}/method" in apt.WAY
    assert not (root / "etc/apt").exists() or not list((root / "etc/apt").rglob("*slurmfab*"))


def test_files_when_they_are_written_then_no_name_leads_out_of_the_directory(root: Path, place: Path) -> None:
    step = {"do": "write", "bundle": DIGEST, "at": 0, "data": "eA==", "sha256": hashlib.sha256(b"x").hexdigest()}
    bundle_staging.stage({**step, "file": lent_files.key_of(URI)}, Context(str(root)))
    assert (place / lent_files.key_of(URI)).read_bytes() == b"x"
    for name in ("../method", "method", "a" * 63, f"{'a' * 64}/x", "/etc/shadow"):
        with pytest.raises(ResourceFailed, match="is not the name"):
            bundle_staging.stage({**step, "file": name}, Context(str(root)))


def test_a_directory_of_an_earlier_run_then_is_removed_and_packages_in_files_stay(root: Path, place: Path) -> None:
    files = place.with_name("cd" * 32)
    files.mkdir()
    lent_files.begin(Context(str(root)), "ef" * 32, {})
    assert sorted(one.name for one in place.parent.iterdir()) == ["cd" * 32, "ef" * 32]


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        (URI, URI),
        ("file:/srv/mirror/dists/trixie/InRelease", ""),
        ("mirror+file:/etc/apt/mirrors/debian.list/dists/trixie/InRelease", URI),
        ("mirror+file:/etc/apt/mirrors/none.list/dists/trixie/InRelease", ""),
    ],
)
def test_an_address_by_a_list_of_mirrors_then_is_that_of_the_first_mirror(root: Path, uri: str, address: str) -> None:
    (root / "etc/apt/mirrors").mkdir(parents=True)
    (root / "etc/apt/mirrors/debian.list").write_text("# Near.\nhttp://mirror.example/debian/ priority:1\n")
    assert lent_files.plain(Context(str(root)), uri) == address


@pytest.mark.parametrize(
    ("output", "is_complaint"),
    [
        (
            "Err:4 http://m b/main Packages\n  404 Not there\nGet:4 http://m b/main Packages [50 MB]\n",
            False,
        ),
        ("Err:4 http://m b/main Packages\n  404 Not there\nGet:5 http://m c/main Packages [50 MB]\n", True),
    ],
)
def test_a_list_that_is_there_in_another_form_then_apt_complains_of_nothing(output: str, is_complaint: bool) -> None:
    assert ("\nErr:" in apt.TRIED_AGAIN.sub("", f"Hit:1 http://m a InRelease\n{output}")) == is_complaint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list", "deb [arch=amd64 trusted=yes] https://repo.example ./\n"),
        ("sources.list.d/own.sources", "Types: deb\nURIs: https://repo.example\nTrusted: yes\n"),
        ("sources.list.d/own.list", "deb [allow-insecure=yes] http://repo.example x main\n"),
    ],
)
def test_a_source_that_no_signature_vouches_for_then_the_controller_may_not_stand_between(
    root: Path, name: str, text: str
) -> None:
    path = root / "etc/apt" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(ResourceFailed, match="without a signature"):
        lent_files.begin(Context(str(root)), DIGEST, {})
