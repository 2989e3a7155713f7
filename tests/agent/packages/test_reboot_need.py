"""Why a host needs a reboot: by a package's word, and by its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.packages import updates

BUILD = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.115-1 (2024-11-01)"
RELEASE = "6.1.0-25-amd64"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A scratch root with the kernel that runs."""
    (tmp_path / "boot").mkdir()
    (tmp_path / "run/systemd").mkdir(parents=True)
    kernels(tmp_path, RELEASE)
    return tmp_path


def kernels(host: Path, *releases: str) -> None:
    for release in releases:
        (host / f"boot/vmlinuz-{release}").touch()


def reasons(host: Path, release: str = RELEASE, build: str = BUILD) -> list[str]:
    return updates.reboot_reasons(str(host), release, build)


def test_a_host_with_the_kernel_that_runs_needs_no_reboot(host: Path) -> None:
    assert reasons(host) == []


@pytest.mark.parametrize(
    ("release", "newer"),
    [
        (RELEASE, "6.1.0-28-amd64"),
        ("6.12.38+deb13-amd64", "6.12.41+deb13-amd64"),
        ("6.8.0-45-generic", "6.8.0-100-generic"),
        ("5.15.0-9-lowlatency-hwe", "5.15.0-10-lowlatency-hwe"),
    ],
)
def test_a_newer_kernel_of_the_same_flavour_needs_a_reboot(host: Path, release: str, newer: str) -> None:
    kernels(host, release, newer)
    assert reasons(host, release) == [f"kernel {release} runs, {newer} is installed"]


def test_an_older_kernel_and_one_of_another_flavour_need_none(host: Path) -> None:
    kernels(host, "6.1.0-9-amd64", "6.12.9-cloud-amd64", "old", "6.1.0-25-amd64.dpkg-new")
    assert reasons(host) == []


def test_a_package_rebuilt_under_the_same_release_needs_a_reboot(host: Path) -> None:
    (host / "var/lib/dpkg").mkdir(parents=True)
    status = f"Package: linux-image-{RELEASE}\nStatus: install ok installed\nVersion: 6.1.119-1\n"
    (host / "var/lib/dpkg/status").write_text(status)
    assert reasons(host) == [f"kernel {RELEASE} of 6.1.115-1 runs, 6.1.119-1 is installed"]
    assert reasons(host, build="#45-Ubuntu SMP") == []


def test_the_kernel_of_a_containers_machine_and_one_from_the_network_say_nothing(host: Path) -> None:
    kernels(host, "6.1.0-28-amd64")
    assert reasons(host, "6.18.5") == []
    assert reasons(host, "6.1.0-20-amd64") == []
    (host / "run/systemd/container").write_text("systemd-nspawn\n")
    assert reasons(host) == []


def test_packages_that_ask_for_a_reboot_are_named_and_needrestart_asks_without_one(host: Path) -> None:
    (host / "run/reboot-required").touch()
    assert reasons(host) == ["/run/reboot-required asks for it"]
    (host / "run/reboot-required.pkgs").write_text("libc6\nlinux-image-6.1.0-28-amd64\nlibc6\n")
    assert reasons(host) == ["libc6, linux-image-6.1.0-28-amd64 asks for it"]
