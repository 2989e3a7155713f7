"""Files of Slurm's and MUNGE's packages that are gone are told; those that a site may leave out are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.packages import packages

LISTS = {
    "slurmd.list": "/usr/sbin\n/usr/sbin/slurmd-wlm\n/usr/sbin/slurmstepd-wlm\n/usr/share/doc/slurmd/copyright\n",
    "libmunge2:amd64.list": "/usr/lib/libmunge.so.2\n",
    "tar.list": "/usr/bin/tar\n",
    "slurmd.md5sums": "",
}
FILES = ("usr/sbin/slurmd-wlm", "usr/sbin/slurmstepd-wlm", "usr/lib/libmunge.so.2")
RECORD = """\
auto
/usr/sbin/slurmd
slurmstepd
/usr/sbin/slurmstepd

/usr/sbin/slurmd-wlm
50
/usr/sbin/slurmstepd-wlm

"""
LINKS = ("usr/sbin/slurmd", "usr/sbin/slurmstepd", "etc/alternatives/slurmd", "etc/alternatives/slurmstepd")


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ((), None),
        (("usr/sbin/slurmstepd-wlm",), "/usr/sbin/slurmstepd-wlm of slurmd"),
        (
            ("usr/sbin/slurmstepd-wlm", "usr/lib/libmunge.so.2"),
            "/usr/lib/libmunge.so.2 of libmunge2, /usr/sbin/slurmstepd-wlm of slurmd",
        ),
        (("usr/sbin/slurmstepd",), "/usr/sbin/slurmstepd of slurmd"),
        (("etc/alternatives/slurmd",), "/usr/sbin/slurmd of slurmd"),
    ],
)
def test_a_missing_program_or_library_is_told_with_its_package(
    root: Path, gone: tuple[str, ...], told: str | None
) -> None:
    info = root / packages.INFO.lstrip("/")
    info.mkdir(parents=True)
    for name, text in LISTS.items():
        (info / name).write_text(text)
    record = root / packages.ALTERNATIVES[0].lstrip("/") / "slurmd"
    record.parent.mkdir(parents=True)
    record.write_text(RECORD)
    for path in {*FILES, *LINKS} - set(gone):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    assert packages.missing_files_text(packages.missing_files(str(root))) == told


def test_many_missing_files_are_counted() -> None:
    assert packages.missing_files_text(tuple(("slurmd", f"/x{n}") for n in range(5))) == (
        "/x0 of slurmd, /x1 of slurmd, /x2 of slurmd and 2 more"
    )
