"""Bundles of rpm's packages: collected on one host, installed on another without a source, by the real rpm and dnf."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rpm_packages import Repository, installed, write_sources

from slurmfab.cluster.slurm.platform import DNF, EL_SMD
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.dnf import dnf_bundle, rpm_database, slurm_repository
from slurmfab.on_hosts.agent.dnf.dnf_packages import DnfPackages
from slurmfab.on_hosts.agent.packages import bundle_place
from slurmfab.on_hosts.agent.upgrade import host_bundles

NODE = ("munge", "slurm", "slurm-slurmd")
DIGEST = "a" * 64
ASKED: Mapping[str, Any] = {"names": NODE, "slurm": EL_SMD.slurm_packages, "version": "24.11.*"}


@pytest.fixture
def dark(tmp_path: Path) -> Context:
    """The context of another root, whose packages are rpm's, too, and that has no source."""
    context = Context(str(tmp_path / "dark"))
    for folder in (slurm_repository.FOLDER, "/var/lib/rpm", "/var/log", "/usr/bin"):
        Path(context.path(folder)).mkdir(parents=True)
    Path(context.path(rpm_database.RPM)).touch()
    return context


def collected(context: Context, place: Path, **asked: Any) -> tuple[Path, str]:
    """The directory with the collected packages, and the index."""
    place.mkdir()
    folder, index = dnf_bundle.collected(context, {**ASKED, **asked}, str(place))
    return Path(folder), index


def staged(context: Context, folder: Path, index: str, *names: str) -> list[str]:
    """The files that a host has asked for, which it has then."""
    request = {"do": "begin", "manager": DNF.name, "bundle": DIGEST, "index": index, "names": names}
    lacking = host_bundles.stage(request, context)["lacking"]
    for name in lacking:
        shutil.copy(folder / name, context.path(bundle_place.place_of(DIGEST)))
    return sorted(lacking)


def test_packages_when_collected_then_all_that_they_need_is_there_and_nothing_was_installed(
    el: Context, tmp_path: Path
) -> None:
    apply(DnfPackages(("munge",)), el)
    folder, index = collected(el, tmp_path / "place", names=("slurm-slurmd",))
    assert sorted(path.name for path in folder.glob("*.rpm")) == [
        "munge-0.5.13-1.el9.noarch.rpm",
        "slurm-24.11.5-1.el9.noarch.rpm",
        "slurm-slurmd-24.11.5-1.el9.noarch.rpm",
    ]
    assert index.count("<package type=") == 3
    assert installed(el) == {"munge": "0.5.13"}


def test_packages_when_slurm_is_there_in_a_version_then_its_other_packages_are_collected_in_that(
    el: Context, tmp_path: Path
) -> None:
    apply(DnfPackages(("slurm",), slurm=EL_SMD.slurm_packages, slurm_version="24.11.*"), el)
    folder, _ = collected(el, tmp_path / "place", version="26.05.*")
    assert (folder / "slurm-slurmd-24.11.5-1.el9.noarch.rpm").exists()


def test_a_source_that_the_host_does_not_have_when_packages_are_collected_then_they_come_from_there(
    el: Context, repository: Repository, tmp_path: Path
) -> None:
    Path(el.path(slurm_repository.PATH)).unlink()
    text = slurm_repository.text([f"file://{repository.folder}"], EL_SMD.slurm_packages)
    folder, _ = collected(el, tmp_path / "place", repo=text, key=repository.key)
    assert len([*folder.glob("*.rpm")]) == len(NODE)
    assert not Path(el.path(slurm_repository.PATH)).exists()


def test_packages_that_were_sent_when_collected_then_they_come_with_what_they_need_of_the_sources_and_go(
    el: Context, repository: Repository, tmp_path: Path
) -> None:
    others, lent = tmp_path / "others", Path(el.path(bundle_place.place_of(DIGEST)))
    for place, pattern in ((others, "munge-*.rpm"), (lent, "slurm*-24.*.rpm")):
        place.mkdir(parents=True)
        for path in repository.folder.rglob(pattern):
            shutil.copy(path, place)
    subprocess.run(["createrepo_c", "--quiet", others], check=True)
    write_sources(el, others, repository.key)
    folder, index = collected(el, tmp_path / "place", lent=DIGEST)
    assert len([*folder.glob("*.rpm")]) == len(NODE)
    assert index.count("<package type=") == len(NODE)
    assert not lent.exists()


@pytest.mark.parametrize("trouble", ["another key", "away"])
def test_a_source_when_it_is_away_or_signs_otherwise_then_nothing_is_collected(
    el: Context, repository: Repository, tmp_path: Path, trouble: str
) -> None:
    if trouble == "away":
        write_sources(el, tmp_path / "nowhere", repository.key)
    else:
        write_sources(el, repository.folder, repository.other_key)
    with pytest.raises(ResourceFailed, match="cannot be reached" if trouble == "away" else "signed by another key"):
        collected(el, tmp_path / "place")


def test_a_host_without_sources_when_it_gets_a_bundle_then_it_asks_for_what_it_lacks_and_installs_it(
    el: Context, dark: Context, tmp_path: Path
) -> None:
    folder, index = collected(el, tmp_path / "place", names=(*NODE, "slurm-slurmdbd"))
    before = {*Path(dark.path("/var/cache")).rglob("*")}
    assert staged(dark, folder, index, *NODE) == [
        "munge-0.5.13-1.el9.noarch.rpm",
        "slurm-24.11.5-1.el9.noarch.rpm",
        "slurm-slurmd-24.11.5-1.el9.noarch.rpm",
    ]
    assert staged(dark, folder, index, *NODE) == []
    wanted = DnfPackages(NODE, bundle=DIGEST, slurm=EL_SMD.slurm_packages, slurm_version="24.11.*")
    assert apply(wanted, dark).status == "changed"
    assert installed(dark) == {"munge": "0.5.13", "slurm": "24.11.5", "slurm-slurmd": "24.11.5"}
    assert not Path(dark.path(bundle_place.PLACE)).exists()
    assert {*Path(dark.path("/var/cache")).rglob("*")} == before
    assert staged(dark, folder, index, *NODE) == []
    assert apply(DnfPackages(NODE), Context(dark.root, dry_run=True)).changes[0].name == "bundle"


def test_an_installation_from_a_bundle_when_it_was_killed_then_the_bundle_completes_it(
    el: Context, dark: Context, tmp_path: Path
) -> None:
    folder, index = collected(el, tmp_path / "place")
    staged(dark, folder, index, *NODE)
    mark = Path(dark.path("/kill-slurm"))
    mark.touch()
    wanted = DnfPackages(NODE, bundle=DIGEST, slurm=EL_SMD.slurm_packages, slurm_version="24.11.*")
    assert apply(wanted, dark).status == "failed"
    mark.unlink()
    shutil.rmtree(dark.path(bundle_place.PLACE))
    assert len(staged(dark, folder, index, *NODE)) == len(NODE)
    assert apply(wanted, dark).status == "changed"
    assert apply(DnfPackages(NODE), Context(dark.root, dry_run=True)).status == "ok"


def test_a_bundle_when_it_lacks_a_package_then_that_is_said(el: Context, dark: Context, tmp_path: Path) -> None:
    folder, index = collected(el, tmp_path / "place", names=("munge",))
    with pytest.raises(ResourceFailed, match=r"cannot be installed from the bundle: .*slurm-slurmd.*fab bundle"):
        staged(dark, folder, index, "munge", "slurm-slurmd")


def test_a_host_without_createrepo_when_packages_are_collected_then_that_is_said_before_any_is_downloaded(
    el: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    with pytest.raises(ResourceFailed, match="needs the program createrepo_c here"):
        collected(el, tmp_path / "place")
