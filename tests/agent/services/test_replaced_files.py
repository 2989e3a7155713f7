"""Daemons with replaced libraries, from a scratch /proc."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.services import replaced_files
from slurmfab.on_hosts.agent.slurm import renewed_daemons
from slurmfab.on_hosts.agent.slurm.renewed_daemons import RenewedDaemons

MAPS = """\
55e0a4a00000-55e0a4a10000 r--p 00000000 00:2f 1311 /usr/sbin/munged
7f0c00001000-7f0c00011000 r-xp 00000000 00:2f 1312 {}
7f0c00021000-7f0c00031000 rw-s 00000000 00:01 2049 /dev/zero (deleted)
7f0c00041000-7f0c00051000 r-xp 00000000 00:01 2050 /memfd:jit (deleted)
7f0c00061000-7f0c00071000 r--p 00000000 00:2f 1313 /usr/share/locale/x (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
"""
GONE, THERE = "/usr/lib/x86_64-linux-gnu/libssl.so.3 (deleted)", "/usr/lib/x86_64-linux-gnu/libssl.so.3"
UNIFIED = "0::/system.slice/{}.service\n"
HYBRID = "4:memory:/lab/n1/system.slice/{0}.service\n1:name=systemd:/system.slice/{0}.service\n0::/\n"
SESSION = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/emacs.service\n"


class Host(Context):
    """A host whose systemd knows main processes, and notes what it restarts."""

    def __init__(self, root: Path, main: dict[str, int]) -> None:
        super().__init__(str(root))
        self.main, self.restarted = main, []  # type: ignore[var-annotated]

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        printed = ""
        if argv[:2] == ["systemctl", "show"]:
            units = argv[argv.index("--") + 1 :]
            printed = "\n\n".join(f"MainPID={self.main.get(unit, 0)}" for unit in units) + "\n"
        elif argv[1] == "try-restart":
            self.restarted.append(argv[2])
            for pid, unit in [(pid, unit) for unit, pid in self.main.items() if unit == argv[2]]:
                process(Path(self.root), pid, unit, THERE)
        return subprocess.CompletedProcess(argv, 0, printed.encode(), b"")


def process(root: Path, pid: int, unit: str, library: str, cgroup: str = UNIFIED, comm: str = "d") -> None:  # noqa: PLR0917
    place = root / "proc" / str(pid)
    place.mkdir(parents=True, exist_ok=True)
    (place / "maps").write_text(MAPS.format(library))
    (place / "cgroup").write_text(cgroup.format(unit))
    (place / "comm").write_text(comm + "\n")


def test_units_whose_main_process_uses_a_replaced_library_are_told_with_it(tmp_path: Path) -> None:
    process(tmp_path, 1, "", GONE, "0::/init.scope\n", "systemd")
    process(tmp_path, 10, "munge", GONE)
    process(tmp_path, 11, "cron", THERE)
    process(tmp_path, 12, "dbus", GONE, HYBRID)
    process(tmp_path, 13, "", GONE, SESSION)
    process(tmp_path, 14, "slurmd", GONE, comm="slurmstepd")
    process(tmp_path, 20, "ssh", THERE)
    process(tmp_path, 21, "ssh", GONE, comm="sshd")
    found = replaced_files.users(Host(tmp_path, {"munge": 10, "dbus": 12, "ssh": 20, "slurmd": 15}))
    assert found == {"init": ["libssl.so.3"], "munge": ["libssl.so.3"], "dbus": ["libssl.so.3"]}


def test_only_daemons_that_lose_nothing_are_restarted(tmp_path: Path) -> None:
    process(tmp_path, 1, "", GONE, "0::/init.scope\n", "systemd")
    process(tmp_path, 11, "cron", GONE)
    process(tmp_path, 12, "dbus", GONE)
    host = Host(tmp_path, {"cron": 11, "dbus": 12})
    outcome = apply(RenewedDaemons(), host)
    assert (outcome.status, host.restarted) == ("changed", ["cron"])
    assert [(one.name, one.actual) for one in outcome.changes] == [("cron", "uses replaced libssl.so.3")]
    assert apply(RenewedDaemons(), host).status == "ok"


def test_slurms_daemons_are_restarted_after_what_they_need() -> None:
    assert renewed_daemons.ordered(["ssh", "slurmctld", "cron", "munge", "slurmdbd", "mariadb"]) == [
        "munge",
        "mariadb",
        "slurmdbd",
        "slurmctld",
        "cron",
        "ssh",
    ]
    assert RenewedDaemons(True).answers("slurmctld") != RenewedDaemons().answers("slurmctld") == ()
