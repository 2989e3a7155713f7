"""The commands: a few lines each, every task of one kind in one module."""

from invoke.collection import Collection

from slurmfab.tasks import check, deploy, lab, nodes

namespace = Collection(
    deploy.deploy,
    deploy.plan,
    deploy.add_node,
    nodes.remove_node,
    nodes.replace_node,
    nodes.drain,
    nodes.resume,
    nodes.reboot,
    nodes.status,
    check.check_cluster,
    lab.lab_up,
    lab.lab_down,
    lab.lab_status,
)
"""All tasks, for `fab` and for `slurmfab` alike."""
