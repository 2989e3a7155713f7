"""A directory in which a distribution lets a group write, in a scratch root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_folder
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.shared_names import LATER, NOW, OWNERS, SharedNames

LOGS = SharedNames("/var/log")
UBUNTUS = "# a comment\nz /var/log 0775 root syslog -\nz /var/log/auth.log 0640 syslog adm -\n"
NAME = "00rsyslog.conf"

needs_root = pytest.mark.needs_root("only root writes in /etc")


def made(root: Path, mode: int, **files: str) -> Path:
    """/var/log with this mode, and files of systemd-tmpfiles; `etc`, `run` or `usr` is where each one is."""
    logs = root / "var/log"
    logs.mkdir(parents=True)
    logs.chmod(mode)
    for place, text in files.items():
        folder = root / {"etc": "etc", "run": "run", "usr": "usr/lib"}[place] / "tmpfiles.d"
        folder.mkdir(parents=True)
        (folder / NAME).write_text(text)
    return logs


@pytest.mark.parametrize(
    ("mode", "files", "now", "later"),
    [
        (0o755, {}, "", ""),
        (0o775, {}, "0775", ""),
        (0o1775, {}, "", ""),
        (0o777, {}, "", ""),  # of no distribution: who would have slurmd work below it refuses it
        (0o755, {"usr": UBUNTUS}, "", f"what /etc/tmpfiles.d/{NAME} is a copy of"),
        (0o775, {"usr": UBUNTUS}, "0775", f"what /etc/tmpfiles.d/{NAME} is a copy of"),
        (0o755, {"run": UBUNTUS, "usr": "# nothing"}, "", f"what /etc/tmpfiles.d/{NAME} is a copy of"),
        (0o755, {"run": "# masks", "usr": UBUNTUS}, "", ""),
        (0o755, {"etc": "# the site's own", "usr": UBUNTUS}, "", ""),
        (0o755, {"etc": UBUNTUS}, "", f"/etc/tmpfiles.d/{NAME}"),
        (0o755, {"usr": "d /var/log 0755 - - -\n"}, "", ""),
        (0o755, {"usr": "d /var/log ~0775 root syslog -\n"}, "", "copy"),
        (0o755, {"usr": "d /var/log/journal 0775 root syslog -\n#z /var/log 0775 root syslog\n"}, "", ""),
        (0o755, {"usr": "d /var/log 1775 root syslog -\n"}, "", ""),
    ],
)
def test_who_changes_names_in_the_directory_is_told_for_now_and_for_after_a_boot(
    root: Path, mode: int, files: dict[str, str], now: str, later: str
) -> None:
    made(root, mode, **files)
    state = LOGS.actual(Context(str(root)))
    assert (state[NOW] == OWNERS, state[LATER] == OWNERS) == (not now, not later), state
    assert now in str(state[NOW])
    assert later in str(state[LATER])


@needs_root
def test_the_bit_is_set_and_a_copy_of_the_packages_file_keeps_it_and_follows_it(root: Path) -> None:
    logs, context = made(root, 0o775, usr=UBUNTUS), Context(str(root))
    assert apply(LOGS, context).status == "changed"
    assert logs.stat().st_mode & 0o7777 == 0o1775
    copy, original = root / "etc/tmpfiles.d" / NAME, root / "usr/lib/tmpfiles.d" / NAME
    assert original.read_text() == UBUNTUS
    assert copy.read_text().partition("\n")[2] == UBUNTUS.replace("/var/log 0775", "/var/log 1775")
    assert apply(LOGS, context).status == "ok"

    original.write_text(UBUNTUS + "# a newer version\n")
    assert apply(LOGS, context).status == "changed"
    assert copy.read_text().endswith("# a newer version\n")

    original.unlink()
    assert apply(LOGS, context).status == "changed"
    assert not copy.exists()
    assert apply(LOGS, context).status == "ok"


@needs_root
def test_a_file_of_the_sites_own_stays_and_is_told_with_what_to_write(root: Path) -> None:
    made(root, 0o755, etc=UBUNTUS)
    outcome = apply(LOGS, Context(str(root)))
    assert (outcome.status, f"/etc/tmpfiles.d/{NAME}" in outcome.message) == ("failed", True)
    assert "Write mode 1775 for /var/log there" in outcome.message
    assert (root / "etc/tmpfiles.d" / NAME).read_text() == UBUNTUS


@needs_root
def test_a_directory_for_root_below_one_of_a_group_is_refused_with_mode_group_and_command_until_names_are_safe(
    root: Path,
) -> None:
    logs, context = made(root, 0o775), Context(str(root))
    os.chown(logs, 0, 12)
    slurmds = Directory("/var/log/slurmd", for_root=True)
    refused = apply(slurmds, context).message
    assert f"whoever may write to {logs} (root:" in refused
    assert " 0775) can put another directory in the place of" in refused
    assert refused.endswith(f"take that right away: chmod go-w {logs}")
    assert apply(LOGS, context).status == "changed"
    assert apply(slurmds, context).status in ("ok", "changed")


def test_in_a_directory_with_the_bit_a_name_of_another_user_is_that_users_alone(root: Path) -> None:
    logs = made(root, 0o1775)
    (logs / "slurm").mkdir()
    if os.getuid() == 0:
        os.chown(logs / "slurm", 4242, 4242)
        with open_folder(str(logs / "slurm")) as folder:
            assert (folder.intruder, folder.others) == ("UID 4242", "UID 4242")
    (logs / "link").symlink_to("/etc")
    with pytest.raises(UnsafePath, match="It is not followed"):
        open_folder(str(logs / "link"))
