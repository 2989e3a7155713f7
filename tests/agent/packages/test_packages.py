"""Packages: the parts that need no package manager; the lab tests the rest."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.facts.facts import packages
from slurmfab.on_hosts.agent.packages import apt, apt_errors, daemon_policy, dpkg_status, unfinished
from slurmfab.on_hosts.agent.packages.packages import Packages

STATUS = b"""Package: munge
Status: install ok installed

Package: slurmd
Status: install ok half-configured

Package: slurmctld
Status: deinstall ok config-files

Package: libpmix2
Architecture: i386
Status: install ok installed

Package: libpmix2
Architecture: amd64
Status: install ok unpacked
"""


@pytest.fixture
def dpkg(root: Path) -> Path:
    """A scratch root with a dpkg status file and the places for policies and lists."""
    for folder in ("usr/sbin", "var/lib/dpkg/updates", "var/lib/apt/lists/partial"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_bytes(STATUS)
    return root


def test_packages_have_the_states_that_dpkg_notes() -> None:
    names = ("munge", "slurmd", "slurmctld", "libpmix2", "ghost")
    assert dpkg_status.states(STATUS, names) == {
        "munge": "installed", "slurmd": "half-configured", "libpmix2": "installed"
    }  # fmt: skip


def test_packages_when_some_are_missing_are_named_one_by_one(dpkg: Path) -> None:
    outcome = apply(Packages(("munge", "slurmd", "ghost")), Context(str(dpkg), dry_run=True))
    assert outcome.id == "packages:munge,slurmd,ghost"
    assert {change.name: change.actual for change in outcome.changes} == {"slurmd": "half-configured", "ghost": ""}


@pytest.mark.parametrize("own", [None, "#!/bin/sh\nexit 42\n"])
def test_a_policy_that_an_interrupted_run_left_is_removed_and_the_hosts_own_put_back(
    dpkg: Path, own: str | None
) -> None:
    (dpkg / "var/lib/dpkg/status").write_bytes(STATUS.split(b"\n\n")[0])
    context = Context(str(dpkg))
    policy = dpkg / "usr/sbin/policy-rc.d"
    if own:
        (dpkg / "usr/sbin/.policy-rc.d.before-slurmfab").write_text(own)
    policy.write_bytes(b"#!/bin/sh\n" + daemon_policy.script())
    outcome = apply(Packages(("munge",)), context)
    assert [(change.name, change.actual) for change in outcome.changes] == [
        ("policy-rc.d", "left by an interrupted run")
    ]
    assert outcome.status == "changed"
    assert (policy.read_text() if policy.exists() else None) == own
    assert len(list((dpkg / "usr/sbin").iterdir())) == (1 if own else 0)


@pytest.mark.needs_root("the policy is root's")
@pytest.mark.parametrize("own", [None, "#!/bin/sh\nexit 42\n"])
def test_a_policy_when_packages_are_installed_forbids_only_the_start_of_daemons_that_a_phase_sets_up(
    dpkg: Path, own: str | None
) -> None:
    policy = dpkg / "usr/sbin/policy-rc.d"
    kept = str(dpkg) + daemon_policy.SAVED_POLICY
    if own:
        policy.write_text(own)
        policy.chmod(0o755)

    def answer(unit: str, action: str = "start") -> int:
        script = policy.read_text().replace(daemon_policy.SAVED_POLICY, kept)
        return subprocess.run(["sh", "-c", script, "policy-rc.d", unit, action], check=False).returncode

    with daemon_policy.daemons_wait(Context(str(dpkg))):
        assert {answer(unit) for unit in ("munge", "munge.service", "slurmd", "slurmctld.service", "mariadb")} == {101}
        new = {"jupyterhub.service", "docker.socket", "nfs-server.service", "rpcbind.socket", "quotarpc"}
        assert {*map(answer, new)} == {101}
        others = {answer(unit) for unit in ("ssh.service", "dbus.socket", "nginx.service", "logrotate.timer")}
        assert others == {answer("jupyterhub.service", "restart")} == {42 if own else 0}
    with daemon_policy.daemons_wait(Context(str(dpkg)), daemon_policy.of_site(["docker.io", "jupyterhub", "htop"])):
        assert (answer("docker.service"), answer("jupyterhub.service")) == (42 if own else 0, 101)
    assert (policy.read_text() if policy.exists() else None) == own


def test_lists_when_missing_or_a_day_old_are_not_fresh(dpkg: Path) -> None:
    context, lists = Context(str(dpkg)), dpkg / "var/lib/apt/lists"
    now = lists.stat().st_mtime
    assert not apt.lists_are_fresh(context, now)
    (lists / "deb_dists_bookworm_main_binary-amd64_Packages.lz4").touch()
    now = (lists / "partial").stat().st_mtime
    assert apt.lists_are_fresh(context, now + 3600)
    assert not apt.lists_are_fresh(context, now + 90000)


class Apt(Context):
    """A host whose apt-get ends as given, run by run; `programs` lists the runs."""

    def __init__(self, root: Path, *ends: tuple[int, str]) -> None:
        super().__init__(str(root))
        self.ends = list(ends)
        self.programs: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.programs.append(tuple(argv))
        code, output = self.ends.pop(0) if self.ends else (0, "")
        return subprocess.CompletedProcess(argv, code, output.encode(), b"")

    @property
    def verbs(self) -> list[str]:
        return [next(word for word in argv if word in ("update", "install")) for argv in self.programs]


@pytest.fixture
def fresh(dpkg: Path) -> Path:
    """A host with one package, and with lists of today."""
    (dpkg / "var/lib/dpkg/status").write_bytes(STATUS.split(b"\n\n")[0])
    (dpkg / "var/lib/apt/lists/deb_dists_bookworm_main_binary-amd64_Packages.lz4").touch()
    return dpkg


STALE = (100, "E: Failed to fetch slurmd.deb  404  Not Found\nE: Unable to fetch some archives\n")
UNKNOWN = (100, "E: Unable to locate package slurmd\n")
BROKEN = (100, "dpkg: error processing package slurmd (--configure):\n no\n")


@pytest.mark.parametrize(
    ("ends", "verbs"),
    [
        ((), ["install"]),
        ((STALE,), ["install", "update", "install"]),
        ((UNKNOWN,), ["install", "update", "install"]),
        ((UNKNOWN, (0, ""), UNKNOWN), ["install", "update", "install"]),
        ((BROKEN,), ["install"]),
    ],
    ids=["there", "a newer one replaced it", "not in the lists", "nowhere", "its script fails"],
)
def test_lists_when_a_package_of_them_is_not_to_be_had_are_fetched_again_and_once(
    fresh: Path, ends: tuple[tuple[int, str], ...], verbs: list[str]
) -> None:
    host = Apt(fresh, *ends)
    outcome = apply(Packages(("slurmd",)), host)
    assert host.verbs == verbs
    assert outcome.status == "failed", "this dpkg installs nothing"


def test_lists_when_missing_are_fetched_first_and_what_that_complained_of_explains_a_failure(fresh: Path) -> None:
    (fresh / "var/lib/apt/lists/deb_dists_bookworm_main_binary-amd64_Packages.lz4").unlink()
    host = Apt(fresh, (0, "\nErr:1 x\n  Temporary failure resolving 'deb'\n"), (100, "E: it failed\n"))
    outcome = apply(Packages(("slurmd",)), host)
    assert host.verbs == ["update", "install"]
    assert "cannot be downloaded: Temporary failure resolving 'deb'" in outcome.message


@pytest.mark.parametrize(("ends", "installs"), [((), True), (((0, ""), BROKEN), False)], ids=["mended", "broken"])
def test_what_an_interrupted_run_left_is_completed_before_anything_is_installed(
    dpkg: Path, ends: tuple[tuple[int, str], ...], installs: bool
) -> None:
    (dpkg / "var/lib/apt/lists/deb_dists_bookworm_main_binary-amd64_Packages.lz4").touch()
    host = Apt(dpkg, *ends)
    apply(Packages(("ghost",)), host)
    kept = ("dpkg", "--configure", "--fix-broken", "install", "ghost")
    runs = [[word for word in argv if word in kept] for argv in host.programs]
    assert runs == [["dpkg", "--configure"], ["--fix-broken", "install"], *([["install", "ghost"]] if installs else [])]
    assert all("--no-remove" in argv for argv in host.programs if "install" in argv)


TORN = b"Package: munge\nStatus: install ok installed\n\nPackage: tar\nStatus: install ok half-configured\n\n"


class Dpkg(Apt):
    """A host with `TORN` as dpkg's status, whose `dpkg --configure -a` completes packages."""

    def run(self, argv: Sequence[str], *rest: Any, **named: Any) -> subprocess.CompletedProcess[bytes]:
        Path(self.path("/var/lib/dpkg/status")).write_bytes(TORN.replace(b"half-configured", b"installed"))
        return super().run(argv, *rest, **named)


def test_a_package_of_others_that_is_half_configured_is_completed(dpkg: Path) -> None:
    (dpkg / "var/lib/dpkg/status").write_bytes(TORN)
    host = Dpkg(dpkg)
    outcome = apply(Packages(("munge",)), host)
    assert [(one.name, one.actual) for one in outcome.changes] == [("unfinished", "tar half-configured")]
    assert outcome.status == "changed"
    assert [argv[0] for argv in host.programs] == ["dpkg"]


def test_a_package_of_others_that_cannot_be_completed_is_a_remark(dpkg: Path) -> None:
    (dpkg / "var/lib/dpkg/status").write_bytes(TORN)
    outcome = apply(Packages(("munge",)), Apt(dpkg, (1, "dpkg: error processing package tar (--configure):\n no\n")))
    assert outcome.status == "ok"
    assert outcome.message.startswith("dpkg cannot finish tar half-configured, which keeps no job from running: ")
    assert "tar (no)" in outcome.message


def test_a_package_that_another_program_installs_now_is_not_unfinished(dpkg: Path) -> None:
    (dpkg / "var/lib/dpkg/status").write_bytes(TORN)
    lock = dpkg / "var/lib/dpkg/lock"
    lock.touch()
    context = Context(str(dpkg), dry_run=True)
    assert apply(Packages(("munge",)), context).status == "would change"
    with lock.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        child = os.fork()  # a process does not see its own lock
        if not child:
            os._exit(0 if unfinished.unfinished(str(dpkg), TORN) == "" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "The following held packages will be changed:\n  munge slurmd\n0 upgraded, 7 newly installed.\n"
            "E: Held packages were changed and -y was used without --allow-change-held-packages.\n",
            "munge, slurmd are held (apt-mark showhold) and would have to be installed or upgraded; "
            "let that: apt-mark unhold munge slurmd",
        ),
        (
            " slurmd : Depends: munge but it is not going to be installed\n"
            "E: Unable to correct problems, you have held broken packages.\n",
            "munge is held (apt-mark showhold)",
        ),
        (
            " slurmd : Depends: libc6 (>= 99) but 2.36 is to be installed\n"
            "E: Unable to correct problems, you have held broken packages.\n",
            "dependencies cannot be met",
        ),
    ],
)
def test_held_packages_that_are_in_the_way_are_named(output: str, words: str) -> None:
    held = unfinished.held(b"Package: tar\nStatus: hold ok installed\n\nPackage: munge\nStatus: hold ok config-files\n")
    assert held == ["tar", "munge"]
    assert words in apt_errors.explain(output, held)


def test_apt_get_waits_for_a_dpkg_that_is_at_work(fresh: Path) -> None:
    host = Apt(fresh, UNKNOWN)
    apply(Packages(("slurmd",)), host)
    assert len(host.programs) == 3
    for argv in host.programs:
        assert argv[argv.index("DPkg::Lock::Timeout=900") - 1] == "-o"


def test_every_call_of_apt_or_dpkg_keeps_needrestart_from_restarting_daemons(fresh: Path) -> None:
    suspended = []

    class Noted(Apt):
        def run(self, argv: Sequence[str], *rest: Any, **named: Any) -> subprocess.CompletedProcess[bytes]:
            suspended.append(named["env"]["NEEDRESTART_SUSPEND"])
            return super().run(argv, *rest, **named)

    apply(Packages(("slurmd",)), Noted(fresh, UNKNOWN))
    apt.configure(Noted(fresh))
    assert suspended == ["1"] * 4


@pytest.mark.parametrize("lock", ["/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"])
def test_apt_get_when_another_one_has_a_lock_that_it_does_not_wait_for_is_repeated(
    fresh: Path, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(apt.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(apt.time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    locked = (100, f"E: Could not get lock {lock}. It is held by process 77 (apt-get)\n")
    host = Apt(fresh, *[locked] * 9)
    assert apt.apt_get(host, ["update"]) == (0, "\n")
    assert len(host.programs) == 10
    endless = Apt(fresh, *[locked] * 1000)
    assert apt.apt_get(endless, ["update"])[0] == 100
    assert len(endless.programs) * 2 > apt.LOCK_SECONDS


def test_an_interrupted_dpkg_is_detected(dpkg: Path) -> None:
    context = Context(str(dpkg))
    assert dpkg_status.is_interrupted(context.root)
    (dpkg / "var/lib/dpkg/status").write_bytes(STATUS.split(b"\n\n")[0])
    assert not dpkg_status.is_interrupted(context.root)
    (dpkg / "var/lib/dpkg/updates/0001").touch()
    assert dpkg_status.is_interrupted(context.root)


def test_a_package_that_is_being_unpacked_is_told_by_dpkgs_journal(dpkg: Path) -> None:
    whole = b"Package: slurmd\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"
    place = dpkg / "var/lib/dpkg"
    (place / "status").write_bytes(b"Package: tar\nStatus: install ok installed\nVersion: 2\n\n")
    half = whole.replace(b"ok installed", b"reinstreq half-installed")
    (place / "updates/0000").write_bytes(half.strip() + b"\n#padding\n#padding\n")
    assert dpkg_status.states(dpkg_status.read(str(dpkg)), ("slurmd", "tar")) == {
        "slurmd": "half-installed", "tar": "installed"
    }  # fmt: skip
    found = packages(str(dpkg), ("slurmd", "tar"))
    assert found == {"packages": {"tar": "2"}, "unfinished_packages": ["slurmd"]}
    (place / "updates/0001").write_bytes(whole)
    assert dpkg_status.versions(dpkg_status.read(str(dpkg)), ("slurmd", "tar")) == {"slurmd": "1", "tar": "2"}


@pytest.mark.parametrize(
    ("status", "is_interrupted"),
    [
        (b"install ok installed", False),
        (b"hold ok installed", False),
        (b"deinstall ok config-files", False),
        (b"install ok unpacked", True),
        (b"install ok half-configured", True),
        (b"install ok triggers-pending", True),
        (b"install ok triggers-awaited", True),
        (b"install ok half-installed", True),
        (b"install reinstreq half-installed", True),
        (b"install reinstreq unpacked", True),
        (b"install reinstreq half-configured", True),
    ],
)
def test_dpkg_when_a_package_is_between_two_states_was_interrupted(
    dpkg: Path, status: bytes, is_interrupted: bool
) -> None:
    (dpkg / "var/lib/dpkg/status").write_bytes(b"Package: munge\nStatus: %s\n" % status)
    assert dpkg_status.is_interrupted(str(dpkg)) == is_interrupted


def test_packages_that_dpkg_was_unpacking_when_it_was_killed_are_found_as_apt_get_calls_them() -> None:
    status = (
        b"Package: libgcrypt20\nStatus: install reinstreq unpacked\nArchitecture: amd64\nVersion: 1.11.0-7\n\n"
        b"Package: dpkg\nEssential: yes\nStatus: install reinstreq half-installed\nArchitecture: arm64\n\n"
        b"Package: tzdata\nStatus: install reinstreq half-configured\nArchitecture: all\n\n"
        b"Package: munge\nStatus: install ok half-configured\nArchitecture: amd64\nDescription: has a\n"
        b" Status: install reinstreq unpacked\n"
    )
    assert dpkg_status.torn_packages(status) == ["libgcrypt20:amd64", "dpkg:arm64", "tzdata"]


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("E: Unable to locate package slurmdx\n", "this host's package sources have no package slurmdx"),
        ("E: Package 'slurmd' has no installation candidate\n", "package sources have no package slurmd;"),
        ("Err:1 x\n  Temporary failure resolving 'deb'\nE: Failed to fetch x\n", "cannot be downloaded"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.\n", "the disk is full (don't have enough"),
        ("dpkg: error processing archive x\n cannot copy: No space left on device\n", "the disk is full"),
        (
            "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 77 (unattended-upgr)\n",
            "/var/lib/dpkg/lock-frontend is held by process 77 (unattended-upgr)",
        ),
        ("E: Could not get lock /var/lib/apt/lists/lock - open (11: busy)\n", "lists/lock is held by another"),
        (
            "dpkg: error processing package slurmd (--configure):\n installed post-installation script ended with 1\n",
            "slurmd (installed post-installation script ended with 1)",
        ),
        (
            "The following packages will be REMOVED:\n  slurm-smd slurm-smd-client\nE: remove is disabled.\n",
            "would remove slurm-smd slurm-smd-client",
        ),
        (" slurmd : Depends: libc6 (>= 99) but 2.36 is to be installed\n", "Depends: libc6 (>= 99)"),
        ("W: GPG error: x InRelease: signatures: NO_PUBKEY 0123\n", "not trusted: W: GPG error"),
        ("E: Something new\n", "apt-get failed: E: Something new"),
        ("", "apt-get failed: no message"),
    ],
)
def test_apt_when_it_fails_is_explained(output: str, words: str) -> None:
    assert words in apt_errors.explain(output)


VERSIONED = b"Package: tree\nStatus: install ok installed\nVersion: 2.1.0-1\n\n"


@pytest.mark.parametrize(
    ("version", "actual"),
    [("2.1*", None), ("2.1.0-1", None), ("2.2*", "2.1.0-1"), ("2.1", "2.1.0-1")],
)
def test_a_package_in_another_version_than_the_wanted_one_differs(dpkg: Path, version: str, actual: str | None) -> None:
    (dpkg / "var/lib/dpkg/status").write_bytes(VERSIONED)
    wanted = Packages(("tree",), versions=(f"tree={version}",))
    outcome = apply(wanted, Context(str(dpkg), dry_run=True))
    assert [(one.name, one.actual, one.wanted) for one in outcome.changes] == (
        [("tree", actual, version)] if actual else []
    )


def test_a_package_of_a_certain_version_is_asked_for_with_it(fresh: Path) -> None:
    host = Apt(fresh)
    apply(Packages(("munge", "tree"), versions=("tree=2.1*",)), host)
    (argv,) = [argv for argv in host.programs if "install" in argv]
    assert argv[-2:] == ("--", "tree=2.1*")
    assert "--allow-downgrades" in argv


@pytest.mark.parametrize(
    ("newer", "verbs"),
    [
        ("sources.list", ["update", "install"]),
        ("sources.list.d", ["update", "install"]),
        ("keyrings", ["update", "install"]),
        (".", ["install"]),
        ("trusted.gpg.d", ["install"]),
    ],
)
def test_lists_are_fetched_again_when_a_source_is_newer_and_not_after_an_upgrade_of_apt(
    fresh: Path, newer: str, verbs: list[str]
) -> None:
    (fresh / "etc/apt" / newer).mkdir(parents=True)
    os.utime(fresh / "etc/apt" / newer, (4e9, 4e9))
    host = Apt(fresh)
    apply(Packages(("tree",)), host)
    assert host.verbs == verbs


NOT_KNOWN = "E: Unable to locate package ghost\n"
NO_VERSION = "E: Version '9.9-1' for 'tree' was not found\n"
SITES = Packages(("ghost", "tree"), versions=("tree=9.9-1",), sites=("ghost", "tree"))


@pytest.fixture
def listed(dpkg: Path) -> Path:
    """A host with lists of packages."""
    (dpkg / "var/cache/apt").mkdir(parents=True)
    (dpkg / "var/lib/apt/lists/deb_dists_bookworm_main_binary-amd64_Packages.lz4").touch()
    return dpkg


def compared(host: Apt) -> Any:
    """What a comparison says of the site's packages."""
    host.dry_run = True
    return apply(SITES, host)


def test_packages_that_no_source_has_are_told_by_a_comparison_with_lists_of_its_own(listed: Path) -> None:
    one_by_one = [(100, NOT_KNOWN), (100, NO_VERSION)]
    host = Apt(listed, *one_by_one, (0, ""), *one_by_one)
    outcome = compared(host)
    assert (outcome.status, outcome.message) == (
        "failed",
        "this host's package sources do not have ghost, tree=9.9-1",
    )
    (update,) = [words for words in host.programs if "update" in words]
    assert any(word.startswith("Dir::State::Lists=") for word in update)
    assert list((listed / "var/cache/apt").iterdir()) == []


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([(0, "")], id="known"),
        pytest.param([(100, NOT_KNOWN), (0, ""), (0, "")], id="new in the source"),
        pytest.param([(100, NOT_KNOWN), (100, "Err:1 http://mirror\n")], id="no source answers"),
        pytest.param([(100, "E: Unable to correct problems\n")], id="another reason"),
    ],
)
def test_packages_that_a_source_may_have_are_left_to_the_installation(
    listed: Path, ends: list[tuple[int, str]]
) -> None:
    assert compared(Apt(listed, *ends)).status == "would change"


def test_a_host_without_lists_is_not_judged(dpkg: Path) -> None:
    host = Apt(dpkg)
    assert (compared(host).status, host.programs) == ("would change", [])
