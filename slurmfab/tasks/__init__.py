"""The commands: a few lines each, every task of one kind in one module."""

from invoke.collection import Collection

from slurmfab.tasks import (
    accounts,
    backup,
    bundle,
    check,
    deploy,
    history,
    lab,
    munge,
    nodes,
    people,
    quickcheck,
    rollback,
)

namespace = Collection(
    deploy.deploy,
    deploy.plan,
    deploy.add_node,
    nodes.remove_node,
    nodes.replace_node,
    nodes.drain,
    nodes.resume,
    nodes.reboot,
    people.add_user,
    people.remove_user,
    munge.rotate_munge_key,
    nodes.status,
    check.check_cluster,
    check.check_gpus,
    quickcheck.quickcheck,
    accounts.accounts_export,
    history.history,
    rollback.rollback,
    backup.backup,
    backup.restore,
    bundle.bundle,
    lab.lab_up,
    lab.lab_down,
    lab.lab_status,
)
"""All tasks, for `fab` and for `slurmfab` alike."""
