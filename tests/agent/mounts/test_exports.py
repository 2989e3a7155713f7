"""Exports on a host: which files it has, what the NFS server has loaded, and what stays for hosts that are away."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import as_sent, failure

from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.mounts.exports import (
    EXPORTS,
    LOADED,
    SETTINGS,
    TABLE,
    ExportFiles,
    ExportsLoaded,
    exports_entries,
)

HOME, SOFTWARE = "/srv/home", "/srv/software"
CONF = "[nfsd]\nvers3=n\n"
BOTH = ((HOME, "10.0.0.2", "rw"), (HOME, "n3", "rw"), (SOFTWARE, "10.0.0.2", "ro"))


class Host(Context):
    """A scratch root with a kernel that can serve NFS, and an exportfs that makes its table of the files."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.scratch = root
        self.asked = 0
        self.words = ""
        self.put("/proc/filesystems", "nodev\tproc\nnodev\tnfsd\n")

    def put(self, path: str, text: str) -> None:
        place = self.scratch / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def text(self, path: str) -> str:
        place = self.scratch / path.lstrip("/")
        return place.read_text() if place.exists() else ""

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        assert list(argv) == ["exportfs", "-ra"]
        self.asked += 1
        if not self.words:
            lines = (f"{path}\t{to}({text},sync)\n" for (path, to), text in exports_entries(self.text(EXPORTS)).items())
            self.put(TABLE, "".join(lines))
        return subprocess.CompletedProcess(list(argv), int(bool(self.words)), b"", self.words.encode())


@pytest.fixture
def host(root: Path) -> Host:
    return Host(root)


def files(*exports: tuple[str, str, str], **more: Any) -> ExportFiles:
    wanted = ExportFiles(tuple(dict.fromkeys(path for path, *_ in exports)), exports, CONF, **more)
    same = as_sent(wanted)
    assert isinstance(same, ExportFiles)
    return same


def serve(host: Host, *exports: tuple[str, str, str], **more: Any) -> list[str]:
    """The outcomes of both resources, which a second run finds as they are wanted."""
    outcomes = [apply(one, host) for one in (files(*exports, **more), ExportsLoaded())]
    assert {apply(one, host).status for one in (files(*exports, **more), ExportsLoaded())} == {"ok"}
    return [one.status for one in outcomes]


def test_exports_make_directories_and_name_each_client(host: Host) -> None:
    assert serve(host, *BOTH) == ["changed", "changed"]
    assert (host.scratch / HOME[1:]).stat().st_mode & 0o777 == 0o755
    lines = host.text(EXPORTS).splitlines()[1:]
    assert lines == [f"{HOME} 10.0.0.2(rw)", f"{HOME} n3(rw)", f"{SOFTWARE} 10.0.0.2(ro)"]
    assert host.text(SETTINGS) == CONF
    assert host.asked == 1


def test_a_directory_that_exists_keeps_its_mode_and_content(host: Host) -> None:
    host.put(f"{HOME}/ann/thesis", "text")
    (host.scratch / HOME[1:]).chmod(0o711)
    serve(host, *BOTH)
    assert (host.scratch / HOME[1:]).stat().st_mode & 0o777 == 0o711
    assert host.text(f"{HOME}/ann/thesis") == "text"


def test_former_entries_go_in_the_later_phase_alone_and_all_files_with_the_last(host: Host) -> None:
    serve(host, *BOTH)
    assert serve(host, BOTH[0]) == ["ok", "ok"]
    assert f"{SOFTWARE} 10.0.0.2(ro)" in host.text(EXPORTS)
    assert serve(host, BOTH[0], drops=True) == ["changed", "changed"]
    assert list(exports_entries(host.text(TABLE))) == [(HOME, "10.0.0.2")]
    assert serve(host, drops=True) == ["changed", "changed"]
    assert not any(host.text(path) for path in (EXPORTS, SETTINGS, LOADED, TABLE, f"{OWNED}/exports.json"))
    assert (host.scratch / SOFTWARE[1:]).is_dir()


def test_what_a_host_that_is_away_may_have_mounted_stays_with_a_remark(host: Host) -> None:
    serve(host, *BOTH)
    done = apply(files(drops=True, away=(("10.0.0.2", "n2"), ("10.0.0.9", "n9"))), host)
    assert done.status == "changed"
    assert f"{HOME}, {SOFTWARE} stay exported to n2" in done.message
    assert list(exports_entries(host.text(EXPORTS))) == [(HOME, "10.0.0.2"), (SOFTWARE, "10.0.0.2")]
    assert host.text(SETTINGS) == CONF


def test_other_options_of_an_entry_are_loaded(host: Host) -> None:
    serve(host, *BOTH)
    assert serve(host, (HOME, "10.0.0.2", "ro"), *BOTH[1:]) == ["changed", "changed"]
    assert host.asked == 2


def test_a_run_that_was_interrupted_before_the_server_read_the_file_is_completed(host: Host) -> None:
    serve(host, *BOTH)
    apply(files(drops=True), host)
    assert apply(ExportsLoaded(), host).status == "changed"
    assert host.text(TABLE) == ""


def test_entries_that_exportfs_refuses_are_told_in_its_words(host: Host) -> None:
    host.words = "exportfs: Failed to stat /srv/home: No such file or directory\n"
    apply(files(BOTH[0]), host)
    assert failure(ExportsLoaded(), host) == f"{HOME} is not exported to 10.0.0.2: {host.words.strip()}"


def test_a_kernel_without_a_server_is_named_before_anything_is_written(host: Host) -> None:
    host.put("/proc/filesystems", "nodev\tproc\n")
    message = failure(files(*BOTH), host)
    assert "has no NFS server" in message
    assert "name another host in exports" in message
    assert host.text(EXPORTS) == ""


def test_a_rollback_loads_nothing_while_a_host_that_is_away_may_have_a_former_export(host: Host) -> None:
    serve(host, *BOTH)
    (host.scratch / EXPORTS[1:]).unlink()
    left = apply(ExportsLoaded((("10.0.0.2", "n2"),)), host)
    assert (left.status, host.asked) == ("ok", 1)
    assert "n2 may have them mounted" in left.message
    assert apply(ExportsLoaded(), host).status == "changed"
    assert host.text(TABLE) == ""


def test_a_file_in_the_place_of_a_directory_is_refused(host: Host) -> None:
    host.put(HOME, "text")
    assert "is no directory" in apply(files(*BOTH), host).message
