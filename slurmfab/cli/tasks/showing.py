"""Tasks that show a cluster to people: report, drift, logs, and files and pages for others."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    install="install a systemd timer on this machine that runs this as the cluster file's drift says",
    remove="remove that timer",
    json="write what differs as JSON to this file (- for standard output)",
)
def drift(common: Common, *, install: bool = False, remove: bool = False) -> int:
    """Say in few lines what differs on hosts; changes nothing.

    It compares as plan does. With drift in the cluster file it also writes metrics for node-exporter, and sends a mail
    when something else differs than at the last mail. With monitoring, the controller keeps the numbers for Prometheus.
    Exit codes: 0 nothing differs, 1 the hosts, or some of their resources, could not be compared, or the alarm could
    not be sent, 2 wrong input, 3 nothing differs, but some hosts could not be compared, 4 something differs; some hosts
    may be missing, too.

    Examples:
        fab drift
        fab drift --install
    """
    from slurmfab.commands.drift import alarm, timer

    if install and remove:
        raise InputError("Give --install or --remove, not both.")
    if install:
        return timer.install(common.cluster)
    return timer.remove(common.cluster) if remove else alarm.run(common.cluster, common.output)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    target="hostlist, or the id of a job",
    since="begin of the period: 2h (ago), 14:30, 2026-11-23T14:30, yesterday (default: 1h, or the job's start)",
    until="its end (default: now, or the job's end)",
    around="a time in place of both: ten minutes before and after it",
    all="show all lines, not only those that matter",
)
def logs(common: Common, target: str, *, since: str = "", until: str = "", around: str = "", all: bool = False) -> int:
    """Show the log lines that matter of a node or a job.

    These are errors, changes of state, and what names the node or the job, in the logs of slurmctld, slurmd, slurmdbd
    and munge, and in the kernel's: killed for memory, GPU errors, disks, links. The node is asked, and the controllers;
    equal lines are one, with all hosts and their number. Nothing is changed, and what looks like a secret is hidden.
    Exit codes: 0 shown, even if no line matters, 1 no host answers, or Slurm does not know the job, 2 wrong input, 3
    some hosts do not answer.

    Examples:
        fab logs n3
        fab logs 'n[1-8]' --around 14:30
        fab logs 4711
    """
    from slurmfab.commands.logs import showing
    from slurmfab.commands.logs.times import Asked

    return showing.show(common.cluster, target, Asked(since, until, around), common.output, every_line=all)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    target="id of a job, a node, or a user",
    json="write the chain as JSON to this file (- for standard output)",
)
def explain(common: Common, target: str) -> int:
    """Tell what happened to a job, a node or a user, and why.

    One chain of causes: why a job waited and who held what it waited for, where it ran, how it ended, and whether the
    node was at fault; since when a node is out of service, by whom and why, and what brings it back; why jobs of a user
    wait or fail. It is made of the records of Slurm, logs and earlier runs of slurmfab; each line that a cause rests on
    is quoted with its place. What is not on record is said to be unknown. Nothing is changed. Exit codes: 0 told, 1 no
    controller answers, or the job or the user is not known, 2 wrong input, 3 told, but some hosts or daemons do not
    answer.

    Examples:
        fab explain 4711
        fab explain n3
        fab explain ann
    """
    from slurmfab.commands.explain import explaining

    return explaining.show(common.cluster, target, common.output)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    json="write the places of nodes, and whose word they are, as JSON to this file (- for standard output)",
    interface="network interface on which LLDP counts (default: all; InfiniBand then comes first)",
    write="write the switches into the cluster file",
)
def topology(common: Common, *, interface: str = "", write: bool = False) -> int:
    """Show which switches nodes are at, for the cluster file.

    Nodes tell which switches they see by LLDP (lldpctl, or networkctl of a new systemd). Of an InfiniBand fabric, the
    controller tells by ibnetdiscover, or most of three hosts that have it; one host alone tells of nodes that say
    nothing themselves. The output says whose word each place is. No host is changed. Exit codes: 0 the cluster file has
    them already, or they were written, 1 the switch of a node is not known, 2 wrong input, 4 the cluster file would
    change.

    Examples:
        fab topology
        fab topology --interface eno1 --write
    """
    from slurmfab.commands.topology import showing

    return showing.show(common.cluster, interface, common.output, writes=write)


@command(common=("cluster",), output="directory for the files")
def monitoring_files(common: Common, *, output: str = "") -> int:
    """Write files for a Prometheus and a Grafana elsewhere.

    Targets, scrape configuration, alert rules and a dashboard of this cluster. No host is asked. Exit codes: 0 written,
    2 wrong input, or no host has been deployed yet.

    Examples:
        fab monitoring-files --output /etc/prometheus/slurmfab
    """
    from slurmfab.commands.monitoring_files import writing

    return writing.write_files(common.cluster, output)


@command(common=("cluster",), output="directory for the files (default: CLUSTER-users)")
def user_guide(common: Common, *, output: str = "") -> int:
    """Write a guide and a job form for users of the cluster.

    The guide tells how to log in, partitions and their limits, GPUs, files, software, the first job and why jobs wait:
    as Markdown and as a page. The form writes job scripts in a browser. Both are made from the cluster file, and need
    no server and no network. No host is asked. Exit codes: 0 written, 2 wrong input.

    Examples:
        fab user-guide
        fab user-guide --output /var/www/html/cluster
    """
    from slurmfab.core.user_guide import writing

    return writing.write_files(common.cluster, output)


@command(
    common=("cluster", "verbose", "ask_sudo_password"),
    output="the file to write (default: CLUSTER-report.html in the current directory)",
    check="check the cluster first, as check-cluster does; otherwise the page shows the last check",
    verbose="with --check: show failures host by host",
)
def report(common: Common, *, output: str = "", check: bool = False) -> int:
    """Write one HTML page about the cluster.

    The page needs no network and no server: nodes with their states and hardware, the last check, drift and history.
    Nothing is changed. Only you can read the file. Exit codes: 0 written, 1 failed, 2 wrong input, 3 written, but some
    hosts or Slurm did not answer, which the page says.

    Examples:
        fab report
        fab report --check --output monday.html
    """
    from slurmfab.commands.report import writing

    return writing.report(common.cluster, output, common.output, with_checks=check)


@command(common=("cluster",))
def portal_files(common: Common) -> int:
    """Print the file by which Open OnDemand knows this cluster.

    It goes to /etc/ood/config/clusters.d/NAME.yml on the portal's host, which has Slurm's commands and files as a login
    host has them. No host is asked. Exit codes: 0 written, 2 wrong input.

    Examples:
        fab portal-files > titanic.yml
    """
    from slurmfab.cluster.inventory import loading
    from slurmfab.core.user_guide import writing

    print(writing.cluster_file(loading.load_named(common.cluster).cluster), end="")  # noqa: T201 - the answer
    return 0


@command(
    common=("cluster", "verbose", "ask_sudo_password"),
    to="the directory, which is made (default: NAME-ejected beside the cluster file)",
)
def eject(common: Common, *, to: str = "") -> int:
    """Write the cluster as shell scripts that need no slurmfab.

    They make the same cluster from bare hosts: a script for each host has its users, packages, files and units, another
    carries them there by ssh(1). All hosts have to be as the cluster file wants them. No secret is written: new hosts
    make new ones. Exit codes: 0 written, 1 failed, 2 wrong input, 3 written, but README.md there names what is missing.

    Examples:
        fab eject
        fab eject --to titanic-scripts
    """
    from slurmfab.commands.eject import ejecting

    return ejecting.write_cluster(common.cluster, to, common.output)
