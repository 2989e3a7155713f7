"""Accounts, homes, SSH keys and sudo rules of users of the cluster, in a scratch root."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from local_agent import snapshot
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, apply
from slurmfab.on_hosts.agent.identities.id_processes import with_numbers
from slurmfab.on_hosts.agent.identities.user import Group
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user
from slurmfab.on_hosts.agent.people import home_files, person
from slurmfab.on_hosts.agent.people.home_worker import HomeTrouble, worker
from slurmfab.on_hosts.agent.people.person import BEGIN, END, AuthorizedKeys, Person, PersonHome
from slurmfab.on_hosts.agent.people.removed_person import RemovedPerson
from slurmfab.on_hosts.agent.people.sudo_rules import SudoRules

needs_root = pytest.mark.needs_root("useradd and groupadd want root, also in a scratch root")

ME = (os.getuid(), os.getgid())
ANN = Person("ann", 4711, "ann", "/home/ann", "/bin/bash", "Ann Example", ("ml",), ("dev", "ml"))
HOME = PersonHome("ann", *ME, "/home/ann")
KEYS = AuthorizedKeys("ann", *ME, "/home/ann", ("ssh-ed25519 AAAA ann@laptop", "ssh-rsa BBBB"))
OWN = "# mine\nssh-rsa CCCC ann@home\n"
BLOCK = f"{BEGIN}\nssh-ed25519 AAAA ann@laptop\nssh-rsa BBBB\n{END}\n"


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A directory that every user can enter; pytest's own are for root alone."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def folder(root: Path) -> Path:
    """Ann's ~/.ssh."""
    path = root / "home/ann/.ssh"
    path.mkdir(parents=True)
    return path


@needs_root
def test_a_person_when_missing_is_made_without_a_password_and_with_supplementary_groups(
    root: Path, context: Context
) -> None:
    for name in ("shadow", "gshadow"):
        (root / "etc" / name).touch()
    groups = [Group("ann", 4712, system=False), Group("ml", 4800, system=False), Group("dev", 4801, system=False)]
    for one in (*groups, ANN):
        assert apply(one, context).status == "changed"
    assert "ann:x:4711:4712:Ann Example:/home/ann:/bin/bash" in (root / "etc/passwd").read_text().splitlines()
    assert (root / "etc/shadow").read_text().startswith("ann:*:")
    assert "ml:x:4800:ann" in (root / "etc/group").read_text().splitlines()
    assert apply(ANN, context).status == "ok"

    moved = replace(ANN, shell="/bin/sh", groups=("dev",))
    assert [change.name for change in apply(moved, context).changes] == ["shell", "groups"]
    lines = (root / "etc/group").read_text().splitlines()
    assert {"ml:x:4800:", "dev:x:4801:ann"} <= set(lines)
    assert apply(moved, context).status == "ok"


@needs_root
def test_a_person_keeps_groups_that_the_cluster_file_does_not_name(root: Path, context: Context) -> None:
    (root / "etc/passwd").open("a").write("ann:x:4711:4712:A:/home/ann:/bin/bash\n")
    (root / "etc/group").open("a").write("ann:x:4712:\ndocker:x:998:ann\nml:x:4800:\ndev:x:4801:ann\n")
    for name in ("shadow", "gshadow"):
        (root / "etc" / name).touch()
    outcome = apply(ANN, context)
    assert outcome.status == "changed", outcome.message
    assert {"docker:x:998:ann", "ml:x:4800:ann", "dev:x:4801:"} <= set((root / "etc/group").read_text().splitlines())


def test_a_person_with_another_uid_is_not_changed_and_both_uids_are_named(root: Path, context: Context) -> None:
    (root / "etc/passwd").open("a").write("ann:x:1005:4712:A:/home/ann:/bin/bash\n")
    (root / "etc/group").open("a").write("ann:x:4712:\n")
    before = snapshot(root)
    message = failure(ANN, context)
    assert "UID 1005" in message
    assert "4711" in message
    assert snapshot(root) == before


def test_a_home_when_missing_is_made_from_the_skeleton_and_closed_to_others(root: Path, context: Context) -> None:
    (root / "etc/skel/.config").mkdir(parents=True)
    (root / "etc/skel/.config").chmod(0o750)
    (root / "etc/skel/.config/run").write_text("#!/bin/sh\n")
    (root / "etc/skel/.config/run").chmod(0o755)
    (root / "etc/skel/.profile").write_text("umask 027\n")
    (root / "etc/skel/motd").symlink_to("/etc/motd")
    assert [apply(HOME, context).status for _ in range(2)] == ["changed", "ok"]
    home = root / "home/ann"
    assert home.stat().st_mode & 0o7777 == 0o700
    assert sorted(path.name for path in home.iterdir()) == [".config", ".profile", ".ssh", "motd"]
    assert (home / "motd").readlink() == Path("/etc/motd")
    assert (home / ".config/run").read_text() == "#!/bin/sh\n"
    assert [(home / name).stat().st_mode & 0o777 for name in (".config", ".config/run")] == [0o750, 0o755]
    assert [path.name for path in home.parent.iterdir()] == ["ann"]


@pytest.mark.parametrize("planted", ["link to a file", "link to nothing", "link to a directory"])
def test_a_link_that_root_of_another_host_puts_into_a_home_while_it_is_made_is_not_followed(
    tmp_path: Path, planted: str
) -> None:
    skeleton, home, victim = (tmp_path / name for name in ("skel", "home", "victim"))
    for path in (skeleton / ".config", home, victim):
        path.mkdir(parents=True)
    (skeleton / ".profile").write_text("umask 027\n")
    (skeleton / ".config/rc").write_text("of the skeleton\n")
    (victim / "shadow").write_text("of root\n")
    name, target = (".config", victim) if "directory" in planted else (".profile", victim / "shadow")
    if "nothing" in planted:
        target = victim / "new"
    (home / name).symlink_to(target)
    before = snapshot(victim)
    with home_files.Opened(os.open(home, os.O_RDONLY)) as new, pytest.raises(FileExistsError):
        home_files.copy(str(skeleton), new)
    assert snapshot(victim) == before


def test_a_home_that_another_host_made_meanwhile_is_kept(root: Path, context: Context) -> None:
    (root / "etc/skel").mkdir()
    (root / "home/ann").mkdir(parents=True)
    (root / "home/ann/thesis").write_text("all of it")
    HOME.converge(context, frozenset({"home"}))
    assert (root / "home/ann/thesis").read_text() == "all of it"
    assert [path.name for path in (root / "home").iterdir()] == ["ann"]


def test_a_home_that_an_interrupted_run_left_unfinished_is_removed(root: Path, context: Context) -> None:
    left = root / f"home/.slurmfab-ann-{os.uname().nodename}"
    left.mkdir(parents=True)
    (left / "half").touch()
    assert apply(HOME, context).status == "changed"
    assert [path.name for path in (root / "home").iterdir()] == ["ann"]
    assert [path.name for path in (root / "home/ann").iterdir()] == [".ssh"]


def test_a_home_of_another_user_is_reported_and_not_changed(root: Path, context: Context, folder: Path) -> None:
    (folder / "authorized_keys").write_text(OWN)
    before = snapshot(root / "home")
    stranger = (os.getuid() + 1, os.getgid())
    home, keys = (apply(replace(one, uid=stranger[0]), context) for one in (HOME, KEYS))
    assert (home.status, keys.status) == ("ok", "ok")
    assert f"/home/ann belongs to UID {os.getuid()} and not to ann" in home.message
    assert "slurmfab did not write ann's SSH keys" in keys.message
    assert snapshot(root / "home") == before


def test_keys_are_written_into_a_block_and_the_users_own_lines_stay(context: Context, folder: Path) -> None:
    file = folder / "authorized_keys"
    file.write_text(OWN)
    assert [apply(KEYS, context).status for _ in range(2)] == ["changed", "ok"]
    assert file.read_text() == OWN + BLOCK
    assert file.stat().st_mode & 0o7777 == 0o600
    assert apply(replace(KEYS, keys=KEYS.keys[:1]), context).status == "changed"
    assert file.read_text() == f"{OWN}{BEGIN}\n{KEYS.keys[0]}\n{END}\n"
    assert apply(replace(KEYS, keys=()), context).status == "changed"
    assert file.read_text() == OWN
    assert [path.name for path in folder.iterdir()] == ["authorized_keys"]


def test_keys_when_there_is_no_home_yet_differ_without_a_remark_as_the_home_comes_first(context: Context) -> None:
    found = apply(KEYS, Context(context.root, dry_run=True))
    assert (found.status, found.message) == ("would change", "")
    missing = apply(KEYS, context)
    assert (missing.status, "No such file or directory" in missing.message) == ("ok", True)


def test_keys_when_there_is_no_file_yet_get_one_that_sshd_trusts(root: Path, context: Context) -> None:
    (root / "home/ann").mkdir(parents=True)
    assert apply(replace(KEYS, keys=()), context).status == "ok"
    assert apply(KEYS, context).status == "changed"
    assert (root / "home/ann/.ssh").stat().st_mode & 0o7777 == 0o700
    assert (root / "home/ann/.ssh/authorized_keys").read_text() == BLOCK


@pytest.mark.parametrize(
    "damaged",
    [BEGIN + "\n", END + "\n", f"{END}\n{BEGIN}\n", BLOCK + BLOCK, BLOCK + END + "\n"],
    ids=["no end", "no beginning", "turned round", "twice", "two ends"],
)
def test_a_block_that_the_user_damaged_is_made_anew_and_no_failure(
    context: Context, folder: Path, damaged: str
) -> None:
    (folder / "authorized_keys").write_text(OWN + damaged)
    assert [apply(KEYS, context).status for _ in range(2)] == ["changed", "ok"]
    text = (folder / "authorized_keys").read_text()
    assert text.startswith(OWN)
    assert text.endswith(BLOCK)
    assert (text.count(BEGIN), text.count(END)) == (1, 1)


@pytest.mark.parametrize("name", [".ssh", ".ssh/authorized_keys"])
def test_symbolic_links_of_a_user_are_not_followed_by_root(root: Path, context: Context, name: str) -> None:
    roots = root / "root/.ssh"
    roots.mkdir(parents=True)
    (roots / "authorized_keys").write_text(OWN)
    (root / "home/ann").mkdir(parents=True)
    if "/" in name:
        (root / "home/ann/.ssh").mkdir()
    (root / "home/ann" / name).symlink_to(roots if name == ".ssh" else roots / "authorized_keys")
    outcome = apply(KEYS, context)
    assert outcome.status == "ok"
    assert "a symbolic link is in the way" in outcome.message or "Not a directory" in outcome.message
    assert (roots / "authorized_keys").read_text() == OWN


@needs_root
def test_keys_are_written_as_the_user_so_that_links_to_roots_files_do_no_harm(everybodys: Path) -> None:
    target = everybodys / "roots"
    target.mkdir(mode=0o700)
    home = everybodys / "home/ann"
    home.mkdir(parents=True)
    (home / ".ssh").symlink_to(target)
    os.chown(home, 4711, 4711)
    keys = AuthorizedKeys("ann", 4711, 4711, str(home), KEYS.keys)
    with pytest.raises(LeftAsItWas, match="a symbolic link is in the way"):
        keys.converge(Context(), frozenset({"keys"}))
    (home / ".ssh").unlink()
    target.rename(home / ".ssh")
    with pytest.raises(LeftAsItWas, match="Permission denied"):
        keys.converge(Context(), frozenset({"keys"}))
    assert list((home / ".ssh").iterdir()) == []


def a_closed_folder(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh").chmod(0o500)


def a_file(home: Path) -> None:
    (home / ".ssh").touch()


def a_fifo(home: Path) -> None:
    (home / ".ssh").mkdir()
    os.mkfifo(home / ".ssh/authorized_keys")


def a_link_to_zeros(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/authorized_keys").symlink_to("/dev/zero")


def a_directory(home: Path) -> None:
    (home / ".ssh/authorized_keys").mkdir(parents=True)


def a_huge_file(home: Path) -> None:
    (home / ".ssh").mkdir()
    with (home / ".ssh/authorized_keys").open("wb") as file:
        file.truncate(1 << 40)


def an_immutable_file(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/authorized_keys").write_text(OWN)
    os.chown(home / ".ssh/authorized_keys", 4711, 4711)
    immutable(home / ".ssh/authorized_keys", "+i")


def an_immutable_folder(home: Path) -> None:
    (home / ".ssh").mkdir()
    immutable(home / ".ssh", "+i")


def immutable(path: Path, flag: str) -> None:
    """Set or take away the flag, where the file system has it."""
    if subprocess.run(["chattr", flag, path], capture_output=True, check=False).returncode != 0:
        pytest.skip("the file system has no immutable files")


HOSTILE_HOMES = {
    a_closed_folder: "/home/ann/.ssh cannot be written by its user (mode 0500, owner UID 4711",
    a_file: "Not a directory",
    a_fifo: "it is not a regular file",
    a_link_to_zeros: "a symbolic link is in the way",
    a_directory: "it is not a regular file",
    a_huge_file: "it is larger than 1 MiB",
    an_immutable_file: "is it immutable (lsattr)?",
    an_immutable_folder: "immutable or read-only? see lsattr -d and mount",
}
"""What users do to their homes, and how the remark tells it."""


@pytest.fixture
def hostile(everybodys: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A scratch root whose user ann, of UID 4711, has done something to the home."""
    home = everybodys / "home/ann"
    home.mkdir(parents=True)
    (everybodys / "etc").mkdir()
    (everybodys / "etc/passwd").write_text("ann:x:4711:4711:A:/home/ann:/bin/bash\n")
    (everybodys / "etc/group").write_text("ann:x:4711:\n")
    (everybodys / "etc/shadow").write_text("ann:*:1::::::\n")
    (everybodys / "etc/gshadow").touch()
    try:
        os.chown(home, 4711, 4711)
        request.param(home)
        for path in sorted(home.rglob("*")):
            with suppress(PermissionError):
                os.chown(path, 4711, 4711, follow_symlinks=False)
        yield everybodys
    finally:
        for path in (home / ".ssh", home / ".ssh/authorized_keys"):
            subprocess.run(["chattr", "-i", path], capture_output=True, check=False)


@needs_root
@pytest.mark.parametrize("hostile", HOSTILE_HOMES, ids=lambda one: one.__name__, indirect=True)
def test_what_a_user_does_to_the_home_is_a_remark_and_no_failure(hostile: Path, request: pytest.FixtureRequest) -> None:
    keys = AuthorizedKeys("ann", 4711, 4711, "/home/ann", KEYS.keys)
    expected = HOSTILE_HOMES[request.node.callspec.params["hostile"]]
    for is_dry in (True, False):
        outcome = apply(keys, Context(str(hostile), dry_run=is_dry))
        assert outcome.status == "ok"
        assert expected in outcome.message
        assert "slurmfab did not write ann's SSH keys" in outcome.message
    assert apply(PersonHome("ann", 4711, 4711, "/home/ann"), Context(str(hostile))).status == "ok"


@needs_root
@pytest.mark.parametrize("hostile", HOSTILE_HOMES, ids=lambda one: one.__name__, indirect=True)
def test_who_leaves_is_removed_whatever_is_in_the_home(hostile: Path) -> None:
    outcome = apply(RemovedPerson("ann", 4711, "/home/ann"), Context(str(hostile)))
    assert outcome.status == "changed", outcome.message
    assert (hostile / "etc/passwd").read_text() == ""


class Recording(Context):
    """A context that notes which programs ran, and has them fail."""

    def run(self, argv: Sequence[str], *_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        self.__dict__.setdefault("ran", []).append(tuple(argv))
        return subprocess.CompletedProcess(argv, 1, b"", b"it fails")


@needs_root
@pytest.mark.parametrize("hostile", [a_fifo], indirect=True)
def test_who_leaves_is_locked_and_expired_before_the_home_is_touched(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Recording(str(hostile))
    monkeypatch.setattr(worker, "ask", lambda *_: pytest.fail("the home was touched"))
    assert apply(RemovedPerson("ann", 4711, "/home/ann"), context).status == "failed"
    assert vars(context)["ran"] == [("usermod", "--prefix", str(hostile), "--lock", "--expiredate", "1", "ann")]


@needs_root
@pytest.mark.parametrize("hostile", [a_closed_folder], indirect=True)
def test_who_leaves_and_has_a_process_cannot_log_in_any_more_and_is_not_let_in_again_unseen(hostile: Path) -> None:
    process = hostile / "proc/21"
    process.mkdir(parents=True)
    (process / "status").write_text("Name:\tsleep\nState:\tS\nUid:\t4711 4711 4711 4711\nGid:\t1 1 1 1\n")
    context, leaving = Context(str(hostile)), RemovedPerson("ann", 4711, "/home/ann", closes=True)
    first, second = apply(leaving, context), apply(leaving, context)
    assert (first.status, second.status) == ("changed", "ok")
    assert "because of running processes: 21 (sleep); the account is locked and expired" in second.message
    assert (hostile / "etc/shadow").read_text() == "ann:!*:1:::::1:\n"
    back = apply(Person("ann", 4711, "ann", "/home/ann", "/bin/bash"), context)
    assert (back.status, "usermod --unlock --expiredate '' ann" in back.message) == ("ok", True)
    shutil.rmtree(process)
    assert apply(leaving, context).status == "changed"
    assert (hostile / "etc/passwd").read_text() == ""


def test_a_home_whose_parent_another_user_can_change_is_not_made(root: Path, context: Context) -> None:
    shared, target = root / "shared", root / "etc/cron.d"
    shared.mkdir()
    shared.chmod(0o777)
    target.mkdir()
    (shared / "sub").symlink_to(target)
    outcome = apply(replace(HOME, home="/shared/sub/ann"), context)
    assert outcome.status == "ok"
    assert "others than root can change this directory" in outcome.message
    assert list(target.iterdir()) == []


class Judging(Context):
    """A host with a stand-in for visudo, which accepts a file if all parentheses in it are closed."""

    def run(
        self, argv: Sequence[str], stdin: bytes = b"", *_: object, **__: object
    ) -> subprocess.CompletedProcess[bytes]:
        is_sound = stdin.count(b"(") == stdin.count(b")")
        assert argv[0] == "visudo"
        return subprocess.CompletedProcess(argv, 0 if is_sound else 1, b"", b"" if is_sound else b"syntax error")


def test_sudo_rules_that_visudo_refuses_are_not_installed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/sbin/{name}")
    (root / "etc/sudoers.d").mkdir()
    context = Judging(str(root))
    good = SudoRules("/etc/sudoers.d/slurmfab", "ann ALL=(ALL:ALL) NOPASSWD: ALL\n", mode=0o440)
    assert apply(good, context).status == "changed"
    refused = apply(replace(good, content="ann ALL=(ALL NOPASSWD\n"), context)
    assert (refused.status, "syntax error" in refused.message) == ("failed", True)
    file = root / "etc/sudoers.d/slurmfab"
    assert (file.read_text(), file.stat().st_mode & 0o7777) == (good.content, 0o440)


@needs_root
def test_a_removed_person_loses_account_and_keys_and_keeps_the_files(
    root: Path, context: Context, folder: Path
) -> None:
    uid = 4711
    (root / "etc/passwd").open("a").write(f"ann:x:{uid}:4712:A:/home/ann:/bin/bash\n")
    (root / "etc/group").open("a").write("ann:x:4712:\nml:x:4800:ann\n")
    (root / "etc/shadow").write_text("ann:*:1::::::\n")
    (root / "etc/gshadow").touch()
    gone = RemovedPerson("ann", uid, "/home/ann")
    assert apply(replace(gone, uid=1), context).status == "ok"
    kept = apply(replace(gone, may=False), context)
    assert (kept.status, "the user was not removed" in kept.message) == ("ok", True)
    assert [apply(gone, context).status for _ in range(2)] == ["changed", "ok"]
    assert "ann" not in (root / "etc/passwd").read_text()
    assert "ml:x:4800:" in (root / "etc/group").read_text().splitlines()
    assert folder.is_dir()


def test_a_person_whose_processes_run_stays_or_is_refused(root: Path, context: Context) -> None:
    (root / "etc/passwd").open("a").write("ann:x:4711:4712:A:/home/ann:/bin/bash\n")
    for pid, name, unit in ((20, "systemd", "user@4711.service/init.scope"), (21, "sleep", "session-1.scope")):
        (root / f"proc/{pid}").mkdir(parents=True)
        (root / f"proc/{pid}/status").write_text(
            f"Name:\t{name}\nState:\tS\nUid:\t4711 4711 4711 4711\nGid:\t1 1 1 1\n"
        )
        (root / f"proc/{pid}/cgroup").write_text(f"0::/user.slice/{unit}\n")
    gone = RemovedPerson("ann", 4711, "/home/ann")
    stays, refused = apply(gone, context), apply(replace(gone, must=True), context)
    assert (stays.status, refused.status) == ("ok", "failed")
    assert stays.message.endswith("because of running processes: 21 (sleep)")
    assert refused.message == "ann has processes here: 21 (sleep)"


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x1d", "\x85", "\u2028"])
def test_names_of_processes_and_people_forge_no_further_lines(root: Path, context: Context, separator: str) -> None:
    (root / "etc/passwd").open("a").write(f"ann:x:4711:4712:A{separator}eve:x:0:0::/root:/bin/sh:/home/ann:/bin/bash\n")
    (root / "proc/21").mkdir(parents=True)
    (root / "proc/21/status").write_text(f"Name:\tx{separator}y\nState:\tS\nUid:\t4711 4711 4711 4711\nGid:\t1 1 1 1\n")
    assert find_user(context, "eve") is None
    (process,) = with_numbers(context, {4711}, ())
    assert process.command == f"x{separator}y"


@pytest.mark.parametrize(
    ("number", "status"), [(errno.ETIMEDOUT, "failed"), (errno.ESTALE, "failed"), (errno.EACCES, "ok")]
)
def test_a_home_on_a_dead_server_fails_as_no_job_of_its_user_runs_there(
    context: Context, monkeypatch: pytest.MonkeyPatch, number: int, status: str
) -> None:
    def ask(*_: object) -> None:
        raise HomeTrouble("it does not answer", number)

    monkeypatch.setattr(person.worker, "ask", ask)
    outcome = apply(HOME, context)
    assert (outcome.status, outcome.message) == (
        status,
        "the home of ann, /home/ann, cannot be reached: it does not answer",
    )
