"""Tasks that make hosts what the cluster file says: deploy, plan, add-node."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, number

COMMON = {
    "cluster": "cluster file (default: $SLURMFAB_CLUSTER, else configs/cluster.yaml)",
    "verbose": "tell every difference, with diffs",
    "json": "write what happened as JSON to this file (- for standard output)",
    "ask_sudo_password": "ask for the sudo password at the start (read from standard input when that is no terminal)",
}
CONTACT = {
    "user": "login name (default: ssh_config's, else your own)",
    "key": "private key file (default: the agent's keys and ~/.ssh)",
    "port": "port of the hosts' sshd",
    "become": "sudo or none (default: sudo, unless the login name is root)",
    "gateway": "jump host, as user@host:port",
    "accept_new_host_keys": "believe SSH host keys that nobody has vouched for",
    "name": "the cluster's name (default: cluster)",
}
CONSENT = {
    "drain_first": "where a change would hurt jobs: drain those nodes, wait, change, and resume what was drained",
    "allow": "accept a danger by the name that the refusal gives it; may be given again",
    "move_ids": "where slurm or munge has another UID or GID: give their files the wanted one",
    "prune": "remove accounts, users and QOS that the cluster file does not name",
}


@command(
    iterable=["allow"],
    help={
        **COMMON,
        **CONTACT,
        **CONSENT,
        "plan": "do what this saved plan shows, and nothing else",
        "retry_failed": "only the hosts that the runs before had to leave out",
        "hosts": "hostlist; first contact: the first host becomes the controller; later: only these hosts",
    },
)
def deploy(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    allow: list[str],
    hosts: str = "",
    plan: str = "",
    drain_first: bool = False,
    move_ids: bool = False,
    prune: bool = False,
    retry_failed: bool = False,
    cluster: str = "",
    user: str = "",
    key: str = "",
    port: str = "",
    become: str = "",
    gateway: str = "",
    accept_new_host_keys: bool = False,
    name: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Make the hosts what the cluster file says.

    What is right already is not touched. Without a cluster file, --hosts is the first contact: hardware is discovered,
    the cluster file is written, and the hosts become a cluster. Exit codes: 0 done, 1 failed, 2 wrong input,
    3 done but for hosts that had to be left out; --retry-failed goes on with those.

    Examples:
        fab deploy --hosts n1,n[2-5] --user admin
        fab deploy --hosts 10.0.0.[1-5] --user root --accept-new-host-keys
        fab deploy
        fab deploy --hosts n3 --verbose
    """
    from slurmfab import contact, deploying, operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.consent import Consent, Wish  # noqa: PLC0415 - `fab --list` shall not pay for it

    way = contact.Contact(user, key, number(port, "--port"), become, gateway, accept_new_host_keys, name)
    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    wish = Wish(hosts, plan, retry_failed, Consent(drain_first, frozenset(allow), move_ids, prune))
    return deploying.deploy(cluster, wish, way, output)


@command(
    help={
        **COMMON,
        "hosts": "only these hosts",
        "save": "write the plan to this file, for deploy --plan",
        "move_ids": CONSENT["move_ids"],
        "prune": CONSENT["prune"],
    }
)
def plan(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str = "",
    save: str = "",
    move_ids: bool = False,
    prune: bool = False,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Show what deploy would do, with diffs; changes nothing.

    Exit code 4 when there is something to do, for scripts.

    Examples:
        fab plan
        fab plan --hosts n[1-2] --json -
        fab plan --save tonight.json
    """
    from slurmfab import deploying, operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.consent import Consent, Wish  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    return deploying.plan(cluster, Wish(hosts, consent=Consent(move_ids=move_ids, prune=prune)), save, output)


@command(
    positional=["hosts"],
    iterable=["partition", "allow"],
    help={
        **COMMON,
        "hosts": "hostlist of the new compute nodes",
        "like": "a compute node whose settings and partitions the new ones share",
        "partition": "partition that gets the new nodes; several with commas, or by giving it again",
        "accept_new_host_keys": CONTACT["accept_new_host_keys"],
        "allow": CONSENT["allow"],
    },
)
def add_node(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str,
    partition: list[str],
    allow: list[str],
    cluster: str = "",
    like: str = "",
    accept_new_host_keys: bool = False,
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Add compute nodes to the cluster; running jobs go on.

    The new hosts are asked who they are, and prepared, before anything else is touched. Then the cluster file gains
    them, with its comments and order kept; slurm.conf goes to all hosts, and the daemons take it in the way that the
    installed Slurm needs. A node that no job has run on yet is kept drained; one on which none runs stays so.

    Examples:
        fab add-node n[6-9]
        fab add-node 10.0.0.17 --like n1 --accept-new-host-keys
        fab add-node g[1-2] --partition gpu,long
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.consent import Consent  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.nodes import joining  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    partitions = tuple(name for names in partition for name in names.split(",") if name)
    wish = joining.Wish(like, partitions, Consent(allowed=frozenset(allow)))
    return joining.add_node(cluster, hosts, wish, accept_new_host_keys, output)
