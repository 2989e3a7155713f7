"""Ejected scripts as root where users and slurm have put links and worse: nothing is led elsewhere.

Each test runs the shell functions themselves as root, on files of two users whom no host knows by name.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurmfab.base.paths import SLURM_HOME
from slurmfab.commands.eject.scripts import eject, needed_functions
from slurmfab.core.plan.plan import make_plan

sys.path.append(str(Path(__file__).parents[1] / "plan"))
from test_examples import planned

pytestmark = pytest.mark.needs_root("only root can give files to other users")

BOB, SLURM = 4711, 4712
SECRET = "root:$6$secret\n"
KEY = "ssh-ed25519 AAAAnew bob@home"
AS_ON_NFS = ("setpriv", "--bounding-set", "-chown,-dac_override,-dac_read_search,-fowner")
"""Root without rights of its own to files, as a file server may have it (root_squash); it can still become any user."""


@pytest.fixture
def place() -> Iterator[Path]:
    """Directories: root's `precious` with a secret, `homes` with that of bob, and `lib`, which is slurm's."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    for name, owner, mode in (
        *(("precious", 0, 0o755), ("homes", 0, 0o755), ("homes/bob", BOB, 0o700)),
        *(("lib", SLURM, 0o755), ("lib/home", SLURM, 0o755)),
    ):
        (top / name).mkdir()
        (top / name).chmod(mode)
        os.chown(top / name, owner, owner)
    (top / "precious/shadow").write_text(SECRET)
    (top / "precious/shadow").chmod(0o600)
    yield top
    shutil.rmtree(top)


def play(place: Path, line: str, before: str = "", program: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a line of a script as root, with P for the place; and before it another, such as one that swaps names."""
    text = "\n".join(["set -euo pipefail", *needed_functions([line]), before, line])
    program = (*program, "bash", "-c", text.replace("P/", f"{place}/"))
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=50)


def as_it_was(place: Path) -> bool:
    """Whether root's directory and its secret have their owner, mode and content, and nobody else has a copy."""
    shadow, directory = place / "precious/shadow", place / "precious"
    found = [(one.stat().st_uid, stat.S_IMODE(one.stat().st_mode)) for one in (shadow, directory)]
    others = [one for one in place.rglob("*") if one.is_file() and not one.is_symlink() and not one.samefile(shadow)]
    return (
        found == [(0, 0o600), (0, 0o755)]
        and shadow.read_text() == SECRET
        and [*directory.iterdir()] == [shadow]
        and not any(SECRET in one.read_text() for one in others)
        and not [*place.rglob(".slurmfab*")]
    )


def link(path: str, to: str) -> Callable[[Path], None]:
    def plant(place: Path) -> None:
        found = made(place / path)
        found.symlink_to(place / to)
        os.chown(found, found.parent.stat().st_uid, -1, follow_symlinks=False)

    return plant


def hard_link(path: str) -> Callable[[Path], None]:
    return lambda place: os.link(place / "precious/shadow", made(place / path))


def fifo(path: str) -> Callable[[Path], None]:
    return lambda place: os.mkfifo(made(place / path))


def device(path: str) -> Callable[[Path], None]:
    return lambda place: made(place / path).symlink_to("/dev/zero")


def made(path: Path) -> Path:
    """A path in a directory that is made, if it is missing, by the owner of that above."""
    if not path.parent.exists():
        path.parent.mkdir()
        os.chown(path.parent, *[path.parent.parent.stat().st_uid] * 2)
    return path


def of_another(place: Path) -> None:
    os.chown(place / "homes/bob", SLURM, SLURM)


ADD_KEYS = f"add_keys {BOB}:{BOB} P/homes/bob <<<'{KEY}'"


@pytest.mark.parametrize(
    "plant",
    [
        link("homes/bob/.ssh", "precious"),
        link("homes/bob/.ssh", "precious/new"),
        link("homes/bob/.ssh/authorized_keys", "precious/shadow"),
        link("homes/bob/.ssh/authorized_keys", "precious/new"),
        hard_link("homes/bob/.ssh/authorized_keys"),
        fifo("homes/bob/.ssh/authorized_keys"),
        device("homes/bob/.ssh/authorized_keys"),
        fifo("homes/bob/.ssh"),
        of_another,
    ],
    ids=["directory", "no directory", "secret", "nothing", "hard link", "fifo", "device", "fifo as .ssh", "another's"],
)
def test_keys_of_a_user_who_has_put_something_there_then_are_named_and_nothing_of_root_changes(
    place: Path, plant: Callable[[Path], None]
) -> None:
    (place / "homes/bob").chmod(0o755)
    plant(place)
    done = play(place, ADD_KEYS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"note: the keys of UID {BOB} are not in {place}/homes/bob/.ssh/authorized_keys")
    assert as_it_was(place)


@pytest.mark.parametrize("program", [(), AS_ON_NFS], ids=["own disk", "root_squash"])
def test_keys_of_a_user_then_are_in_a_block_behind_the_users_own(place: Path, program: tuple[str, ...]) -> None:
    file = made(place / "homes/bob/.ssh/authorized_keys")
    file.write_text("own 1\n# BEGIN slurmfab keys\nold\n# END slurmfab keys\nown 2")
    os.chown(file, BOB, BOB)
    for _ in range(2):
        done = play(place, ADD_KEYS, program=program)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert file.read_text() == f"own 1\nown 2\n# BEGIN slurmfab keys\n{KEY}\n# END slurmfab keys\n"
        assert access(file) == (BOB, 0o600)


def test_keys_of_a_user_without_any_then_are_made_also_where_root_has_no_rights(place: Path) -> None:
    done = play(place, ADD_KEYS, program=AS_ON_NFS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert access(place / "homes/bob/.ssh") == (BOB, 0o700)
    assert access(place / "homes/bob/.ssh/authorized_keys") == (BOB, 0o600)


def access(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)


def test_a_home_then_is_the_users_alone_and_stays_as_it_is(place: Path) -> None:
    home = place / "homes/new"
    assert play(place, f"make_home {BOB}:{BOB} P/homes/new").returncode == 0
    assert (access(home), access(home / ".ssh")) == ((BOB, 0o700), (BOB, 0o700))
    home.chmod(0o750)
    done = play(place, f"make_home {SLURM}:{SLURM} P/homes/new")
    assert (done.stdout, done.stderr, access(home)) == ("", "", (BOB, 0o750))
    assert as_it_was(place)


@pytest.mark.parametrize(
    ("home", "plant", "before"),
    [
        ("homes/new", link("homes/new", "precious"), ""),
        ("homes/new", link("homes/new", "precious/new"), ""),
        ("homes/new", lambda _: None, "mv() { ln -s P/precious ../new; command mv \"$@\"; }"),
        ("homes/bob/x/new", link("homes/bob/x", "precious"), ""),
        ("homes/bob/x/new", lambda _: None, "mkdir() { ln -s P/precious ./x 2>/dev/null || command mkdir \"$@\"; }"),
    ],
    ids=["link", "link to nothing", "link at the last moment", "link above", "link above at the last moment"],
)  # fmt: skip
def test_a_home_where_a_link_waits_then_is_not_made_behind_it(
    place: Path, home: str, plant: Callable[[Path], None], before: str
) -> None:
    plant(place)
    done = play(place, f"make_home {BOB}:{BOB} P/{home}", before)
    assert (done.returncode, done.stderr) == (0, "")
    assert as_it_was(place)


def test_a_home_where_root_may_not_make_it_then_is_named(place: Path) -> None:
    os.chown(place / "homes", SLURM, SLURM)  # as a file server's where root has no rights
    done = play(place, f"make_home {BOB}:{BOB} P/homes/new", program=AS_ON_NFS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"note: {place}/homes/new cannot be made here. Make it by hand, for {BOB}; on the")


STATE = f"give_directory P/lib/slurmctld {SLURM}:{SLURM} 0700"
BLOCK = f"block P/lib/home/.ssh/authorized_keys 'slurm keys' {SLURM}:{SLURM} 0600 '' <<<new"
SWAP = (
    'cd() { if [ "$*" = "-P ./slurmctld" ]; then command mv slurmctld was; ln -s %s slurmctld; fi; builtin cd "$@"; }; '
    "mkdir P/lib/slurmctld"
)


def of_daemon(place: Path) -> None:
    (place / "homes/daemon").mkdir()
    os.chown(place / "homes/daemon", 1, 1)
    link("homes/daemon/.ssh", "precious")(place)


def root_directory(place: Path) -> None:
    """As slurmd's spool, which slurm has renamed."""
    (place / "lib/slurmctld").mkdir(mode=0o700)
    (place / "lib/slurmctld/script").write_text("job")


@pytest.mark.parametrize(
    ("line", "plant", "before", "told"),
    [
        (STATE, link("lib/slurmctld", "precious"), "", "slurmctld is a link"),
        (STATE, link("lib/slurmctld", "precious/new"), "", "slurmctld is a link"),
        (STATE, lambda _: None, SWAP % "P/precious", "others exchange it"),
        (STATE, lambda _: None, SWAP % "home/.ssh", "others exchange it"),
        (STATE, root_directory, "", "is given to nobody"),
        (STATE, fifo("lib/slurmctld"), "", "is no directory"),
        (f"give_directory P/lib/x/y {SLURM}:{SLURM} 0700", link("lib/x", "precious"), "", "x is a link"),
        ("give_directory P/lib/spool root:root 0755 alone", lambda _: None, "", "can be exchanged by others"),
        ("give_directory P/lib root:root 0755 alone", link("lib/spool", "precious"), "", "has a link in it: ./spool"),
        ("give_directory P/lib root:root 0755", hard_link("lib/log"), "", "has a link in it: ./log"),
        (BLOCK, link("lib/home/.ssh", "precious"), "", ".ssh is a link"),
        (BLOCK, link("lib/home/.ssh/authorized_keys", "precious/shadow"), "", "is no regular file"),
        (BLOCK, link("lib/home/.ssh/authorized_keys", "precious/new"), "", "is no regular file"),
        (BLOCK, hard_link("lib/home/.ssh/authorized_keys"), "", "is no regular file"),
        (BLOCK, fifo("lib/home/.ssh/authorized_keys"), "", "is no regular file"),
        (BLOCK, device("lib/home/.ssh/authorized_keys"), "", "is no regular file"),
        (f"put P/lib/x/shadow {SLURM}:{SLURM} 0600 <<<new", link("lib/x", "precious"), "", "x is a link"),
        ("put P/lib/key root:root 0600 <<<x", lambda _: None, "mktemp() { ln -s P/precious t; echo ./t; }", "another"),
        (f"make_key P/lib/key {SLURM}:{SLURM}", link("lib/key", "precious/shadow"), "", "is no regular file"),
        ("remove_file P/lib/x/shadow", link("lib/x", "precious"), "", "x is a link"),
        ("link P/lib/conf P/homes/conf", lambda place: (place / "lib/conf").touch(), "", "for root alone"),
        ("make_ssh_key daemon P/homes/daemon", of_daemon, "", ".ssh is a link"),
    ],
    ids=lambda value: str(value).partition(" <<<")[0] if isinstance(value, str) and " P/" in str(value) else "-",
)  # fmt: skip
def test_what_slurm_has_put_on_the_way_then_is_named_and_nothing_of_root_changes(
    place: Path, line: str, plant: Callable[[Path], None], before: str, told: str
) -> None:
    plant(place)
    done = play(place, line, before)
    (place / "lib/t").unlink(missing_ok=True)
    assert (done.returncode, told in done.stderr) == (1, True), done
    assert as_it_was(place)


@pytest.mark.parametrize("waiting", ["key", "key.new"])
def test_a_file_where_a_link_of_slurm_waits_then_takes_its_place(place: Path, waiting: str) -> None:
    link(f"lib/home/{waiting}", "precious/shadow")(place)
    done = play(place, f"put P/lib/home/key {SLURM}:{SLURM} 0600 <<<new")
    assert (done.returncode, done.stderr) == (0, "")
    assert ((place / "lib/home/key").read_text(), access(place / "lib/home/key")) == ("new\n", (SLURM, 0o600))
    assert as_it_was(place)


def test_what_is_slurms_then_is_made_in_its_own_directory(place: Path) -> None:
    for line in (STATE, f"give_directory P/lib/home/.ssh {SLURM}:{SLURM} 0700", BLOCK, BLOCK):
        done = play(place, line)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert access(place / "lib/slurmctld") == (SLURM, 0o700)
    file = place / "lib/home/.ssh/authorized_keys"
    assert file.read_text() == "# BEGIN slurmfab slurm keys\nnew\n# END slurmfab slurm keys\n"
    assert (access(file), access(file.parent)) == ((SLURM, 0o600), (SLURM, 0o700))


def test_a_key_that_is_there_then_stays_and_is_its_owners_alone(place: Path) -> None:
    file = place / "lib/key"
    file.write_bytes(b"\0\xff key\n\n")
    os.chown(file, SLURM, 0)
    for _ in range(2):
        assert play(place, f"make_key P/lib/key {SLURM}:{SLURM}").returncode == 0
        assert (file.read_bytes(), access(file)) == (b"\0\xff key\n\n", (SLURM, 0o400))
    file.unlink()
    assert play(place, f"make_key P/lib/key {SLURM}:{SLURM}").returncode == 0
    assert (file.stat().st_size, access(file)) == (1024, (SLURM, 0o400))


def test_a_key_pair_of_slurm_then_is_made_with_its_own_rights_and_stays(place: Path) -> None:
    keys = place / "lib/new/.ssh"
    for _ in range(2):
        done = play(place, "make_ssh_key daemon P/lib/new")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {one.name: access(one)[1] for one in keys.iterdir()} == {"id_ed25519": 0o600, "id_ed25519.pub": 0o644}
    assert {access(one)[0] for one in (keys.parent, keys, *keys.iterdir())} == {1}


def test_links_of_root_then_go_on_working_where_root_alone_can_change_them(place: Path) -> None:
    (place / "disk").mkdir()
    (place / "short").symlink_to("precious/../disk")
    (place / "open").mkdir()
    (place / "open").chmod(0o1777)
    (place / "open/roots").mkdir()
    for line in ("put P/short/a/file root:root 0644 <<<new", "give_directory P/open/roots/x root:root 0755 alone"):
        done = play(place, line)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ((place / "disk/a/file").read_text(), access(place / "disk/a/file")) == ("new\n", (0, 0o644))
    assert access(place / "open/roots/x") == (0, 0o755)
    (place / "open/short").symlink_to(place / "disk")
    done = play(place, "put P/open/short/b root:root 0644 <<<new")
    assert (done.returncode, f"{place}/open/short is a link, and others" in done.stderr) == (1, True)


def test_files_that_are_not_there_then_are_none_to_remove(place: Path) -> None:
    for line in ("remove_file P/lib/none/x", "remove_file P/lib/x"):
        assert play(place, line).returncode == 0


def test_a_link_to_a_shared_file_then_takes_the_place_of_a_file(place: Path) -> None:
    (place / "homes/slurm.conf").write_text("shared")
    (place / "etc").mkdir()
    (place / "etc/slurm.conf").write_text("own")
    for _ in range(2):
        assert play(place, "link P/homes/slurm.conf P/etc/slurm.conf").returncode == 0
        assert (place / "etc/slurm.conf").readlink() == place / "homes/slurm.conf"


@pytest.mark.parametrize("is_link", [False, True])
def test_what_hosts_give_then_is_read_with_the_rights_of_whose_it_is(place: Path, is_link: bool) -> None:
    wanted = planned("example-small")
    script = eject(wanted, make_plan(wanted, wanted.cluster.hosts)).files["make-cluster"]
    text = script.partition("# ssh asks here")[0].replace("slurm --", "daemon --").replace(SLURM_HOME, f"{place}/d")
    for name, data in (("d/key", "secret"), ("d/.ssh/id_ed25519.pub", "ssh-ed25519 AAAAsecret slurm@n1\n")):
        made(place / name).write_text(data)
        os.chown(place / name, 0 if is_link else 1, 0)
        (place / name).chmod(0o400)
        if is_link:
            (place / name).rename(place / "precious" / Path(name).name)
            (place / name).symlink_to(place / "precious" / Path(name).name)
    here = 'to() { for word; do :; done; sh -c "$word"; }'  # STAND-IN for ssh(1) to a host: this one
    lines = f"keys_of n1 | grep -c slurm_key || :; take n1 {place}/d/key daemon; give secret {place}/d/key"
    done = subprocess.run(["bash", "-c", f"{text}\n{here}\n{lines}"], capture_output=True, text=True, check=False)
    assert "AAAAsecret" not in done.stdout
    if is_link:
        assert (done.returncode, done.stdout, "key could not be read" in done.stderr) == (1, "0\n", True), done
    else:
        assert (done.returncode, done.stdout) == (0, "1\nsecret='c2VjcmV0'\n"), done
