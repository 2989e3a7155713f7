"""The commands: a few lines each, every task of one kind in one module."""

from slurmfab.cli.tasks import (
    acceptance,
    accounts,
    backup,
    bundle,
    check,
    cluster_file,
    completion,
    deploy,
    doctor,
    drift,
    help,
    history,
    lab,
    logs,
    monitoring,
    munge,
    nodes,
    people,
    quickcheck,
    report,
    rollback,
    ssh,
    support,
    takeover,
    update,
    upgrade,
    usage,
    user_guide,
)

GROUPS: tuple[help.Group, ...] = (
    (
        "First contact and deployment",
        (
            cluster_file.init,
            deploy.deploy,
            deploy.plan,
            takeover.import_,
            munge.rotate_munge_key,
            bundle.bundle,
            cluster_file.schema,
        ),
    ),
    ("Checks", (nodes.status, check.check_cluster, quickcheck.quickcheck, check.check_gpus, acceptance.accept)),
    (
        "What the cluster looks like",
        (report.report, drift.drift, logs.logs, monitoring.monitoring_files, user_guide.user_guide),
    ),
    (
        "Nodes",
        (
            deploy.add_node,
            nodes.remove_node,
            nodes.replace_node,
            nodes.drain,
            nodes.resume,
            nodes.reboot,
        ),
    ),
    ("Updates and upgrades", (update.update, upgrade.upgrade)),
    ("Logins of your own", (ssh.ssh, ssh.ssh_config)),
    ("People and accounts", (people.add_user, people.remove_user, accounts.accounts_export, usage.usage)),
    ("History and undo", (history.history, rollback.rollback, history.restore_lock)),
    ("Asking for help", (doctor.doctor, support.support_bundle)),
    ("Backups", (backup.backup, backup.restore)),
    (
        "Lab: hosts on this machine, to try slurmfab",
        (lab.lab_up, lab.lab_down, lab.lab_off, lab.lab_on, lab.lab_status),
    ),
    ("Help", (help.help, completion.completion)),
)
"""All tasks, in the order in which they are shown."""

TASKS = {task.name: task for _, tasks in GROUPS for task in tasks}
"""All tasks by their names."""
