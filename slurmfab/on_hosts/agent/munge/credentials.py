"""Munge credentials: one host makes them and another decodes them, which proves that both use the same key."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.facts.slurm_use import CONFS
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of, uid_of

USER = "munge"  # the user of the credentials: this user has no rights anywhere, so the credentials are not secret
MUNGE_SECONDS = 20.0  # time limit of munge(1) and unmunge(1)

STATUS = "STATUS:"
SOCKET = re.compile(rb"^[ \t]*AuthInfo[ \t]*=[^#\n]*socket=([^,\s\"]+)", re.IGNORECASE | re.MULTILINE)
"""Where Slurm finds munged, if that is not the usual place (slurm.conf(5), AuthInfo)."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Decode credentials, and make one.

    Args:
        request: `make`: whether to make a credential; `decode`: credentials to decode.

    Returns:
        `made`: the credential, empty for none. `decoded`: the status of each credential as unmunge(1) prints it, such
        as `Success (0)` or `Invalid credential (15)`. `trouble`: why none could be made.

    Raises:
        ResourceFailed: munge is not installed, or does not end in time.
    """
    answer: Dict[str, Any] = {"made": "", "trouble": "", "decoded": []}
    for credential in request.get("decode", ()):
        shown = context.run(["unmunge", *place_of_socket(context)], stdin=credential.encode(), seconds=MUNGE_SECONDS)
        answer["decoded"].append(status(shown.stdout.decode(errors="replace") or shown.stderr.decode(errors="replace")))
    if request.get("make"):
        account = uid_of(context, USER), gid_of(context, USER)
        done = context.run(["munge", "--no-input", *place_of_socket(context)], seconds=MUNGE_SECONDS, account=account)
        answer["made"] = done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
        answer["trouble"] = done.stderr.decode(errors="replace").strip()
    return answer


def place_of_socket(context: Context) -> List[str]:
    """The option of munge(1) and unmunge(1) with the socket that slurm.conf names; nothing for the usual one."""
    paths = (context.path(one) for one in CONFS[:2])
    found = next((found for path in paths for found in SOCKET.findall(whole(path, read_bytes(path)))), b"")
    return ["--socket", found.decode(errors="replace")] if found else []


def status(shown: str) -> str:
    """The status in the output of unmunge(1), or the last line of an output without a status."""
    found = [line.partition(":")[2].strip() for line in shown.splitlines() if line.startswith(STATUS)]
    return (found or shown.strip().splitlines() or ["unmunge printed nothing"])[-1]
