"""Tasks that save what a deployment cannot make anew, and bring a cluster back from that: backup, restore."""

from __future__ import annotations

from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "verbose", "ask_sudo_password"),
    to="directory for the archive, or the archive's own path (default: beside the cluster file)",
    list="list the archives beside the cluster file and check that they are complete; make no backup",
)
def backup(common: Common, *, to: str = "", list: bool = False) -> int:
    """Save database, Slurm's state and keys in an archive.

    The archive holds the accounting database, slurmctld's state, /etc/slurm, the munge key, the cluster file and the
    lock. Jobs, slurmctld and slurmdbd keep running. The archive is written on this machine, readable by its owner only
    (0600), and signed with your signing key; an interrupted backup leaves no archive. With backup.encrypt_to in the
    cluster file it is encrypted. Exit codes: 0 done, 1 failed, or --list finds an incomplete archive, 2 wrong input.

    Examples:
        fab backup
        fab backup --to /srv/backups/
        fab backup --list
    """
    from slurmfab.commands.backup import saving

    if list:
        return saving.list_backups(common.cluster)
    return saving.backup(common.cluster, to, common.output)


@command(
    file=f"the archive that {FAB} backup made",
    accept_new_host_keys="trust new SSH host keys, also those of reinstalled controllers",
    database="another archive, from which the accounting database is taken",
    overwrite="discard the jobs that were submitted after the backup",
    abandon_jobs="let Slurm end running jobs that are not in the backup",
    identity="file with the private key of age, or SSH private key, that decrypts the archive",
    signed_by="file with SSH public keys whose archives are trusted, such as a colleague's",
    trust_archive="trust an archive that no trusted key has signed; it can make its maker root on all hosts",
)
def restore(
    common: Common,
    file: str,
    *,
    database: str = "",
    accept_new_host_keys: bool = False,
    overwrite: bool = False,
    abandon_jobs: bool = False,
    signed_by: str = "",
    identity: str = "",
    trust_archive: bool = False,
    yes: bool = False,
) -> int:
    """Bring a cluster back from an archive of fab backup.

    The hosts may be the same or reinstalled ones. The archive and its signature are verified first; without one of a
    trusted key, what the archive could do is shown and asked. Then the hosts are deployed, with the
    munge key, the accounting database and slurmctld's state in place before the daemons start, so that job history and
    job numbers continue. A running cluster with later jobs is left alone. If there is no cluster file here, the one in
    the archive is used. Exit codes: 0 done, 1 failed or refused, 2 wrong input, 3 done, but some hosts were left out.

    Examples:
        fab restore configs/cluster.backups/titanic-20261121T143200Z.tar
        fab restore titanic-20261121T143200Z.tar --accept-new-host-keys
        fab restore titanic-20261121T143200Z.tar --identity ~/.ssh/id_ed25519
    """
    from slurmfab.commands.backup import restoring

    options = restoring.RestoreOptions(
        accept_new_host_keys, overwrite, abandon_jobs, database, trust_archive, signed_by, identity, yes
    )
    return restoring.restore(common.cluster, file, options, common.output)
