"""What a host with users of its own is kept from by a filter of system calls."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from slurmfab.lab import power, private_users

ROOTS = pytest.mark.needs_root("only root enters a host, and puts itself behind what keeps the host in")

TRY = """
import socket
for family in socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK, socket.AF_PACKET:
    try:
        socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_DGRAM).close()
        print(family.name)
    except PermissionError:
        pass
"""


@ROOTS
def test_a_program_has_sockets_of_network_namespaces_alone_and_so_have_its_children() -> None:
    argv = private_users.closed(["sh", "-c", "python3 -", "sh"])
    done = subprocess.run(argv, input=TRY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"]


@ROOTS
@pytest.mark.parametrize("number", [425, 0x40000000 + 41])
def test_other_ways_to_a_socket_are_refused(number: int) -> None:
    script = (
        f"import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall({number}, 1, 1, 0), ctypes.get_errno())"
    )
    done = subprocess.run(private_users.closed(["python3", "-c", script]), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["-1", "1"]


def changed(root: Path, *steps: private_users.Step, check: bool = True) -> None:
    subprocess.run(private_users.changing(root), input=json.dumps(steps), text=True, check=check)


@ROOTS
@pytest.mark.parametrize("place", ["etc/x", "etc/sub/x"])
@pytest.mark.parametrize("what", ["file", "link", "gone", "empty"])
def test_a_kept_disk_with_links_out_of_it_when_it_is_equipped_then_nothing_outside_is_touched(
    tmp_path: Path, what: str, place: str
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "etc", root / str(outside).lstrip("/"), outside):
        folder.mkdir(parents=True)
        (folder / "x").write_text("kept")
    (outside / "y").write_text("kept")
    if what != "empty":
        (root / "etc/x").unlink()
        (root / "etc/x").symlink_to(outside / "x")
    (root / "etc/x.slurmfab-new").symlink_to(outside / "new")
    (root / "etc/sub").symlink_to(outside)
    (root / str(outside).lstrip("/") / "x").unlink()
    changed(root, (what, "/etc" if what == "empty" else f"/{place}", "text", 0o755))
    assert {one.name: one.read_text() for one in outside.iterdir()} == {"x": "kept", "y": "kept"}
    inside = root / ("etc/x" if place == "etc/x" else f"{str(outside).lstrip('/')}/x")
    if what == "file":
        assert (inside.is_symlink(), inside.read_text(), inside.stat().st_mode & 0o777) == (False, "text", 0o755)
    elif what == "link":
        assert str(inside.readlink()) == "text"
    elif what == "empty":
        assert list((root / "etc").iterdir()) == []
    else:
        assert not inside.is_symlink()


@ROOTS
def test_a_directory_of_a_host_whose_path_has_a_link_is_made_in_the_host(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "var").mkdir(parents=True)
    (root / "var/run").symlink_to(outside)
    changed(root, ("folder", "/var/run/x/state", "", 0), check=False)
    assert not outside.exists()
    (root / "var/run").unlink()
    (root / "var/run").symlink_to("/run")
    (root / "run").mkdir()
    changed(root, ("folder", "/var/run/x/state", "", 0))
    assert (root / "run/x/state").is_dir()


@pytest.mark.parametrize("name", [rb"\xff\xfe", rb"\x1cNSpid:\t1\t1", rb"\rNSpid:\t1\t1"])
def test_a_process_whose_name_is_no_text_or_looks_like_the_kernels_lines_is_seen_as_what_it_is(name: bytes) -> None:
    script = f"import ctypes; ctypes.CDLL(None).prctl(15, b'{name.decode()}', 0, 0, 0); print(1, flush=True); input()"
    with subprocess.Popen(["python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()  # noqa: PT018
        assert not power._keeps_host_on(process.pid)
        process.kill()
