"""What the controller's apt has fetched, given to the apt of another host by a program in place of its own."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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


class Host(Context):
    """A host with this machine's apt, which reads all its files below the scratch root."""

    def run(self, argv: Sequence[str], *rest: Any, **named: Any) -> subprocess.CompletedProcess[bytes]:
        config = Path(self.root, "apt")
        config.write_text(f'Dir "{self.root}"; APT::Sandbox::User "root";')
        (Path(self.root) / "etc/apt/preferences.d").mkdir(parents=True, exist_ok=True)
        (Path(self.root) / "etc/apt/sources.list.d").mkdir(exist_ok=True)
        return super().run(argv, *rest, **{**named, "env": {**(named.get("env") or {}), "APT_CONFIG": str(config)}})


@pytest.fixture
def place(root: Path) -> Path:
    """The directory on a host, as a run begins with it."""
    lent_files.begin(Host(str(root)), DIGEST, {})
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
    lent_files.begin(Host(str(root)), "ef" * 32, {})
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


HERE = "https://repo.example ./"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list", f"deb [arch=amd64 trusted=yes] {HERE}\n"),
        *(("sources.list", f"  deb [trusted={word}] {HERE}\n") for word in ("true", "1", "on", "with", "enable")),
        ("sources.list", "deb [trusted=yes] mirror+file:/etc/apt/mirrors ./\n"),
        ("sources.list", "deb [trusted=yes] mirror+http://repo.example/mirrors ./\n"),
        *(("sources.list.d/own.sources", f"Types: deb\nURIs: https://repo.example\nSuites: ./\n{more}\n")
          for more in ("Trusted: yes", "trusted: True", "Trusted:\n on", "TRUSTED: with")),
        ("sources.list.d/own.list", "deb [allow-insecure=yes] http://repo.example x main\n"),
        ("sources.list.d/own.list", "deb [allow-downgrade-to-insecure=on] http://repo.example x main\n"),
    ],
)  # fmt: skip
def test_a_source_that_no_signature_vouches_for_then_the_controller_may_not_stand_between(
    root: Path, name: str, text: str
) -> None:
    path = root / "etc/apt" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(ResourceFailed, match=rf"^{path}:1: apt takes packages from there without a signature"):
        lent_files.begin(Host(str(root)), DIGEST, {})


def test_sources_with_signatures_and_those_of_the_host_itself_then_are_no_hindrance(root: Path) -> None:
    (root / "etc/apt").mkdir()
    (root / "etc/apt/sources.list").write_text(
        f"deb [trusted=no allow-insecure=no] {HERE}\ndeb https://mirror.example/debian trixie main\n"
        "deb https://mirror.example/debian trixie main\ndeb [trusted=yes] file:/srv/repository ./\n"
        f"# deb [trusted=yes] {HERE}\n"
    )
    lent_files.begin(Host(str(root)), DIGEST, {})


# In such files, apt knows no word that allows a source alone to be insecure.
STANZA = "Types: deb\nURIs: https://repo.example\nSuites: ./\nAllow-Insecure: yes\nAllow-Weak: yes\n"


@pytest.mark.parametrize("name", ["own.list", "own.sources"])
@pytest.mark.parametrize("word", ["on", "with"])
def test_settings_that_allow_packages_without_a_signature_then_do_not_count_for_what_the_controller_gives(
    root: Path, place: Path, word: str, name: str
) -> None:
    (root / "etc/apt/sources.list.d" / name).write_text(STANZA if name == "own.sources" else f"deb {HERE}\n")
    (root / "etc/apt/apt.conf.d").mkdir()
    names = ("acquire::allowinsecurerepositories", "Binary::apt-get::Acquire::AllowInsecureRepositories")
    settings = "".join(f'{name} "{word}";\n' for name in (*names, "APT::Get::AllowUnauthenticated"))
    (root / "etc/apt/apt.conf.d/own").write_text(settings)
    (place / lent_files.key_of("https://repo.example/./Release")).write_bytes(b"Origin: the controller\n")
    (place / lent_files.key_of("https://repo.example/./Packages")).write_bytes(b"")
    host = Host(str(root))
    assert apply(PackageWay(DIGEST), host).status == OK
    assert "is not signed" in apt.update(host)
    apt.WAY[:] = [*lent_files.LISTS, *apt.WAY[len(lent_files.LISTS) + len(lent_files.SIGNED_ALONE) :]]
    assert apt.update(host) == "", "it would be taken otherwise"
