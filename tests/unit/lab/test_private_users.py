"""What a host with users of its own is kept from by a filter of system calls."""

from __future__ import annotations

import subprocess

import pytest

from slurmfab.lab import private_users

TRY = """
import socket
for family in socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_VSOCK, socket.AF_PACKET:
    try:
        socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_DGRAM).close()
        print(family.name)
    except PermissionError:
        pass
"""


def test_a_program_has_sockets_of_network_namespaces_alone_and_so_have_its_children() -> None:
    argv = private_users.closed(["sh", "-c", "python3 -", "sh"])
    done = subprocess.run(argv, input=TRY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"]


@pytest.mark.parametrize("number", [425, 0x40000000 + 41])
def test_other_ways_to_a_socket_are_refused(number: int) -> None:
    script = (
        f"import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall({number}, 1, 1, 0), ctypes.get_errno())"
    )
    done = subprocess.run(private_users.closed(["python3", "-c", script]), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["-1", "1"]
