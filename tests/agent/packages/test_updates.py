"""Updates of a host's packages: what apt says there is, what stays as it is, and what is installed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.packages import daemon_policy, updates
from slurmfab.on_hosts.agent.packages.updates import Candidate, Updates

OUTPUT = Path(__file__).with_name("apt_output")
"""What `apt-get -q -s --with-new-pkgs upgrade` printed on hosts of both suites."""

PACKAGE = "Package: {}\nStatus: {} ok installed\nArchitecture: amd64\nVersion: {}\n"
TICK, SLURMD, TOCK = ("tick", "1.0"), ("slurmd", "22.05.8"), ("tock", "3")
NEW_TICK = "Inst tick [1.0] (1.1 Debian-Security:12/oldstable-security [amd64])\n"
NEW_TOCK = "Inst tock [3] (4 Debian:12.15/oldstable [amd64])\n"
NEW_SLURMD = "Inst slurmd [22.05.8] (22.05.9 Debian-Security:12/oldstable-security [amd64])\n"
SLURM = ("slurmd", "slurm-*")


def read(suite: str) -> list[Candidate]:
    return updates.simulated_candidates((OUTPUT / f"{suite}.txt").read_text())


def test_real_output_of_bookworm_when_read_tells_versions_and_security_fixes() -> None:
    found = {one.name: one for one in read("bookworm")}
    assert sorted(found) == ["apt", "base-files", "libc-bin", "libgnutls30", "libssl3", "openssl", "sudo", "tar"]
    assert found["libssl3"] == Candidate("libssl3", "3.0.22-1~deb12u2~", "3.0.22-1~deb12u2", True)
    assert [name for name, one in found.items() if one.is_security] == ["apt", "libgnutls30", "libssl3", "openssl"]


def test_real_output_of_trixie_when_read_counts_a_version_that_is_in_both_archives_as_security() -> None:
    found = {one.name: one for one in read("trixie")}
    assert [name for name, one in found.items() if one.is_security] == ["apt"]
    assert found["base-files"] == Candidate("base-files", "13.8+deb13u8~", "13.8+deb13u8", False)


@pytest.mark.parametrize(
    ("origins", "is_security"),
    [
        (" Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security", True),
        (" UbuntuESMApps:24.04/noble-apps-security", True),
        (" Debian:13.8/stable", False),
        (" Our-security-team:1/stable", False),
        (" localhost", False),
        ("", False),
    ],
)
def test_an_origin_is_for_security_by_its_archive_alone(origins: str, is_security: bool) -> None:
    assert updates.is_security(origins) is is_security


def test_new_packages_and_sources_without_a_name_are_read_too() -> None:
    printed = "Inst kernel-2 (2.0 localhost [all])\nInst meta [1.0] (1.1 [all]) []\nConf meta (1.1 [all])\n"
    assert updates.simulated_candidates(printed) == [
        Candidate("kernel-2", "", "2.0", False),
        Candidate("meta", "1.0", "1.1", False),
    ]
    assert updates.simulated_removals("Remv tock [1.0]\nRemv tuck [1] [x:amd64 ]\n") == ["tock", "tuck"]


class Apt(Context):
    """A host whose apt knows newer versions, leaves alone what it is told to, and installs the rest.

    Args:
        root: the scratch root.
        lines: a line of the simulation for each package that has a newer version.
        code: the exit code of an installation.
    """

    def __init__(self, root: Path, lines: Sequence[str], code: int = 0) -> None:
        super().__init__(str(root))
        self.lines, self.code = list(lines), code
        self.calls: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.calls.append(tuple(argv))
        printed = ""
        if argv[0] == "apt-get":
            names = self.left_alone(argv)
            due = [line for line in self.lines if line.split()[1] not in names]
            printed = "".join(due)
            if "--simulate" not in argv and not self.code:
                self.install(due)
        is_newer = argv[0] == "dpkg" and argv[1] == "--compare-versions" and argv[2] > argv[4]
        code = self.code if argv[0] == "apt-get" and "--simulate" not in argv else 0
        return subprocess.CompletedProcess(
            argv, 1 if argv[0] == "dpkg" and not is_newer else code, printed.encode(), b""
        )

    def left_alone(self, argv: Sequence[str]) -> list[str]:
        """The packages that the preferences of this call forbid."""
        options = [word for word in argv if word.startswith("Dir::Etc::Preferences=")]
        if not options:
            return []
        text = Path(options[0].partition("=")[2]).read_text()
        return text.partition("\n")[0].split()[1:]

    def install(self, lines: Sequence[str]) -> None:
        status = Path(self.path("/var/lib/dpkg/status"))
        text = status.read_text()
        for line in lines:
            _, name, old, new = line.split()[:4]
            text = text.replace(
                PACKAGE.format(name, "install", old.strip("[]")), PACKAGE.format(name, "install", new.strip("("))
            )
        status.write_text(text)


@pytest.fixture
def host(root: Path) -> Path:
    """A scratch root with three packages."""
    for folder in ("run", "usr/sbin", "var/lib/dpkg/updates", "var/lib/apt/lists", "proc", "etc/apt"):
        (root / folder).mkdir(parents=True)
    have(root)
    return root


def have(root: Path, selected: str = "install") -> None:
    texts = [PACKAGE.format(name, "install" if name != "tock" else selected, v) for name, v in (TICK, SLURMD, TOCK)]
    (root / "var/lib/dpkg/status").write_text("\n".join(texts) + "\n")


def told(context: Context, **request: Any) -> dict[str, Any]:
    return updates.read({"slurm": SLURM, **request}, context)


def test_slurms_own_packages_are_told_and_never_updated(host: Path) -> None:
    found = told(Apt(host, [NEW_TICK, NEW_TOCK, NEW_SLURMD]))
    assert found["packages"] == [["tick", "1.0", "1.1", True], ["tock", "3", "4", False]]
    assert found["kept"] == [["slurmd", "22.05.8", "22.05.9", "slurm"]]
    assert list((host / "run").iterdir()) == []


def test_with_security_alone_other_updates_are_neither_made_nor_told(host: Path) -> None:
    found = told(Apt(host, [NEW_TICK, NEW_TOCK, NEW_SLURMD]), security=True)
    assert found["packages"] == [["tick", "1.0", "1.1", True]]
    assert [one[0] for one in found["kept"]] == ["slurmd"]


def test_the_sites_own_preferences_stay_in_force(host: Path) -> None:
    (host / "etc/apt/preferences").write_text("Package: x\nPin: version 1\nPin-Priority: 1001\n")
    with updates.left_alone(Context(str(host)), ["b", "a"]) as options:
        text = Path(options[1].partition("=")[2]).read_text()
    assert text.startswith("Package: a b\nPin: release *\nPin-Priority: -1\n\nPackage: x\n")


def test_packages_when_updated_are_those_of_the_plan_and_no_others(host: Path) -> None:
    apt = Apt(host, [NEW_TICK, NEW_TOCK, NEW_SLURMD])
    outcome = apply(Updates(("tick=1.1",), SLURM), apt)
    assert (outcome.status, [(one.name, one.actual, one.wanted) for one in outcome.changes]) == (
        "changed",
        [("tick", "1.0", "1.1")],
    )
    text = (host / "var/lib/dpkg/status").read_text()
    assert [line for line in text.splitlines() if "Version" in line] == [
        "Version: 1.1",
        "Version: 22.05.8",
        "Version: 3",
    ]
    (call,) = [one for one in apt.calls if one[0] == "apt-get" and "--simulate" not in one]
    assert {"--no-remove", "--no-install-recommends", "Dpkg::Options::=--force-confold", "upgrade"} <= set(call)
    assert apply(Updates(("tick=1.1",), SLURM), apt).status == "ok"
    assert apply(Updates(("tick=1.0",), SLURM), apt).status == "ok"


def test_an_update_that_fails_says_why_and_leaves_no_policy_behind(host: Path) -> None:
    outcome = apply(Updates(("tick=1.1",), SLURM), Apt(host, [NEW_TICK], code=100))
    assert (outcome.status, "apt-get failed" in outcome.message) == ("failed", True)
    assert (daemon_policy.leftover(Context(str(host))), list((host / "run").iterdir())) == (None, [])


def test_apt_that_refuses_is_an_error_unless_dpkg_is_unfinished(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> str:
        raise ResourceFailed("dependencies cannot be met")

    monkeypatch.setattr(updates, "simulate_upgrade", refuse)
    with pytest.raises(ResourceFailed, match="dependencies cannot be met"):
        told(Apt(host, []))
    status = host / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace("ok installed", "ok half-configured", 1))
    found = told(Apt(host, []))
    assert (found["packages"], found["unfinished"]) == ([], "tick half-configured")


def test_lists_that_were_never_fetched_have_no_age(host: Path) -> None:
    assert told(Apt(host, []))["age"] == -1
    (host / "var/lib/apt/lists/x_Packages").touch()
    assert 0 <= told(Apt(host, []))["age"] < 60


def test_mariadb_and_further_daemons_are_restarted_by_their_own_scripts(host: Path) -> None:
    context = Context(str(host))
    with daemon_policy.daemons_wait(context, updates.BY_ITS_SCRIPTS):
        text = (host / "usr/sbin/policy-rc.d").read_text()
    start = {
        unit: subprocess.run(["sh", "-c", text, "policy-rc.d", unit, "start"], check=False).returncode
        for unit in ("mariadb.service", "nfs-server.service", "slurmd.service")
    }
    assert start == {"mariadb.service": 0, "nfs-server.service": 0, "slurmd.service": 101}
