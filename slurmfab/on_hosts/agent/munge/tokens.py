"""Tokens (JWT) on a controller: whether slurmctld makes them, and whether Slurm's daemons take them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of, uid_of

USER = "munge"  # the user of the tokens, who has no rights anywhere
LIFETIME = 120  # seconds that they count
SECONDS = 30.0

WITH_TOKEN = ("sh", "-c", 'read -r SLURM_JWT && export SLURM_JWT && exec "$@"', "sh")
"""Runs a command with the token on standard input: an environment of another user is nobody's to read."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Have a token made, and try others.

    Args:
        request: `make`: whether to make one; `try`: tokens; `with_database`: whether slurmdbd is to take them, too.

    Returns:
        `made`: the token, empty for none. `trouble`: why none could be made. `taken`: for each token that was tried,
        what refused it, a line each: nothing for a token that counts.

    Raises:
        ResourceFailed: Slurm's commands are not installed, or do not end in time.
    """
    answer: Dict[str, Any] = {"made": "", "trouble": "", "taken": []}
    account = uid_of(context, USER), gid_of(context, USER)
    asked = {"slurmctld": commands.PARTITION_STATES}
    asked.update({"slurmdbd": commands.accounts("cluster", ("Cluster",))} if request.get("with_database") else {})
    for token in request.get("try", ()):
        refused: List[str] = []
        for daemon, command in asked.items():
            done = context.run([*WITH_TOKEN, *command], token.encode() + b"\n", SECONDS, account=account)
            if done.returncode != 0:
                said = done.stderr.decode(errors="replace").strip().splitlines()
                refused.append("%s: %s" % (daemon, said[-1] if said else "no message"))
        answer["taken"].append(refused)
    if request.get("make"):
        done = context.run(commands.token(USER, LIFETIME), seconds=SECONDS)
        answer["made"] = done.stdout.decode(errors="replace").strip().partition("=")[2]
        answer["trouble"] = done.stderr.decode(errors="replace").strip()
    return answer
