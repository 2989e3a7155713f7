"""Limits of users: what setquota is told, what stays, and what is said where a file system has no quotas.

The kernels of lab hosts have no quotas, so a stand-in for repquota and setquota keeps the limits here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import as_sent

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.mounts.quotas import RECORD, Limits, UserQuotas, parse_quotas

HEADER = (
    "User,BlockStatus,FileStatus,BlockUsed,BlockSoftLimit,BlockHardLimit,BlockGrace,"
    "FileUsed,FileSoftLimit,FileHardLimit,FileGrace\n"
)
TABLE = "20 1 0:18 / / rw - ext4 /dev/sda1 rw\n30 20 8:17 / /srv rw - ext4 /dev/sdb1 rw,usrquota\n"
GIB = 1 << 20


class Host(Context):
    """A scratch root with a stand-in for quotas on /srv: limits by UID."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.limits = {1001: [0, 0, 7, 9], 1002: [5, 6, 0, 0]}
        self.trouble = ""
        self.batches: list[str] = []
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text(TABLE)
        with (root / "etc/passwd").open("a") as users:
            users.write("carl:x:1003:1003::/home/carl:/bin/sh\n")

    def run(self, argv: Sequence[str], stdin: bytes = b"", *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if self.trouble == "missing":
            raise ResourceFailed("repquota is not installed")
        assert argv[-1] == "/srv"
        if self.trouble:
            return subprocess.CompletedProcess(list(argv), 1, b"", f"repquota: {self.trouble}\n".encode())
        if argv[0] == "setquota":
            assert list(argv[1:]) == ["-u", "-b", "--", "/srv"]
            self.batches.append(stdin.decode())
            for uid, *numbers in (map(int, line.split()) for line in stdin.decode().splitlines()):
                self.limits[uid] = list(numbers)
        rows = (f"#{uid},ok,ok,4,{a},{b},,1,{c},{d},\n" for uid, (a, b, c, d) in self.limits.items())
        return subprocess.CompletedProcess(list(argv), 0, (HEADER + "".join(rows)).encode(), b"")


@pytest.fixture
def host(root: Path) -> Host:
    return Host(root)


def quotas(*limits: tuple[str, int, int, int], path: str = "/srv/home") -> UserQuotas:
    same = as_sent(UserQuotas(path, limits))
    assert isinstance(same, UserQuotas)
    return same


ANN, BOB, CARL = ("ann", 1001, 50 * GIB, 60 * GIB), ("bob", 1002, 0, 70 * GIB), ("carl", 0, GIB, 0)


def test_limits_are_set_at_once_and_those_of_files_stay(host: Host) -> None:
    wanted = quotas(ANN, BOB, CARL)
    assert apply(wanted, host).status == "changed"
    assert host.limits == {1001: [52428800, 62914560, 7, 9], 1002: [0, 73400320, 0, 0], 1003: [GIB, 0, 0, 0]}
    assert len(host.batches) == 1
    assert apply(wanted, host).status == "ok"


def test_only_what_differs_is_set(host: Host) -> None:
    apply(quotas(ANN, BOB), host)
    apply(quotas(("ann", 1001, GIB, GIB), BOB), host)
    assert host.batches[1:] == [f"1001 {GIB} {GIB} 7 9\n"]


def test_former_limits_go_and_those_of_others_stay(host: Host) -> None:
    host.limits[1009] = [1, 2, 3, 4]
    apply(quotas(ANN, BOB), host)
    assert apply(quotas(ANN), host).status == "changed"
    assert host.limits[1002] == [0, 0, 0, 0]
    assert apply(quotas(path=""), host).status == "changed"
    assert host.limits[1001] == [0, 0, 7, 9]
    assert host.limits[1009] == [1, 2, 3, 4]
    assert not (Path(host.root) / RECORD[1:]).exists()


def test_a_file_system_without_quotas_is_a_remark_in_repquotas_words(host: Host) -> None:
    host.trouble = "Mountpoint (or device) /srv not found or has no quota enabled."
    left = apply(quotas(ANN), host)
    assert left.status == "ok"
    assert left.message.startswith("/srv cannot limit users: Mountpoint (or device) /srv not found")
    assert "usrquota" in left.message
    host.trouble = ""
    assert apply(quotas(ANN), host).status == "changed"


def test_users_whom_the_host_does_not_know_are_a_remark(host: Host) -> None:
    done = apply(quotas(ANN, ("dora", 0, GIB, GIB)), host)
    assert (done.status, done.message) == ("changed", "dora has no limits: there is no such user on this host")


def test_a_plan_before_the_programs_are_installed_shows_what_will_be_set(host: Host) -> None:
    host.dry_run, host.trouble = True, "missing"
    assert apply(quotas(ANN), host).status == "would change"


def test_rows_of_repquota_are_read_whatever_their_grace() -> None:
    text = HEADER + "#0,ok,ok,20,0,0,,2,0,0,\n#1001,soft,ok,99,50,100,6days,3,0,0,\n1002,-,-,1,2,3,0,4,5,6,0\n"
    assert parse_quotas(text) == {
        0: Limits(20, 0, 0, 0, 0),
        1001: Limits(99, 50, 100, 0, 0),
        1002: Limits(1, 2, 3, 5, 6),
    }
