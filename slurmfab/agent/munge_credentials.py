"""Credentials of munge's: made on one host and decoded on another, they prove that both run with one key."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from slurmfab.agent.accounts import gid_of, uid_of
from slurmfab.agent.resource import Context

USER = "munge"
"""Whose credentials they are: nothing believes this user anything, so it does not matter who might see them."""

SECONDS = 20.0
STATUS = "STATUS:"


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Decode credentials, and make one.

    Args:
        request: `make`: whether to make one; `decode`: credentials to decode.
        context: runs the programs.

    Returns:
        `made`: the credential, empty for none. `decoded`: for each, the status in the words of unmunge(1), such as
        `Success (0)` or `Invalid credential (15)`. `trouble`: why none could be made.

    Raises:
        ResourceFailed: munge is not installed, or hangs.
    """
    answer: Dict[str, Any] = {"made": "", "trouble": "", "decoded": []}
    for credential in request.get("decode", ()):
        shown = context.run(["unmunge"], stdin=credential.encode(), seconds=SECONDS)
        answer["decoded"].append(status(shown.stdout.decode(errors="replace") or shown.stderr.decode(errors="replace")))
    if request.get("make"):
        account = uid_of(context, USER), gid_of(context, USER)
        done = context.run(["munge", "--no-input"], seconds=SECONDS, account=account)
        answer["made"] = done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
        answer["trouble"] = done.stderr.decode(errors="replace").strip()
    return answer


def status(shown: str) -> str:
    """The status in what unmunge(1) printed, or its last words where there is none."""
    found = [line.partition(":")[2].strip() for line in shown.splitlines() if line.startswith(STATUS)]
    return (found or shown.strip().splitlines() or ["unmunge printed nothing"])[-1]
