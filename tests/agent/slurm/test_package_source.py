"""The apt source of Slurm's packages, in a scratch root: written with its key and pins, taken back, and chosen from."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import as_sent, failure

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.packages import apt_errors, slurm_release
from slurmfab.on_hosts.agent.slurm.package_source import KEY, PREFERENCES, RECORD, SOURCES, SlurmSource

MIRROR = "http://mirror.example/debian"
OWN = f"Types: deb\nURIs: {MIRROR}\nSuites: trixie trixie-updates\nComponents: main contrib\nSigned-By: /usr/ring.gpg\n"
NAMES = ("slurm*", "sackd")
REPOSITORY = SlurmSource(
    uris=("https://apt.example/slurm",),
    suites=("lab",),
    components=("main",),
    key="KEY\n",
    version="26.05.*",
    names=NAMES,
)
OTHER_SUITE = SlurmSource(suite="trixie-backports", version="25.11.2", names=NAMES)
TARGET = SOURCES + ":1\tlab\tUs\tOurs\tlab\tstable"
BACKPORTS = SOURCES + ":1\ttrixie-backports\tDebian\tDebian Backports\ttrixie-backports\tstable-backports"
MADISON = """\
    slurmd |  26.05.5-1 | https://apt.example/slurm lab/main amd64 Packages
    slurmd |  25.11.1-1 | https://apt.example/slurm lab/main amd64 Packages
    slurmd | 24.11.5-4 | http://mirror.example/debian trixie/main amd64 Packages
"""


class Host(Context):
    """A scratch root with an apt that prints what it is told, and notes how it was called."""

    def __init__(self, root: Path, **printed: str) -> None:
        super().__init__(str(root))
        self.printed = printed
        self.calls: list[str] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        """Print what is given for a word of the command; a printed error ends with an error."""
        self.calls.append(" ".join(argv))
        text = next((text for word, text in self.printed.items() if word in argv), "")
        return subprocess.CompletedProcess(list(argv), 100 if text.startswith("E:") else 0, text.encode(), b"")


@pytest.fixture
def place(root: Path) -> Path:
    """A scratch root of a Debian 13 whose mirror is in deb822 style."""
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(f"# ours\n{OWN}\n{OWN.replace('trixie', 'forky')}")
    (root / "etc/os-release").write_text('ID=debian\nVERSION_CODENAME="trixie"\n')
    return root


def text(root: Path, path: str) -> str:
    return (root / path.lstrip("/")).read_text()


def test_a_repository_is_written_with_its_key_and_pins_once(place: Path) -> None:
    host = Host(place, indextargets=TARGET)
    assert apply(REPOSITORY, host).status == "changed"
    assert text(place, KEY) == "KEY\n"
    assert f"URIs: https://apt.example/slurm\nSuites: lab\nComponents: main\nSigned-By: {KEY}\n" in text(place, SOURCES)
    assert text(place, PREFERENCES).partition("\n")[2] == (
        "Package: slurm* sackd\nPin: version 26.05.*\nPin-Priority: 100\n\n"
        "Package: slurm* sackd\nPin: release o=Us,l=Ours,n=lab,a=stable\nPin-Priority: -1\n\n"
        "Package: *\nPin: release o=Us,l=Ours,n=lab,a=stable\nPin-Priority: 100\n"
    )
    (updated,) = (call for call in host.calls if call.endswith("update"))
    assert f"Dir::Etc::sourcelist={SOURCES}" in updated, "the lists of other sources stay as they are"
    host.calls.clear()
    assert apply(as_sent(REPOSITORY), host).status == "ok"
    assert host.calls == []


def test_a_source_that_is_no_longer_wanted_goes_with_all_its_files(place: Path) -> None:
    host = Host(place, indextargets=TARGET)
    apply(REPOSITORY, host)
    assert apply(SlurmSource(), host).status == "changed"
    assert not any((place / path.lstrip("/")).exists() for path in (SOURCES, KEY, PREFERENCES, RECORD))
    assert apply(SlurmSource(), host).status == "ok"


def test_another_suite_comes_from_the_mirror_of_the_hosts_own_release(place: Path) -> None:
    assert apply(OTHER_SUITE, Host(place, indextargets=BACKPORTS)).status == "changed"
    assert OWN.replace("trixie trixie-updates", "trixie-backports") in text(place, SOURCES)
    assert "Pin: version 25.11.2*\n" in text(place, PREFERENCES)
    assert not (place / KEY.lstrip("/")).exists()


@pytest.mark.parametrize("options", ["", "[ arch=amd64,arm64 signed-by=/usr/ring.gpg ] "])
def test_the_mirror_is_found_in_files_of_one_line_style_too(place: Path, options: str) -> None:
    (place / "etc/apt/sources.list.d/debian.sources").unlink()
    (place / "etc/apt/sources.list").write_text(
        f"#deb http://x.example trixie main\ndeb {options}{MIRROR} trixie main\n"
    )
    apply(OTHER_SUITE, Host(place, indextargets=BACKPORTS))
    assert f"URIs: {MIRROR}\nSuites: trixie-backports\nComponents: main\n" in text(place, SOURCES)
    assert ("Architectures: amd64 arm64\nSigned-By: /usr/ring.gpg\n" in text(place, SOURCES)) == bool(options)


def test_a_suite_that_the_host_has_already_gets_pins_alone(place: Path) -> None:
    own = place / "etc/apt/sources.list.d/backports.sources"
    own.write_text(OWN.replace("trixie trixie-updates", "trixie-backports"))
    target = BACKPORTS.replace(SOURCES, str(own))
    assert apply(OTHER_SUITE, Host(place, indextargets=target)).status == "changed"
    assert not (place / SOURCES.lstrip("/")).exists()
    assert "n=trixie-backports" in text(place, PREFERENCES)


@pytest.mark.parametrize(
    ("wanted", "printed", "why"),
    [
        (SlurmSource(suite="trixie"), {}, "is trixie, the release that this host runs"),
        (REPOSITORY, {"indextargets": ""}, "one that this host has already in another file of apt's"),
        (
            REPOSITORY,
            {"update": "E: The repository 'https://apt.example/slurm lab Release' does not have a Release file."},
            "there is no suite lab at https://apt.example/slurm",
        ),
        (
            REPOSITORY,
            {"update": "E: error message is: Missing key 46D6F2D2BEBB7C2263E13D19, which"},
            "by the key 46D6F2D2",
        ),
        (REPOSITORY, {"update": "E: NO_PUBKEY 6EE2EFB1682A970B"}, "by the key 6EE2EFB1682A970B, which is not the one"),
        (REPOSITORY, {"update": "E: BADSIG 6EE2EFB1682A970B lab"}, "its signature is wrong"),
        (REPOSITORY, {"update": "E: Could not connect to apt.example:443"}, "packages cannot be downloaded"),
    ],
)
def test_a_source_that_cannot_be_used_is_explained_and_leaves_nothing(
    place: Path, wanted: SlurmSource, printed: dict[str, str], why: str
) -> None:
    assert why in failure(wanted, Host(place, **printed))
    assert not any((place / path.lstrip("/")).exists() for path in (SOURCES, KEY, PREFERENCES, RECORD))


def status(root: Path, **packages: str) -> None:
    (root / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    entries = (
        f"Package: {name.replace('_', '-')}\nStatus: install ok installed\nVersion: {one}\n"
        for name, one in packages.items()
    )
    (root / "var/lib/dpkg/status").write_text("\n".join(entries))


def chosen(place: Path, version: str) -> list[str]:
    host = Host(place, indextargets=TARGET, madison=MADISON)
    apply(REPOSITORY, host)
    return slurm_release.chosen(host, ["munge", "slurmd"], ("slurmd", "slurm-client"), version)


@pytest.mark.parametrize(
    ("there", "version", "text"),
    [
        ({}, "26.05.*", "slurmd=26.05.5-1"),
        ({}, "", "slurmd=26.05.5-1"),
        ({}, "25.11.*", "slurmd=25.11.1-1"),
        ({"slurm_client": "26.05.5-1"}, "26.05.*", "slurmd=26.05.5-1"),
        # A deployment changes no version.
        ({"slurm_client": "24.11.5-4"}, "26.05.*", "slurmd=24.11.5-4"),
    ],
)
def test_packages_of_slurm_come_from_the_source_in_the_wanted_version(
    place: Path, there: dict[str, str], version: str, text: str
) -> None:
    status(place, **there)
    assert chosen(place, version) == ["munge", text]


def test_a_version_that_is_not_there_is_told_with_those_that_are(place: Path) -> None:
    status(place)
    with pytest.raises(
        ResourceFailed, match=r"no slurmd 24.11.\* in the source of Slurm's packages \(it has 26.05.5-1, 25"
    ):
        chosen(place, "24.11.*")


def test_without_a_source_the_wanted_version_comes_from_the_hosts_own(place: Path) -> None:
    status(place)
    host = Host(place, madison=MADISON)
    assert slurm_release.chosen(host, ["slurmd"], ("slurmd",), "24.11.*") == ["slurmd=24.11.5-4"]
    assert slurm_release.chosen(host, ["slurmd"], ("slurmd",), "") == ["slurmd"]


COMPLAINTS = """\
 slurmd : Depends: libhwloc15 (>= 2.15.0) but 2.12.0-4 is to be installed
          Depends: slurm-client (= 26.05.5-1) but 24.11.5-4 is to be installed
          Depends: libmunge2 (>= 0.5) but it is not going to be installed
          Depends: libodd (>= 1) but it is not installable
"""
EVERYTHING = "".join(
    f"{name} | {version} | https://apt.example/slurm lab/main amd64 Packages\n"
    for name, version in (
        ("libhwloc15", "2.15.0-2"),
        ("slurm-client", "26.05.6-1"),
        ("slurm-client", "26.05.5-1"),
        ("libmunge2", "0.5.18-1"),
        ("libhwloc-plugins", "2.15.0-2"),
    )
)


@pytest.mark.parametrize(
    ("output", "asked", "more"),
    [
        (COMPLAINTS, [], ["libhwloc15=2.15.0-2", "slurm-client=26.05.5-1"]),
        (COMPLAINTS, ["libhwloc15=2.15.0-2", "slurm-client=26.05.5-1"], ["libmunge2=0.5.18-1"]),
        (COMPLAINTS, ["libhwloc15=2.15.0-2", "slurm-client=26.05.5-1", "libmunge2=0.5.18-1"], []),
        (
            "The following packages will be REMOVED:\n  libhwloc-plugins\nE: remove is disabled.",
            [],
            ["libhwloc-plugins=2.15.0-2"],
        ),
    ],
)
def test_what_packages_of_slurm_need_is_named_in_its_version_where_apt_does_not_take_it_by_itself(
    place: Path, output: str, asked: list[str], more: list[str]
) -> None:
    host = Host(place, indextargets=TARGET, madison=EVERYTHING)
    apply(REPOSITORY, host)
    assert slurm_release.also_needed(host, output, ["slurmd=26.05.5-1", *asked], (), None) == more


def test_packages_of_slurm_when_apt_would_take_them_then_are_all_that_it_is_asked_for(place: Path) -> None:
    host = Host(place, indextargets=TARGET, madison=EVERYTHING, **{"--simulate": "Inst slurmd (26.05.5-1 lab [amd64])"})
    words, code, output = slurm_release.solved(host, ["slurmd=26.05.5-1"])
    assert (words, code) == (["slurmd=26.05.5-1"], 0)
    assert slurm_release.changes_in(output) == {"slurmd": "26.05.5-1"}


def test_other_complaints_of_apt_are_explained_as_ever() -> None:
    assert "the disk is full" in apt_errors.explain_source("E: No space left on device")
