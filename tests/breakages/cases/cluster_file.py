"""Cluster files with mistakes: each is refused with line and key before any host is asked."""

from __future__ import annotations

from breakage import Setting


def mistake(name: str, what: str, text: str, words: str, replaces: str = "") -> Setting:
    """A row whose mistake `plan` and `deploy` name with the same words.

    Args:
        name: of the row.
        what: what is wrong, for people.
        text: new text of the cluster file.
        words: what is said about it.
        replaces: text that is replaced; empty appends.
    """
    return Setting(name, what, text, plan=(words,), deploy=(words,), replaces=replaces)


def refused(name: str, what: str, text: str, words: str, replaces: str = "") -> Setting:
    """A row whose value the installed Slurm refuses; the arguments are those of `mistake`."""
    said = f"Slurm on ctl refuses it: {words}"
    return Setting(name, what, text, plan=(said,), deploy=(said,), replaces=replaces)


NODES, PARTITION = "  - hosts: n[1-2]\n", "Nodes: ALL, Default"

ROWS = (
    mistake(
        "partition-of-unknown-nodes",
        "a partition has a node that the cluster has not",
        "Nodes: 'n[1-3]', Default",
        'partitions[0].Nodes: "n3" is not a compute node (known: n[1-2])',
        PARTITION,
    ),
    mistake(
        "two-default-partitions",
        "two partitions are the default",
        "  - {PartitionName: other, Nodes: ALL, Default: YES}\n",
        'partitions[1].Default: "main" is already the default; there can be only one',
    ),
    mistake(
        "partitions-as-a-mapping",
        "`partitions` is a mapping, and no list",
        "partitions:\n    main:",
        "partitions: it must be a list, with a `- ` before each entry",
        "partitions:\n  -",
    ),
    mistake(
        "node-in-two-groups",
        "a node is in two groups of `nodes`",
        f"{NODES}  - hosts: n2\n",
        'nodes[1].hosts: "n2" is already in nodes[0]; a node belongs to one group',
        NODES,
    ),
    mistake(
        "endless-hostlist",
        "a hostlist has a hundred million names",
        "  - hosts: n[1-99999999]\n",
        'nodes[0].hosts: "n[1-99999999]" is too long: Slurm supports at most 65536 nodes',
        NODES,
    ),
    mistake(
        "misspelt-key",
        "a key is misspelt",
        "partitons: []\n",
        "partitons: unknown key; did you mean partitions?",
    ),
    mistake(
        "second-line-in-a-value",
        "a value of Slurm has a line break",
        'slurm_conf: {Prolog: "/a\\nSlurmUser=root"}\n',
        "slurm_conf.Prolog: it contains a line break or another control character",
    ),
    mistake(
        "accounts-in-a-loop",
        "two accounts are below each other",
        "database: ctl\naccounts: [{name: a, parent: b}, {name: b, parent: a}]\n",
        "accounts[0].parent: the accounts form a loop: a below b below a",
    ),
    mistake(
        "more-nodes-than-allowed",
        "`MinNodes` of a partition is above its `MaxNodes`: no job could run there",
        "MaxTime: 1-00:00:00, MinNodes: 2, MaxNodes: 1}",
        'partitions[0].MinNodes: "2" is more than MaxNodes, "1"',
        "MaxTime: 1-00:00:00}",
    ),
    mistake(
        "default-time-above-the-limit",
        "`DefaultTime` of a partition is above its `MaxTime`: no job without a time could run there",
        "MaxTime: 1-00:00:00, DefaultTime: 48:00:00}",
        'partitions[0].DefaultTime: "48:00:00" is more than MaxTime, "1-00:00:00"',
        "MaxTime: 1-00:00:00}",
    ),
    mistake(
        "topology-without-its-file",
        "`TopologyPlugin: topology/tree` without topology.conf",
        "slurm_conf: {TopologyPlugin: topology/tree}\n",
        "slurm_conf.TopologyPlugin: topology/tree needs topology.conf, without which slurmctld does not start",
    ),
    mistake(
        "quota-on-no-mount",
        "`quota` is for a directory that no host serves",
        "quota: {path: /data, soft: 10G}\n",
        'quota.path: "/data" is on no mount and no export of the cluster file',
    ),
    mistake(
        "package-in-no-source",
        "a package that the hosts' package sources do not have",
        "packages: {compute: [no-such-package]}\n",
        "n[1-2]: the package sources there do not have no-such-package",
    ),
    mistake(
        "version-in-no-source",
        "a version of a package that the hosts' package sources do not have",
        "packages: {all: [tar=9.9-1]}\n",
        "ctl,n[1-2]: the package sources there do not have tar=9.9-1",
    ),
    mistake(
        "port-that-is-none",
        "`SlurmctldPort: 70000`, at which Slurm 24.11 listens as 4464",
        "slurm_conf: {SlurmctldPort: 70000}\n",
        'slurm_conf.SlurmctldPort: "70000" is not a port; write a number from 1 to 65535',
    ),
    mistake(
        "nested-brackets",
        "twenty thousand brackets",
        f"slurm_conf: {'[' * 20_000}\n",
        "it is nested more than 64 levels deep",
    ),
    mistake(
        "tab",
        "a line is indented with a tab",
        "slurm_conf:\n\tSlurmdTimeout: 300\n",
        "Indent with spaces, not with tabs",
    ),
    mistake(
        "fewer-cpus-than-none",
        "`CPUs: -4`",
        f"{NODES}    CPUs: -4\n",
        'nodes[0].CPUs: "-4" is not a whole number',
        NODES,
    ),
    mistake(
        "infinite-timeout",
        "`SlurmdTimeout: .inf`",
        "slurm_conf: {SlurmdTimeout: .inf}\n",
        'slurm_conf.SlurmdTimeout: ".inf" is not a whole number of seconds',
    ),
    refused(
        "no-jobs-at-all",
        "`MaxJobCount: 0`",
        "slurm_conf: {MaxJobCount: 0}\n",
        "MaxJobCount=0, No jobs permitted",
    ),
)
