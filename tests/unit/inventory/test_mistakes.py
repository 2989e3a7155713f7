"""Mistakes of people in a cluster file: each is told with its line, and with what to write instead; all at once."""

from __future__ import annotations

import re

import pytest

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.values import may_be_left_out

TOP = "cluster: titanic\ncontrollers: ctl\n"
SMALL = TOP + "nodes:\n  - hosts: n[1-4]\n"
"""Four lines: what follows is on line 5."""

PEOPLE = SMALL + "database: ctl\naccounts: [{name: physics}]\n"
"""Six lines: what follows is on line 7."""


def node(line: str) -> str:
    """A file whose line 5 belongs to the group of nodes."""
    return f"{SMALL}    {line}\n"


def partition(line: str) -> str:
    """A file whose line 7 belongs to a partition."""
    return f"{SMALL}partitions:\n  - PartitionName: batch\n    {line}\n" + (
        "" if line.startswith("Nodes") else "    Nodes: ALL\n"
    )


def setting(line: str) -> str:
    """A file whose line 6 is in slurm_conf."""
    return f"{SMALL}slurm_conf:\n  {line}\n"


def qos(line: str) -> str:
    """A file whose line 9 belongs to a QOS."""
    return f"{PEOPLE}qos:\n  - name: high\n    {line}\n"


def user(line: str) -> str:
    """A file whose line 9 belongs to a user."""
    return f"{PEOPLE}users:\n  - name: ann\n    {line}\n"


# By mistake, the file and, for each line that has to be told, its number and what has to be said there.
MISTAKES: dict[str, tuple[str, dict[int, str]]] = {
    # YAML
    "a key too far to the right": (SMALL + "     RealMemory: 4000\n", {5: "indent.*column"}),
    "a key too far to the left": (SMALL + "   RealMemory: 4000\n", {5: "indent.*column"}),
    "a section with one blank before it": (SMALL + " ssh: {user: admin}\n", {5: "indent.*column"}),
    "a tab": (SMALL + "\tRealMemory: 4000\n", {5: "spaces, not with tabs"}),
    "no blank after the colon": ("cluster: titanic\ncontrollers:ctl\nnodes: [{hosts: n1}]\n", {2: "controllers: ctl"}),
    "no colon": ("cluster: titanic\ncontrollers ctl\nnodes: [{hosts: n1}]\n", {2: "controllers: ctl"}),
    "the sign of slurm.conf": (setting("SlurmdTimeout=300"), {5: "SlurmdTimeout: 300"}),
    "the sign of slurm.conf beside good lines": (
        setting("ReturnToService: 2\n  SlurmdTimeout=300\n  MaxJobCount: 100"),
        {7: "SlurmdTimeout: 300"},
    ),
    "a quote without its end": ('cluster: "titanic\ncontrollers: ctl\nnodes: [{hosts: n1}]\n', {1: "quot"}),
    "a bracket without its end": ("cluster: titanic\ncontrollers: [ctl\nnodes:\n  - hosts: n1\n", {2: r"\]"}),
    "a list behind its key": (TOP + "nodes: - hosts: n1\n", {3: "line of its own"}),
    "a colon in a text": (
        PEOPLE.replace("[{name: physics}]", "\n  - name: physics\n    description: Dept: Physics"),
        {8: "quotes"},
    ),
    "a variable of a template": ("cluster: {{ name }}\ncontrollers: ctl\nnodes: [{hosts: n1}]\n", {1: "variable"}),
    "a star for all": (partition("Nodes: *"), {7: "ALL"}),
    "typographic quotes": (SMALL.replace("titanic", "“titanic”"), {1: '"'}),
    "a blank that is none": (SMALL + "\u00a0\u00a0\u00a0\u00a0RealMemory: 4000\n", {5: "blank"}),
    # Shapes
    "names of nodes alone": (TOP + "nodes:\n  - n[2-3]\n", {4: r"- hosts: n\[2-3\]"}),
    "nodes as a text": (TOP + "nodes: n[1-4]\n", {3: r"- hosts: n\[1-4\]"}),
    "nodes without a dash": (TOP + "nodes:\n  hosts: n[1-4]\n", {3: "- hosts:"}),
    "nodes by their names": (TOP + "nodes:\n  n1: {CPUs: 4}\n", {3: "- hosts: n1"}),
    "the name of a partition alone": (SMALL + "partitions:\n  - batch\n", {6: "PartitionName: batch, Nodes: ALL"}),
    "partitions as a text": (SMALL + "partitions: batch\n", {5: "PartitionName: batch, Nodes: ALL"}),
    "partitions by their names": (SMALL + "partitions:\n  batch: {Nodes: ALL}\n", {5: "PartitionName: batch"}),
    "accounts by their names": (
        SMALL + "database: ctl\naccounts:\n  physics: {MaxJobs: 5}\n",
        {6: r"- name: physics|\{name: physics"},
    ),
    "names of accounts alone": (SMALL + "database: ctl\naccounts: [physics, chem]\n", {6: "- name: physics"}),
    "names of users alone": (SMALL + "users: [ann, bob]\n", {5: "- name: ann"}),
    "users by their names": (SMALL + "users:\n  ann: {uid: 2001}\n", {5: r"- name: ann|\{name: ann"}),
    "qos by their names": (SMALL + "database: ctl\nqos:\n  high: {Priority: 10}\n", {6: r"name: high"}),
    "addresses as a list": (SMALL + "addresses: [10.0.0.1, 10.0.0.2]\n", {5: "n1: 10.0.0.1"}),
    "lines of slurm.conf as a list": (SMALL + "slurm_conf: [SlurmdTimeout=300]\n", {5: "SlurmdTimeout: 300"}),
    "lines of slurm.conf as a text": (SMALL + "slurm_conf: |\n  SlurmdTimeout=300\n", {5: "SlurmdTimeout: 300"}),
    "a licence as Slurm writes it": (SMALL + "licenses: matlab:10\n", {5: "matlab: 10"}),
    "licences as a list": (SMALL + "licenses: [matlab:10]\n", {5: "matlab: 10"}),
    "mounts by their paths": (SMALL + "mounts:\n  /home: nas:/home\n", {5: "- "}),
    "ssh as a text": (SMALL + "ssh: root\n", {5: "user: root"}),
    "a list where Slurm has commas": (node("Features: [big, fast]"), {5: "big,fast"}),
    "groups as a list": (partition("AllowGroups: [physics, chem]"), {7: "physics,chem"}),
    "TRES as a mapping": (qos("MaxTRESPerUser: {cpu: 64, gpu: 4}"), {9: "cpu=64,gres/gpu=4"}),
    # Names of keys
    "slurm.conf's name of a node": (TOP + "nodes:\n  - {NodeName: 'n[1-4]', CPUs: 4}\n", {4: "hosts"}),
    "one host": (TOP + "nodes:\n  - host: n1\n", {4: "did you mean hosts"}),
    "one controller": ("cluster: titanic\ncontroller: ctl\nnodes: [{hosts: n1}]\n", {2: "controllers"}),
    "a partition of hosts": (SMALL + "partitions:\n  - {PartitionName: b, hosts: ALL}\n", {6: "Nodes"}),
    "a partition by our own words": (SMALL + "partitions:\n  - {name: main, nodes: ALL}\n", {6: "PartitionName"}),
    "the cluster by our own word": (SMALL.replace("cluster:", "name:"), {1: "did you mean cluster"}),
    "a key of Slurm in lower case": (node("realmemory: 4000"), {5: "RealMemory"}),
    "a key of ours in upper case": (SMALL + "Users: [{name: ann}]\n", {5: "did you mean users"}),
    "a section in the singular": (SMALL + "partition: [{PartitionName: a, Nodes: ALL}]\n", {5: "partitions"}),
    "the account of a user": (user("account: physics"), {9: "accounts"}),
    "the id of a user": (user("id: 2001"), {9: "uid"}),
    "the key of a user": (user("ssh_key: ssh-ed25519 AAAA ann"), {9: "keys"}),
    "a user without a name": (SMALL + "users:\n  - {user: ann, uid: 2001}\n", {6: "name"}),
    "gpus of a node": (node("gpus: 4"), {5: "Gres: gpu:4"}),
    "memory of a node": (node("memory: 64G"), {5: "RealMemory: 64000"}),
    "cpus of a node": (node("cpus: 64"), {5: "CPUs"}),
    "a key twice": (SMALL + "login: l1\nlogin: l2\n", {6: "line 5"}),
    "a key twice in another case": (node("Weight: 1\n    weight: 2"), {6: "Weight"}),
    # Numbers, memory, times
    "memory in GB": (node("RealMemory: 12GB"), {5: "12000"}),
    "memory in G": (node("RealMemory: 64G"), {5: "6[45][05][03][60]"}),
    "memory in MB": (node("RealMemory: 515000 MB"), {5: "515000"}),
    "memory of a partition in GB": (partition("DefMemPerCPU: 4GB"), {7: "4000"}),
    "cores with a word": (node("CPUs: 64 cores"), {5: "CPUs: 64"}),
    "sockets in a word": (node("Sockets: two"), {5: "whole number"}),
    "a weight with a fraction": (node("Weight: 1.5"), {5: "whole number"}),
    "hours in words": (partition("MaxTime: 25 hours"), {7: "1-01:00:00"}),
    "days by a letter": (partition("MaxTime: 7d"), {7: "7-00:00:00"}),
    "hours by a letter": (partition("DefaultTime: 24h"), {7: "1-00:00:00"}),
    "no limit in words": (partition("MaxTime: none"), {7: "UNLIMITED"}),
    "minutes of a timeout": (setting("SlurmdTimeout: 5 minutes"), {6: "300"}),
    "a time that is a date": (partition("MaxTime: 2026-12-31"), {7: "7-00:00:00"}),
    "a limit in words": (qos("MaxWall: 1 day"), {9: "1-00:00:00"}),
    "a number without limit": (qos("MaxJobsPerUser: unlimited"), {9: "-1"}),
    "a priority in words": (qos("Priority: high"), {9: "whole number|not a number"}),
    "a uid in words": (user("uid: ann"), {9: "whole number"}),
    "a margin in GB": (SMALL + "memory_margin: 2GB\n", {5: "2G"}),
    "a margin without a unit": (SMALL + "memory_margin: 2048\n", {5: "2048M"}),
    "a number of licences in words": (SMALL + "licenses: {matlab: ten}\n", {5: "whole number"}),
    "a negative number": (partition("MaxNodes: -4"), {7: "whole number"}),
    # GPUs and TRES
    "gres with an equals sign": (node("Gres: gpu=4"), {5: "gpu:4"}),
    "gres in the plural": (node("Gres: gpus:4"), {5: "gpu:4"}),
    "gres with the number first": (node("Gres: gpu:4:a100"), {5: "gpu:a100:4"}),
    "gres as a TRES": (node("Gres: gres/gpu:4"), {5: "gpu:4"}),
    "a type as a gres": (node("Gres: a100:4"), {5: "gpu:a100:4"}),
    "gres as a number": (node("Gres: 4"), {5: "gpu:4"}),
    "a TRES without its kind": (qos("MaxTRESPU: gpu=1"), {9: "gres/gpu=1"}),
    "a TRES of old guides": (qos("MaxTRESPU: gres=gpu/4"), {9: "gres/gpu=4"}),
    "a TRES of old guides with a colon": (qos("MaxTRESPU: gres=gpu:4"), {9: "gres/gpu=4"}),
    "a TRES with a colon": (qos("GrpTRES: cpu:64"), {9: "cpu=64"}),
    "a typed TRES with a colon": (qos("GrpTRES: gres/gpu:a100:4"), {9: "gres/gpu:a100=4"}),
    "a TRES in the plural": (qos("GrpTRES: cpus=64"), {9: "cpu=64"}),
    "a TRES in GB": (qos("GrpTRES: mem=100GB"), {9: "mem=100G"}),
    "a TRES that tracks": (setting("AccountingStorageTRES: gpu"), {6: "gres/gpu"}),
    "weights of a TRES": (partition("TRESBillingWeights: CPU=1.0,Mem=0.25G,gpu=2.0"), {7: "GRES/gpu=2.0|gres/gpu=2.0"}),
    # Words
    "enabled for a mapping": (SMALL + "firewall: enabled\n", {5: "'managed' or 'checked'"}),
    "true for the database": (SMALL + "database: true\n", {5: "host"}),
    "true for the login hosts": (SMALL + "login: true\n", {5: "host"}),
    "a default that is on": (partition("Default: on"), {7: "YES"}),
    "sharing by a number": (partition("OverSubscribe: 4"), {7: "FORCE:4"}),
    "a state of a partition": (partition("State: active"), {7: "INACTIVE"}),
    "a mode of preemption": (setting("PreemptMode: kill"), {6: "CANCEL"}),
    "a mode of preemption of a partition": (partition("PreemptMode: yes"), {7: "REQUEUE"}),
    "a type of preemption": (setting("PreemptType: qos"), {6: "preempt/qos"}),
    "a scheduler": (setting("SchedulerType: backfill"), {6: "sched/backfill"}),
    "a selection": (setting("SelectType: cons_tres"), {6: "select/cons_tres"}),
    "what is selected": (setting("SelectTypeParameters: CR_Core_Mem"), {6: "CR_Core_Memory"}),
    "return to service": (setting("ReturnToService: yes"), {6: "0, 1 or 2"}),
    "a flag of a QOS": (qos("Flags: DenyOnLimits"), {9: "DenyOnLimit"}),
    # Hosts and addresses
    "an address with a mask": (SMALL + "addresses: {n1: 10.0.0.1/24}\n", {5: '"?10.0.0.1"?( |$|;|,)'}),
    "an address with a port": (SMALL + "addresses: {n1: '10.0.0.1:2222'}\n", {5: "ssh.endpoints"}),
    "an address that is none": (SMALL + "addresses: {n1: 10.0.0.300}\n", {5: "IP address"}),
    "a range without brackets": (TOP + "nodes:\n  - hosts: n1-n4\n", {4: r"n\[1-4\]"}),
    "a range with the last number alone": (TOP + "nodes:\n  - hosts: cn01-16\n", {4: r"cn\[01-16\]"}),
    "a range of the shell": (TOP + "nodes:\n  - hosts: 'n{1..4}'\n", {4: r"n\[1-4\]"}),
    "a range of Ansible": (TOP + "nodes:\n  - hosts: n[1:4]\n", {4: r"n\[1-4\]"}),
    "nested brackets": (TOP + "nodes:\n  - hosts: n[1-[2-4]]\n", {4: "bracket"}),
    "a bracket that stays open": (TOP + "nodes:\n  - hosts: n[1-4\n", {4: r"\]"}),
    "blanks between hosts": (TOP + "nodes:\n  - hosts: n1 n2\n", {4: "n1,n2"}),
    "a semicolon between hosts": ("cluster: titanic\ncontrollers: c1; c2\nnodes: [{hosts: n1}]\n", {2: "c1,c2"}),
    "a cluster in capitals": (SMALL.replace("titanic", "Titanic"), {1: "titanic"}),
    "a cluster with a blank": (SMALL.replace("titanic", "my cluster"), {1: "my_cluster|my-cluster"}),
    "a partition of all in words": (partition("Nodes: all nodes"), {7: "ALL"}),
    "the id of a person among ids": (SMALL + "ids: {ann: 2001}\n", {5: "users"}),
    "a clock without a zero": (SMALL + "backup: {directory: /backup, when: 3:30}\n", {5: "03:30"}),
    "a time of day in words": (SMALL + "backup: {directory: /backup, when: 3am}\n", {5: "03:00"}),
    "misspelt keys of Slurm": (
        SMALL + "slurm_conf:\n  SlurmdTimeot: 300\n  Frobnicate: 1\ncgroup_conf: {ConstrainCore: true}\n",
        {6: "write SlurmdTimeout", 8: "write ConstrainCores"},
    ),
    # Several at once
    "beside an unknown key": (SMALL + "colour: red\nmemory_margin: lots\n", {5: "unknown key", 6: "percentage"}),
    "beside a bad name": (
        SMALL.replace("titanic", "Titanic") + "database: ctl\nqos: [{name: high, MaxWall: 1 day}]\n",
        {1: "titanic", 6: "1-00:00:00"},
    ),
    "beside a bad host": (
        TOP + "nodes:\n  - hosts: n[4-1]\npartitions:\n  - {PartitionName: b, Nodes: ALL, MaxTime: 7d}\n",
        {4: "count up", 6: "7-00:00:00"},
    ),
    "beside a missing controller": (
        "cluster: titanic\nnodes: [{hosts: n1}]\ndatabase: n1\nqos: [{name: high, MaxWall: 1 day}]\n",
        {1: "controllers", 4: "1-00:00:00"},
    ),
    "beside a bad name of a user": (
        PEOPLE + "users:\n  - {name: Ann, uid: x}\n  - {name: bob, accounts: [chem]}\n",
        {8: "login name", 9: "chem"},
    ),
    "a bad value and a bad value in one entry": (
        PEOPLE + "users:\n  - {name: Ann, uid: x, accounts: [chem]}\n",
        {8: "login name.*whole number.*chem"},
    ),
    "beside a partition without nodes": (
        SMALL + "partitions:\n  - {PartitionName: b, MaxTime: 7d, PreemptMode: kill}\n",
        {6: "Nodes.*7-00:00:00.*CANCEL"},
    ),
}


def told(text: str) -> dict[int, str]:
    """By line, what is told about a file."""
    try:
        loading.parse(text, "c.yaml")
    except ClusterFileError as error:
        found: dict[int, str] = {}
        for one in error.complaints:
            named = re.match(r"c\.yaml:(\d+): (.*)", one)
            assert named, one
            found[int(named[1])] = f"{found.get(int(named[1]), '')} {named[2]}".strip()
        return found
    return {}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_cluster_file_when_people_write_it_so_then_it_is_said_what_to_write(mistake):
    text, wanted = MISTAKES[mistake]

    found = told(text)

    assert set(found) == set(wanted), found
    assert [line for line, words in wanted.items() if not re.search(words, found[line])] == [], found


def taken(line: str) -> object:
    """What a line is taken for: a value of the cluster's, or what is told about it."""
    try:
        key = line.partition(":")[0]
        return getattr(
            loading.parse(SMALL + "database: ctl\n" * (not line.startswith("database")) + line, "c.yaml"), key
        )
    except ClusterFileError as error:
        return error.complaints


TRUE_OR_FALSE = [
    str(field.validation_alias or name)
    for name, field in Cluster.model_fields.items()
    if field.annotation is bool or may_be_left_out(field.annotation)
]


@pytest.mark.parametrize("key", TRUE_OR_FALSE)
def test_a_key_that_may_be_true_when_another_word_is_written_then_it_means_the_same(key):
    yes, no = (
        [taken(f"{key}: {word}\n") for word in words] for words in (("true", "yes", "On"), ("false", "no", "OFF"))
    )

    assert yes[1:] == [yes[0]] * 2
    assert no[1:] == [no[0]] * 2
    assert no[0] in (None, False)
    assert yes[0] is not None


@pytest.mark.parametrize("key", ["private_tmp", "monitoring", "health", "drift", "gpu_checks"])
def test_a_mapping_that_needs_no_key_when_it_is_true_then_it_has_its_defaults(key):
    assert taken(f"{key}: true\n") == taken(f"{key}: {{}}\n")


def test_a_mapping_that_needs_a_key_when_it_is_true_then_its_keys_are_told():
    (told_of_it,) = taken("jupyter: true\n")

    assert "true is not enough; its keys are host, " in told_of_it
