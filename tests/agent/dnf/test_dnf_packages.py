"""Packages of dnf: installed, held, completed after a kill, and errors in people's words; with the real rpm and dnf."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import failure
from rpm_packages import Given, Repository, installed, run, write_sources

from slurmfab.cluster.inventory import rpm_files
from slurmfab.cluster.slurm.platform import EL_SMD
from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.dnf import dnf, dnf_offer, dnf_updates, slurm_repository
from slurmfab.on_hosts.agent.dnf.dnf_packages import DnfPackages
from slurmfab.on_hosts.agent.dnf.dnf_removals import DnfFormerPackages, DnfRemovedPackages
from slurmfab.on_hosts.agent.dnf.dnf_updates import DnfUpdates
from slurmfab.on_hosts.agent.facts import facts
from slurmfab.on_hosts.agent.packages import added_packages, bundle_place, bundle_staging
from slurmfab.on_hosts.agent.upgrade.exchanged_rpms import DnfExchangedPackages

WAITS = 1.0  # seconds for which a lock is held
NODE = ("munge", "slurm", "slurm-slurmd")


def wanted(*names: str, version: str = "24.11.*") -> DnfPackages:
    return DnfPackages(names, slurm=EL_SMD.slurm_packages, slurm_version=version)


def converged(resource: DnfPackages, context: Context) -> Outcome:
    """The outcome of a resource that was converged, and that differs in nothing afterwards."""
    outcome = apply(resource, context)
    assert outcome.status == "changed", outcome
    again = apply(resource, Context(context.root, dry_run=True))
    assert again.status == "ok", again
    return outcome


def test_packages_when_installed_then_they_have_the_wanted_version_and_are_on_record(el: Context) -> None:
    outcome = converged(wanted(*NODE), el)
    assert {change.name: change.wanted for change in outcome.changes} == dict.fromkeys(NODE, "installed")
    assert installed(el) == {"munge": "0.5.13", "slurm": "24.11.5", "slurm-slurmd": "24.11.5"}
    assert added_packages.read(el) == {*NODE}


def test_facts_when_the_packages_are_rpms_then_they_have_the_versions(el: Context, given: Given) -> None:
    given("munge")
    assert facts.packages(el.root, ["munge", "slurm"]) == {
        "packages": {"munge": "0.5.13-1.el9"},
        "unfinished_packages": [],
    }


def test_a_package_of_slurms_when_others_are_there_then_it_gets_their_version(el: Context, given: Given) -> None:
    given("munge", "slurm")
    converged(wanted(*NODE, version="26.05.*"), el)
    assert installed(el)["slurm-slurmd"] == "24.11.5"


def test_slurm_when_all_packages_are_upgraded_by_hand_then_it_stays_as_it_is(el: Context, given: Given) -> None:
    given(*NODE)
    run("dnf", "--installroot", el.root, "-y", "-q", "upgrade")
    assert installed(el)["slurm"] == "24.11.5"


@pytest.mark.parametrize("killed_in", ["munge", "slurm"])
def test_an_installation_that_was_killed_when_applied_again_then_it_is_complete(el: Context, killed_in: str) -> None:
    mark = Path(el.path(f"/kill-{killed_in}"))
    mark.touch()
    assert apply(wanted(*NODE), el).status == "failed"
    mark.unlink()
    # So no program that is there counts as one of no package.
    assert facts.packages(el.root, NODE)["unfinished_packages"] == [*NODE]
    dry = apply(wanted(*NODE), Context(el.root, dry_run=True))
    assert "unfinished" in {change.name for change in dry.changes}
    converged(wanted(*NODE), el)
    assert {*installed(el)} == {*NODE}


def test_an_upgrade_that_was_killed_when_applied_again_then_no_package_is_there_twice(
    el: Context, given: Given
) -> None:
    given("munge", "slurm")
    mark = Path(el.path("/kill-slurm"))
    mark.touch()
    dnf.dnf(el, ["upgrade", "slurm"])
    mark.unlink()
    assert dnf.killed(el).double == ("slurm",)
    converged(wanted("munge", "slurm"), el)
    shown = run("rpm", "--root", el.root, "--query", "slurm")
    assert shown.split() == ["slurm-26.05.1-1.el9.noarch"]


def test_a_transaction_that_goes_on_when_looked_at_then_it_counts_as_unfinished_for_nobody(el: Context) -> None:
    Path(el.path("/kill-munge")).touch()
    apply(wanted("munge"), el)
    with locked(el):
        assert dnf.killed(el).packages == ()
    assert dnf.killed(el).packages == ("munge",)


@contextmanager
def locked(context: Context) -> Iterator[subprocess.Popen[str]]:
    """A context in which another process holds rpm's lock, until its input ends."""
    text = (
        "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); print('held', flush=True)"
    )
    argv = ["python3", "-c", f"{text}; sys.stdin.read()", context.path("/var/lib/rpm/.rpm.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.communicate()


def test_a_lock_that_another_program_holds_when_packages_are_installed_then_it_is_waited_for(
    el: Context, given: Given
) -> None:
    given("munge")
    with locked(el) as holder:
        threading.Timer(WAITS, holder.communicate).start()
        before = time.monotonic()
        converged(wanted("munge", "slurm"), el)
        assert time.monotonic() - before > WAITS


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("slurm-pam_slurm", "this host's package sources have no package slurm-pam_slurm-24.11.*"),
        ("needs-more", "dependencies cannot be met: "),
        ("broken", "the prein script of the package broken failed"),
        ("same-file", "/usr/sbin/munge is of two packages"),
        ("unsigned", "is not signed, so nothing was installed"),
    ],
)
def test_a_package_that_cannot_be_installed_when_applied_then_the_reason_is_said(
    el: Context, given: Given, name: str, words: str
) -> None:
    given("munge")
    message = failure(wanted("munge", name), el)
    assert words in message, message


def test_packages_in_files_when_installed_or_killed_then_no_source_has_to_have_them(
    el: Context, given: Given, repository: Repository
) -> None:
    given("munge")
    Path(el.path(slurm_repository.PATH)).unlink()
    known = {one.name: one for one in map(rpm_files.package_in, repository.folder.rglob("*-24.11.5-*.rpm"))}
    files = tuple((name, known[name].file_name, known[name].digest()) for name in ("slurm", "slurm-slurmd"))
    digest = bundle_place.digest_of((file, sha256) for _, file, sha256 in files)
    bundle_staging.begin_files(el, digest, {file: sha256 for _, file, sha256 in files}, (1, 1))
    for name, file, _ in files:
        shutil.copy(known[name].path, f"{el.path(bundle_place.place_of(digest))}/{file}")
    resource = replace(wanted(*NODE), files=files, versions=tuple(f"{name}=24.11.5-1.el9" for name, *_ in files))
    mark = Path(el.path("/kill-slurm"))
    mark.touch()
    assert apply(resource, el).status == "failed"
    mark.unlink()
    converged(resource, el)
    assert installed(el) == {"munge": "0.5.13", "slurm": "24.11.5", "slurm-slurmd": "24.11.5"}
    assert not Path(el.path(bundle_place.PLACE)).exists()


def test_an_example_of_settings_when_its_package_is_installed_then_it_is_no_cluster(el: Context) -> None:
    example = Path(el.path("/etc/slurm/slurmdbd.conf"))
    converged(wanted("munge", "slurm-slurmdbd"), el)
    assert not example.exists()
    run("dnf", "--installroot", el.root, "--disableexcludes=all", "-y", "-q", "reinstall", "slurm-slurmdbd")
    example.write_text("DbdHost=db1\n")
    assert apply(wanted("munge", "slurm-slurmdbd"), el).status == "ok"
    assert example.exists()


def test_a_newer_slurm_when_exchanged_then_all_its_packages_have_it_and_others_stay(el: Context, given: Given) -> None:
    given(*NODE)
    request = {"names": EL_SMD.slurm_packages, "plugins": ["/usr/lib64/slurm"], "version": "26.05.*"}
    offer = dnf_offer.read(request, el)
    new = {"slurm": "26.05.1-1.el9", "slurm-slurmd": "26.05.1-1.el9"}
    assert (offer["versions"], offer["others"], offer["removed"], offer["trouble"]) == (new, {}, [], "")
    assert offer["offered"] == ["26.05.1-1.el9", "24.11.5-1.el9"]
    exchange = DnfExchangedPackages(tuple(f"{name}={version}" for name, version in new.items()))
    assert apply(exchange, el).status == "changed"
    assert apply(exchange, el).status == "ok"
    assert installed(el) == {"munge": "0.5.13", "slurm": "26.05.1", "slurm-slurmd": "26.05.1"}
    mark = Path(el.path("/kill-slurm"))
    mark.touch()
    back = DnfExchangedPackages(("slurm=24.11.5-1.el9", "slurm-slurmd=24.11.5-1.el9"))
    assert apply(back, el).status == "failed"
    mark.unlink()
    assert apply(back, el).status == "changed"
    assert installed(el)["slurm-slurmd"] == "24.11.5"


def test_a_newer_slurm_when_the_source_does_not_have_it_then_nothing_is_offered(el: Context, given: Given) -> None:
    assert "none of Slurm's packages" in dnf_offer.read({"names": ("slurm",), "plugins": []}, el)["trouble"]
    given(*NODE)
    offer = dnf_offer.read({"names": EL_SMD.slurm_packages, "plugins": [], "version": "25.11.*"}, el)
    assert (offer["versions"], offer["trouble"]) == ({}, "")


def test_updates_when_read_and_installed_then_slurm_stays_as_it_is(el: Context, given: Given) -> None:
    given(*NODE)
    told = dnf_updates.read({"slurm": EL_SMD.slurm_packages}, el)
    assert told["packages"] == []
    newer = ["24.11.5-1.el9", "26.05.1-1.el9", "slurm"]
    assert told["kept"] == [["slurm", *newer], ["slurm-slurmd", *newer]]
    run("dnf", "--installroot", el.root, "-y", "-q", "install", "site-tool-1.0")
    told = dnf_updates.read({"slurm": EL_SMD.slurm_packages}, el)
    assert told["packages"] == [["site-tool", "1.0-1.el9", "24.11.5-1.el9", False]]
    assert dnf_updates.read({"slurm": EL_SMD.slurm_packages, "security": True}, el)["packages"] == []
    update = DnfUpdates(("site-tool=24.11.5-1.el9",), EL_SMD.slurm_packages)
    assert apply(update, el).status == "changed"
    assert apply(update, el).status == "ok"
    assert installed(el)["slurm"] == "24.11.5"


@pytest.mark.parametrize(
    ("running", "installed", "reasons"),
    [
        ("5.14.0-427.13.1.el9_4.x86_64", ("5.14.0-427.13.1.el9_4.x86_64",), []),
        (
            "5.14.0-427.13.1.el9_4.x86_64",
            ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.9.1.el9_4.x86_64", "5.14.0-503.1.1.el9_5.x86_64"),
            ["kernel 5.14.0-427.13.1.el9_4.x86_64 runs, 5.14.0-503.1.1.el9_5.x86_64 is installed"],
        ),
        ("6.1.0-25-amd64", ("5.14.0-503.1.1.el9_5.x86_64",), []),
    ],
)
def test_a_reboot_when_a_newer_kernel_is_installed_then_it_is_due(
    tmp_path: Path, running: str, installed: tuple[str, ...], reasons: list[str]
) -> None:
    (tmp_path / "boot").mkdir()
    for release in installed:
        (tmp_path / f"boot/vmlinuz-{release}").touch()
    assert dnf_updates.reboot_reasons(str(tmp_path), running) == reasons


def test_packages_of_another_key_when_installed_then_nothing_is(el: Context, repository: Repository) -> None:
    write_sources(el, repository.folder, repository.other_key)
    outcome = apply(wanted("munge"), el)
    assert outcome.message.startswith("packages are signed by another key"), outcome.message
    assert installed(el) == {}


def test_a_source_that_is_away_when_packages_are_installed_then_it_is_named(el: Context, tmp_path: Path) -> None:
    write_sources(el, tmp_path / "away", "")
    outcome = apply(wanted("munge"), el)
    assert "cannot be reached (Curl error (37): " in outcome.message, outcome.message


def test_epel_with_packages_of_the_same_names_when_planned_then_the_host_is_refused(el: Context) -> None:
    epel = Path(el.path("/etc/yum.repos.d/epel.repo"))
    epel.write_text("[epel]\nname=EPEL\nenabled=1\nmetalink=https://example.org/epel\n")
    outcome = apply(wanted("munge"), Context(el.root, dry_run=True))
    assert "Write a line excludepkgs=slurm* into that section" in outcome.message
    epel.write_text(epel.read_text() + "excludepkgs=slurm*\n")
    assert apply(wanted("munge"), Context(el.root, dry_run=True)).status == "would change"


def test_a_program_that_somebody_removed_when_applied_then_it_is_back(el: Context, given: Given) -> None:
    given(*NODE)
    Path(el.path("/usr/sbin/slurm-slurmd")).unlink()
    outcome = converged(wanted(*NODE), el)
    assert outcome.changes[0].actual == "/usr/sbin/slurm-slurmd of slurm-slurmd"
    assert Path(el.path("/usr/sbin/slurm-slurmd")).exists()


def test_former_packages_when_removed_then_what_others_need_stays(el: Context, given: Given) -> None:
    given("munge", "slurm", "site-tool")
    outcome = apply(DnfFormerPackages(("munge", "site-tool")), el)
    assert outcome.message == "munge stays, because other packages need it"
    assert {*installed(el)} == {"munge", "slurm"}
    assert added_packages.read(el) == {"slurm"}


def test_packages_when_removed_then_no_daemon_of_the_cluster_goes_with_them(el: Context, given: Given) -> None:
    given(*NODE)
    kept = apply(DnfRemovedPackages(("slurm",), ("slurm-slurmd",)), el)
    assert "slurm-slurmd" in kept.message, kept.message
    assert {*installed(el)} == {*NODE}
    assert apply(DnfRemovedPackages(("slurm", "slurm-slurmd"), ()), el).status == "changed"
    assert {*installed(el)} == {"munge"}
