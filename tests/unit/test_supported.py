"""The record of what tests deployed to, and the tables that are made from it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import deployed
import pytest
import tried
from deployed import REPOSITORY, Combination
from golden_cases import READ_BY, VERSIONS
from suites import DEFAULT

from reference import supported
from slurmfab import lab
from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.slurm.versions import DISTRIBUTION, SlurmVersion
from slurmfab.lab.ubuntu_like import LIKES

FACTS = {
    "trixie": "slurm-wlm 24.11.5\nslurmctld.list\namd64\n/usr/bin/python3.13\n",
    "noble": "slurm 26.05.5\nslurm-smd-slurmd.list\narm64\n/usr/bin/python3.12\n",
}
TRIXIE = Combination("trixie", "24.11", "debian", "amd64", "3.13")
NOBLE = Combination("noble", "26.05", "debian-smd", "arm64", "3.12")


def test_facts_when_a_host_tells_them_then_series_and_kind_of_packages_are_known() -> None:
    assert deployed.parse("trixie", FACTS["trixie"]) == TRIXIE
    assert deployed.parse("noble", FACTS["noble"], "tests/lab/test_x.py") == replace(NOBLE, test="tests/lab/test_x.py")


def test_a_record_when_it_is_renewed_then_it_keeps_what_was_not_deployed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployed, "RECORD", tmp_path / "deployed.json")
    monkeypatch.setattr(deployed, "SEEN", tmp_path / "seen")
    (tmp_path / "deployed.json").write_text(
        json.dumps([vars(replace(NOBLE, test="tests/lab/test_x.py")), vars(replace(TRIXIE, python="3.12"))])
    )
    (tmp_path / "seen").mkdir()
    seen = replace(TRIXIE, test="tests/lab/test_deploy.py")
    (tmp_path / "seen" / "one.json").write_text(json.dumps(vars(seen)))
    assert deployed.missing([seen, NOBLE, replace(TRIXIE, architecture="arm64")]) == (
        replace(TRIXIE, architecture="arm64"),
    )
    assert deployed.renew() == (replace(NOBLE, test="tests/lab/test_x.py"), TRIXIE)
    assert deployed.recorded() == (replace(NOBLE, test="tests/lab/test_x.py"), TRIXIE)


@pytest.mark.parametrize("one", deployed.recorded(), ids=lambda one: "-".join(one.key))
def test_what_the_record_claims_is_deployed_to_by_a_test(one: Combination) -> None:
    if not one.test:
        assert one.suite in DEFAULT
        assert one.is_its_suites_own
        return
    text = (REPOSITORY / one.test).read_text()
    assert one.suite in {*lab.SUITES, *LIKES}
    assert one.packages == "debian" or "smd" in text


def test_the_record_has_every_suite_that_all_tests_on_hosts_are_played_on() -> None:
    assert {one.suite for one in deployed.recorded() if not one.test} >= {"bookworm", "trixie"}


def test_every_release_is_deployed_to_or_rendered_or_refused() -> None:
    assert set(supported.RELEASES) == set(DISTRIBUTION)
    for row in supported.rows():
        if row.tests == supported.REFUSED:
            with pytest.raises(SlurmfabError, match="too old"):
                SlurmVersion.parse(row.slurm)
        else:
            assert row.slurm in VERSIONS


def test_files_that_a_real_slurm_reads_are_of_kept_versions() -> None:
    assert set(READ_BY.values()) <= set(VERSIONS)
    assert all(DISTRIBUTION[suite] == series for suite, series in READ_BY.items())


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another record of machines, without any, and no run that has passed."""
    monkeypatch.setattr(tried, "RECORD", tmp_path / "tried.json")
    monkeypatch.setattr(tried, "PASSED", tmp_path / "passed")
    return tmp_path / "tried.json"


@pytest.mark.skipif(shutil.which("systemd-nspawn") is None, reason="no lab has ever been here: no systemd-nspawn")
def test_a_command_that_passes_twice_and_fails_then_counts_from_the_failure_on(record: Path) -> None:
    for kind, passed in (("demo", True), ("demo", True), ("test", True), ("test", False), ("test", True)):
        tried.note(kind, passed)
    here = tried.this_machine()
    assert (here.demo, here.test) == (2, 1)
    elsewhere = replace(here, release="elsewhere", demo=7)
    record.write_text(json.dumps([vars(elsewhere), vars(replace(here, systemd="1"))]))
    tried.renew()
    assert set(tried.recorded()) == {here, elsewhere}


def test_the_record_of_machines_tells_what_has_passed_there_on_releases_that_are_known() -> None:
    for one in tried.recorded():
        assert one.release in supported.RELEASES
        assert one.demo or one.test


def test_the_record_of_typed_pages_has_those_of_the_table_on_releases_that_are_known() -> None:
    record = json.loads(tried.FOLLOWED.read_text())
    assert set(record) <= set(supported.PAGES)
    assert {release for found in record.values() for release in found} <= {*supported.RELEASES, *LIKES}


def test_pages_that_were_typed_replace_those_of_the_record(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "FOLLOWED", record.with_name("followed.json"))
    for page, release in (("docs/tutorial.md", "trixie"), ("README.md", "trixie"), ("README.md", "bookworm")):
        tried.note_followed(page, release)
    tried.renew_followed()
    assert json.loads(tried.FOLLOWED.read_text()) == {
        "README.md": ["bookworm", "trixie"],
        "docs/tutorial.md": ["trixie"],
    }
    tried.note_followed("README.md", "ubuntu-26.04")
    tried.renew_followed()
    assert json.loads(tried.FOLLOWED.read_text())["README.md"] == ["bookworm", "trixie", "ubuntu-26.04"]
    (record.parent / "passed/followed/docs/tutorial.md/trixie").unlink()
    for release in ("bookworm", "trixie"):
        (record.parent / "passed/followed/README.md" / release).unlink()
    tried.renew_followed()
    assert json.loads(tried.FOLLOWED.read_text())["docs/tutorial.md"] == ["trixie"]
