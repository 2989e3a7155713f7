"""The tasks for the keys by which hosts know each other (munge), and Slurm its users over HTTP (tokens, JWT)."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command()
def rotate_munge_key(common: Common) -> int:
    """Give all hosts a new munge key.

    The new key is first written beside the old one on every host, and then takes its place on all hosts at the same
    moment, while slurmctld is stopped for about two seconds; jobs keep running. Then credentials are tested in both
    directions on every host. Hosts that could not be reached keep the old key, and are named. Exit codes: 0 done,
    and verified on every host, 1 failed on the hosts that are named, or nothing was changed since a host could not
    take part, 2 wrong input, 3 done, but some hosts could not be reached and have the old key.

    Examples:
        fab rotate-munge-key
        fab rotate-munge-key --json -
    """
    from slurmfab.commands.munge import key_rotation

    return key_rotation.rotate_munge_key(common.cluster, common.output)


@command()
def rotate_jwt_key(common: Common) -> int:
    """Give Slurm a new key for tokens, so that earlier ones end.

    The hosts that prove tokens get the new key, those of slurmctld and slurmdbd, and these daemons are restarted; jobs
    keep running. Then a token that was made with the old key is refused, a new one counts, and nodes and jobs are as
    before. Exit codes: 0 done, and verified, 1 failed on the hosts that are named, or nothing was changed, 2 wrong
    input, 3 done, but some hosts could not be reached.

    Examples:
        fab rotate-jwt-key
        fab rotate-jwt-key --json -
    """
    from slurmfab.commands.munge import jwt_rotation

    return jwt_rotation.rotate_jwt_key(common.cluster, common.output)
