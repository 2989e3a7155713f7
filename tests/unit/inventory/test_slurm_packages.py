"""The key slurm of a cluster file: where Slurm's packages come from, and what is refused, with file and line."""

from __future__ import annotations

import base64
from pathlib import Path

import made_debs
import made_rpms
import pytest
from public_key import KEY
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading, repository_key, slurm_package_files
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.slurm_packages import (
    AptRepository,
    DnfRepository,
    OtherSuite,
    PackageDirectory,
    SlurmPackages,
)
from slurmfab.cluster.slurm.versions import SlurmVersion

SECRET = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlFgEawSD/BYJKwYBBAHaRw8BAQdA\n-----END PGP PRIVATE KEY BLOCK-----\n"
"""The beginning of a secret key, which is none."""

REPOSITORY = "{uris: 'https://apt.example.org/slurm', suites: trixie, key: slurm.asc}"


def slurm(said: str) -> SlurmPackages:
    return cluster(f"{THREE_HOSTS}slurm: {said}\n").slurm


def inventory(folder: Path, said: str, kind: str = "debian") -> Inventory:
    path = folder / "cluster.yaml"
    path.write_text(f"{THREE_HOSTS}slurm:\n  version: '26.05.*'\n  source: {said}\n  packages: {kind}\n")
    return loading.load(path)


def test_without_the_key_hosts_have_what_their_distribution_has() -> None:
    found = cluster(THREE_HOSTS).slurm
    assert (found.packages, found.version, found.source, found.series) == ("debian", None, None, None)
    assert found.is_default


def test_a_source_is_one_of_three() -> None:
    assert slurm("{version: 26.05.5, source: {suite: trixie-backports}}").source == OtherSuite("trixie-backports")
    assert slurm(f"{{version: '26.05.*', source: {REPOSITORY}}}").source == AptRepository(
        ("https://apt.example.org/slurm",), ("trixie",), ("main",), "slurm.asc"
    )
    flat = slurm("{version: '26.05.*', source: {uris: ['file:/shared/debs'], suites: ./, key: slurm.asc}}").source
    assert flat == AptRepository(("file:/shared/debs",), ("./",), (), "slurm.asc")
    dnf = slurm("{packages: el-smd, version: '26.05.*', source: {uris: 'https://a.example/el9', key: k.asc}}").source
    assert dnf == DnfRepository(("https://a.example/el9",), "k.asc")
    smd = slurm("{packages: smd, version: '25.11.*', source: {directory: debs}}")
    assert (smd.source, smd.series, smd.is_default) == (PackageDirectory("debs"), SlurmVersion(25, 11), False)


@pytest.mark.parametrize("version", ["26.05.*", "26.05.5", "24.11.5-4", "26.05.5-1~bpo13+1", "23.11.4-1.2ubuntu5"])
def test_a_version_is_one_of_slurms_or_of_a_package(version: str) -> None:
    assert slurm(f"{{version: '{version}'}}").version == version


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{packages: rpm}", "slurm.packages: it must be 'debian', 'smd', 'el-smd', 'el', 'el-openhpc' or 'none'"),
        ("{version: '26.05'}", 'slurm.version: "26.05" is a release series; write "26.05.*"'),
        ("{version: 26.05}", 'slurm.version: "26.05" is a release series; write "26.05.*"'),
        ("{version: newest}", 'slurm.version: "newest" is not a version'),
        ("{version: '27.05.*'}", "is of a Slurm that slurmfab does not know; it knows 22.05 to 26.05: 22.05, 23.02"),
        ("{version: '26.04.*'}", "is of a Slurm that slurmfab does not know"),
        ("{version: '21.08.*'}", "is of a Slurm that slurmfab does not know"),
        ("{packages: smd}", 'slurm: packages: smd needs a version, such as version: "26.05.*"'),
        (f"{{source: {REPOSITORY}}}", "slurm: source needs a version"),
        ("{packages: smd, version: '26.05.*', source: {suite: sid}}", "no suite of a distribution has SchedMD's"),
        (f"{{packages: el-smd, version: '26.05.*', source: {REPOSITORY}}}", "a repository of dnf has no suites"),
        ("{packages: el, version: '26.05.*', source: {suite: sid}}", "packages: el: dnf knows no suites"),
        ("{version: '26.05.*', source: {}}", "slurm.source: it needs exactly one of suite"),
        ("{version: '26.05.*', source: {suite: sid, directory: debs}}", "it needs exactly one of suite"),
        ("{version: '26.05.*', source: {suite: 'trixie backports'}}", "is not the name of a suite"),
        ("{version: '26.05.*', source: {directory: debs, key: a.asc}}", "key: only for a repository, which has uris"),
        ("{version: '26.05.*', source: {uris: 'http://a.example', suites: trixie}}", "key is missing"),
        ("{version: '26.05.*', source: {uris: 'http://a.example', key: a.asc}}", "suites is missing"),
        (
            "{version: '26.05.*', source: {uris: 'http://a.example', suites: ./, components: main, key: a.asc}}",
            '"./" is a path, which has no components',
        ),
        ("{version: '26.05.*', source: {uris: 'ftp://a.example', suites: x, key: k}}", "is not an address"),
        ("{version: '26.05.*', source: {uris: 'https://u:p@a.example', suites: x, key: k}}", "/etc/apt/auth.conf.d"),
        ("{version: '26.05.*', source: {uris: 'https://a.example', suites: '../x', key: k}}", "is not a name in"),
        (
            "{version: '26.05.*', source: {url: 'https://a.example'}}",
            "slurm.source.url: unknown key; known: suite, uris",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(said: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        slurm(said)
    assert why in str(refused.value)


def test_a_file_of_the_site_in_the_place_of_the_source_is_refused() -> None:
    with pytest.raises(InputError, match="slurmfab writes it for the key slurm"):
        cluster(
            f"{THREE_HOSTS}slurm: {{version: '26.05.*', source: {{suite: sid}}}}\n"
            "files: {/etc/apt/preferences.d/slurmfab-slurm: {text: ''}}\n"
        )


@pytest.mark.parametrize("form", ["text", "bytes", "windows"])
def test_the_key_of_a_repository_is_read_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    text = KEY.partition("\n\n")[2].partition("\n=")[0]
    encoded = base64.b64decode("".join(text.split()))
    contents = {"text": KEY.encode(), "bytes": encoded, "windows": KEY.replace("\n", "\r\n").encode()}
    (tmp_path / "slurm.asc").write_bytes(contents[form])
    assert repository_key.read(inventory(tmp_path, REPOSITORY)) == {"slurm.asc": KEY}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "slurm.asc: it cannot be read: No such file"),
        ("", "it is no OpenPGP key"),
        ("ssh-ed25519 AAAA", "it is no OpenPGP key"),
        (KEY.replace("mDME", "AAAA"), "it is no OpenPGP key"),
        (SECRET, "it is a secret key"),
    ],
)
def test_what_is_no_key_is_refused_with_its_line(tmp_path: Path, content: str | None, why: str) -> None:
    if content is not None:
        (tmp_path / "slurm.asc").write_text(content)
    known = inventory(tmp_path, REPOSITORY)
    with pytest.raises(InputError) as refused:
        repository_key.read(known)
    assert f"{tmp_path / 'cluster.yaml'}:7: slurm.source.key: " in str(refused.value)
    assert why in str(refused.value)


def deb(folder: Path, name: str, version: str = "26.05.5-1", **fields: str) -> None:
    file = folder / "debs" / f"{name}_{version}_{fields.get('Architecture', 'amd64')}.deb"
    made_debs.saved(file, Package=name, Version=version, **fields)


def test_a_directory_has_packages_of_slurm(tmp_path: Path) -> None:
    deb(tmp_path, "slurmd")
    deb(tmp_path, "slurm-client")
    deb(tmp_path, "slurm-client", Architecture="arm64")
    found = slurm_package_files.read(inventory(tmp_path, "{directory: debs}"))
    assert [one.name for one in found["debs"]] == ["slurm-client", "slurm-client", "slurmd"]


def test_a_directory_of_rpms_has_packages_of_slurm_and_none_of_sources(tmp_path: Path) -> None:
    for name in ("slurm", "slurm-slurmd"):
        made_rpms.saved(tmp_path / "rpms", name)
    (tmp_path / "rpms/slurm-26.05.5-1.el9.src.rpm").touch()
    known = inventory(tmp_path, "{directory: rpms}", "el-smd")
    assert [one.name for one in slurm_package_files.read(known)["rpms"]] == ["slurm", "slurm-slurmd"]
    (tmp_path / "rpms/slurm-26.05.5-1.el9.x86_64.rpm").unlink()
    with pytest.raises(InputError, match=r"has no slurm-….rpm, the package of Slurm's commands"):
        slurm_package_files.read(known)


@pytest.mark.parametrize(
    ("packages", "why"),
    [
        (None, "debs cannot be read: No such file or directory"),
        ([("slurmd", "26.05.5-1")], "has no slurm-client_….deb"),
        ([("slurm-smd-client", "26.05.5-1")], "it has slurm-smd-client: is slurm.packages right?"),
        ([("slurm-client", "25.11.1-1")], "is of version 25.11.1-1, and slurm.version is 26.05.*"),
        (
            [("slurm-client", "26.05.4-1"), ("slurm-client", "26.05.5-1")],
            "slurm-client_26.05.4-1_amd64.deb and slurm-client_26.05.5-1_amd64.deb are the same package",
        ),
    ],
)
def test_a_directory_without_packages_of_slurm_is_refused_with_its_line(
    tmp_path: Path, packages: list[tuple[str, str]] | None, why: str
) -> None:
    for name, version in packages or ():
        deb(tmp_path, name, version)
    known = inventory(tmp_path, "{directory: debs}")
    with pytest.raises(InputError) as refused:
        slurm_package_files.read(known)
    assert f"{tmp_path / 'cluster.yaml'}:7: slurm.source.directory: " in str(refused.value)
    assert why in str(refused.value)
