"""How the hub asks root for what only root can do: one line of JSON there, and one back."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.programs.jupyter.places import JUPYTER_SOCKET

SECONDS = 90.0  # more than root's part ever takes
MOST_BYTES = 1 << 18  # of a line; the environment of a server has some 3 kB


class Refused(Exception):
    """What was asked for, and why it cannot be done, for the user who asked."""


def ask(do: str, **values: Any) -> Dict[str, Any]:
    """The answer to one request.

    `do`: `login`, `submit`, `state` or `cancel`; the values are those of that function in `root`. Raises Refused with
    the reason.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SECONDS)
            connection.connect(JUPYTER_SOCKET)
            connection.sendall(json.dumps({"do": do, **values}).encode() + b"\n")
            answer = json_objects.parse(read_line(connection))
    except OSError as error:
        raise Refused("slurmfab-jupyter-root does not answer: %s" % error) from error
    if answer is None:
        raise Refused("slurmfab-jupyter-root gave no answer; its journal has the reason")
    if "error" in answer:
        raise Refused(str(answer["error"]))
    return answer


def read_line(connection: socket.socket) -> bytes:
    """What comes until a line feed or the end, without the line feed; empty if it is too long."""
    found = b""
    while b"\n" not in found:
        more = connection.recv(1 << 16)
        if not more:
            break
        found += more
        if len(found) > MOST_BYTES:
            return b""
    return found.partition(b"\n")[0]
