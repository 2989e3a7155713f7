"""AppArmor's profiles: their files, and what the kernel has of them, as apparmor_parser(8) puts it there."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, apply
from slurmfab.on_hosts.agent.files.apparmor_profiles import IN_KERNEL, OF, AppArmorProfiles
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile

CRUN, PODMAN = (f"/etc/apparmor.d/slurmfab.usr.bin.{name}" for name in ("crun", "podman"))
OTHERS = "crun (unconfined)\n/usr/bin/man (enforce)\n"


class Host(Context):
    """A scratch root, and a kernel that has a profile by the name of each file that was loaded."""

    def __init__(self, root: Path, *, refuses: bool = False) -> None:
        super().__init__(str(root))
        self.kernel, self.refuses = root / IN_KERNEL[1:], refuses
        self.kernel.parent.mkdir(parents=True)
        self.kernel.write_text(OTHERS)

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        line = f"{Path(argv[-1]).name} (unconfined)\n"
        assert Path(argv[-1]).exists(), "a file is needed to load, and to remove, what it names"
        if self.refuses:
            return subprocess.CompletedProcess(argv, 1, b"", b"syntax error, unexpected TOK_USERNS")
        there = self.kernel.read_text().replace(line, "")
        self.kernel.write_text(there + (line if argv[1] == "--replace" else ""))
        return subprocess.CompletedProcess(argv, 0, b"", b"")

    def has(self) -> str:
        return self.kernel.read_text().removeprefix(OTHERS)


def profiles(*paths: str) -> AppArmorProfiles:
    return AppArmorProfiles(OF, tuple(OwnedFile(path, "a profile\n") for path in paths))


def test_profiles_are_loaded_and_taken_out_of_the_kernel_before_their_files_go(root: Path) -> None:
    host = Host(root)
    assert apply(profiles(CRUN, PODMAN), host).status == CHANGED
    assert host.has() == "slurmfab.usr.bin.crun (unconfined)\nslurmfab.usr.bin.podman (unconfined)\n"
    assert apply(profiles(CRUN, PODMAN), host).status == OK
    assert apply(profiles(CRUN), host).status == CHANGED
    assert host.has() == "slurmfab.usr.bin.crun (unconfined)\n"
    assert apply(AppArmorProfiles(OF, ()), host).status == CHANGED
    assert (host.has(), (root / CRUN[1:]).exists()) == ("", False)


def test_a_profile_that_the_kernel_has_lost_is_loaded_again(root: Path) -> None:
    host = Host(root)
    apply(profiles(CRUN), host)
    host.kernel.write_text(OTHERS)
    assert apply(profiles(CRUN), host).status == CHANGED
    assert host.has() == "slurmfab.usr.bin.crun (unconfined)\n"


def test_a_profile_that_the_kernel_refuses_is_told_with_the_reason(root: Path) -> None:
    outcome = apply(profiles(CRUN), Host(root, refuses=True))
    assert outcome.status == FAILED
    assert "unexpected TOK_USERNS" in outcome.message
