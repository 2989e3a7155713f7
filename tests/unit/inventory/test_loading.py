"""Reading cluster files: what they mean, every complaint with line and key, and all of them at once."""

import os
import re
from pathlib import Path

import pytest

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import json_schema, loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import Lock

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = sorted((REPOSITORY / "configs").glob("example-*.yaml"))

GOOD = """\
cluster: titanic
ssh: {user: admin, key: ~/.ssh/id_ed25519, become: sudo, gateway: me@bastion:2222, endpoints: {mn01: "127.0.0.1:2201"}}
addresses: {mn01: 10.0.0.1, "cn[01-16]": "10.0.1.[1-16]"}
controllers: [mn01]
login: [login01]
nodes:
  - hosts: cn[01-04]
    Gres: gpu:pascal:2
  - hosts: [cn05, "cn[06-16]"]
    Feature: bigmem
    RealMemory: 0512
partitions:
  - {PartitionName: batch, Nodes: ALL, Default: YES, MaxTime: 7-00:00:00}
  - {PartitionName: short, Nodes: "cn[01-02]", MaxTime: 1:30, Hidden: false}
slurm_conf: {SlurmdTimeout: 0x12c, MaxJobCount: 010, JobRequeue: 0, MailProg: null, PriorityMaxAge: 7-0, X: 24.10}
cgroup_conf: {ConstrainSwapSpace: yes, ConstrainCores: true}
ids: {slurm: 64030, munge: 405}
memory_margin: 2048M
hosts_file: false
"""


def read(text):
    return loading.parse(text, "configs/cluster.yaml")


def complaints(text):
    with pytest.raises(ClusterFileError) as caught:
        read(text)
    return [complaint.removeprefix("configs/cluster.yaml:") for complaint in caught.value.complaints]


def test_parse_when_the_file_is_sound_then_the_cluster_says_what_it_says():
    cluster = read(GOOD)

    assert cluster.name == "titanic"
    assert (cluster.ssh.user, cluster.ssh.become, cluster.ssh.gateway) == ("admin", "sudo", "me@bastion:2222")
    assert (cluster.ssh.key, cluster.ssh.endpoints) == ("~/.ssh/id_ed25519", {"mn01": "127.0.0.1:2201"})
    assert cluster.addresses["mn01"] == "10.0.0.1"
    assert cluster.addresses["cn16"] == "10.0.1.16"
    assert (cluster.controllers, cluster.login) == (("mn01",), ("login01",))
    assert len(cluster.compute_nodes) == 16
    assert cluster.partitions[0].nodes == "ALL"
    assert cluster.partitions[1].nodes == ("cn01", "cn02")
    assert cluster.ids == {"slurm": 64030, "munge": 405}
    assert (cluster.memory_margin, cluster.hosts_file) == ("2048M", False)


def test_parse_when_values_are_slurms_then_they_stay_as_they_look():
    cluster = read(GOOD)

    assert cluster.slurm_conf == {
        "SlurmdTimeout": "0x12c",
        "MaxJobCount": "010",
        "JobRequeue": "0",
        "MailProg": None,
        "PriorityMaxAge": "7-0",
        "X": "24.10",
    }
    assert cluster.cgroup_conf == {"ConstrainSwapSpace": "yes", "ConstrainCores": "YES"}
    assert cluster.settings_of("cn06") == {"Feature": "bigmem", "RealMemory": "0512"}
    assert cluster.partitions[1].settings == {"MaxTime": "1:30", "Hidden": "NO"}


def test_parse_when_slurms_keys_have_an_order_then_it_is_kept():
    cluster = read(GOOD)

    assert list(cluster.partitions[0].settings) == ["Default", "MaxTime"]
    assert list(cluster.slurm_conf)[:2] == ["SlurmdTimeout", "MaxJobCount"]


def test_parse_when_optional_keys_have_no_value_then_they_are_as_if_not_there():
    cluster = read("cluster: x\nssh:\naddresses:\nlogin:\ncontrollers: mn\nnodes: [{hosts: n1}]\npartitions:\nids:\n")

    assert (cluster.addresses, cluster.login, cluster.partitions[0].name) == ({}, (), "main")


def test_parse_when_a_node_is_called_null_then_its_quotes_make_it_a_name():
    assert read('cluster: x\ncontrollers: mn\nnodes: [{hosts: "null"}]').compute_nodes == ("null",)


SMALL = "cluster: x\ncontrollers: mn\nnodes:\n  - hosts: n[01-04]\n"

# What is wrong: the file, and how the one complaint begins, with … for anything.
COMPLAINTS = {
    "no YAML": ("cluster: x\nnodes: [a\nb: c\n", "2: this is not valid YAML"),
    "a hostlist without quotes in braces": (
        "cluster: x\nnodes: [{hosts: n[1-2]}]\n",
        '2: this is not valid YAML: …Inside { } and [ ] a hostlist needs quotes: {Nodes: "cn[01-04]"}',
    ),
    "a tab": ("cluster: x\nnodes:\n\t- hosts: n1\n", "3: this is not valid YAML: …not with tabs"),
    "a list": ("- a\n", "1: the file must be a mapping"),
    "text": ("hello\n", "1: the file must be a mapping"),
    "nothing": ("", "1: the file is empty"),
    "comments only": ("# later\n", "1: the file is empty"),
    "two documents": (SMALL + "---\n" + SMALL, "5: this is not valid YAML"),
    "a control character": ("cluster: \x01\n", "1: this is not valid YAML"),
    "an undefined alias": (SMALL + "login: *hosts\n", "5: this is not valid YAML"),
    "a tag": (SMALL + "login: !python [a]\n", "5: login: the tag !python is not supported"),
    "a key like no other in a group": (
        SMALL + "    color: red\n",
        "5: nodes[0].color: unknown key; known: hosts, mig, slurm and Slurm's own",
    ),
    "a merge key": (SMALL + "ids: {<<: {slurm: 5}}\n", "5: ids.<<: merge keys are not supported"),
    "no cluster": ("controllers: mn\nnodes: [{hosts: n1}]\n", "1: cluster: this key is missing"),
    "no controllers": ("cluster: x\nnodes: [{hosts: n1}]\n", "1: controllers: this key is missing"),
    "controllers without value": (
        "cluster: x\ncontrollers:\nnodes: [{hosts: n1}]\n",
        "2: controllers: this key is missing",
    ),
    "no nodes": ("cluster: x\ncontrollers: mn\n", "1: nodes: this key is missing"),
    "empty nodes": ("cluster: x\ncontrollers: mn\nnodes: []\n", "3: nodes: it is empty"),
    "nodes as text": ("cluster: x\ncontrollers: mn\nnodes: n1\n", "3: nodes: it must be a list…; write `- hosts: n1`"),
    "a node as text": (
        "cluster: x\ncontrollers: mn\nnodes:\n  - n1\n",
        "4: nodes[0]: it must be a mapping…; write `- hosts: n1`",
    ),
    "a group without hosts": (
        "cluster: x\ncontrollers: mn\nnodes:\n  - Weight: 1\n",
        "4: nodes[0].hosts: this key is missing",
    ),
    "hosts as a mapping": (
        "cluster: x\ncontrollers: {a: 1}\nnodes: [{hosts: n1}]\n",
        "2: controllers: it must be a hostlist",
    ),
    "a bad hostlist": (
        "cluster: x\ncontrollers: mn\nnodes:\n  - hosts: n[4-1]\n",
        "4: nodes[0].hosts: …does not count up",
    ),
    "an unknown key": (SMALL + "addreses: {}\n", "5: addreses: unknown key; did you mean addresses?"),
    "a key like no other": (SMALL + "color: red\n", "5: color: unknown key; known: cluster, ssh, "),
    "a key of slurm.conf at the top": (
        SMALL + "SlurmdTimeout: 5\n",
        "5: SlurmdTimeout: unknown key; keys of slurm.conf go under slurm_conf",
    ),
    "an unknown key of ssh": (SMALL + "ssh: {usr: me}\n", "5: ssh.usr: unknown key; did you mean user?"),
    "Slurm's key in lower case": (SMALL + "    gres: gpu:1\n", "5: nodes[0].gres: unknown key; did you mean Gres?"),
    "settings written out": (
        SMALL + "    settings: {Gres: gpu}\n",
        "5: nodes[0].settings: unknown key; write Slurm's keys beside",
    ),
    "a key twice": (SMALL + "login: a\nlogin: b\n", "6: login: this key is already on line 5"),
    "a key of a group twice": (SMALL + "    Gres: a\n    Gres: b\n", "6: nodes[0].Gres: this key is already on line 5"),
    "an upper-case name": (SMALL.replace("x", "Titanic"), '1: cluster: "Titanic" is not a valid cluster name'),
    "a long name": (SMALL.replace("x", "x" * 41), "1: cluster: …at most 40"),
    "a list as a name": (SMALL.replace("x", "[a]"), "1: cluster: it must be text"),
    "a truth as a name": (SMALL.replace("x", "true"), '1: cluster: it must be text, not "true"'),
    "a second controller without a shared directory": (
        SMALL.replace("mn", "[mn, mn2]"),
        "2: controllers: a second controller needs the key state_directory",
    ),
    "a third controller": (
        SMALL.replace("mn", "[mn, mn2, mn3]") + "state_directory: /shared/state\n",
        "2: controllers: there are 3 controllers; slurmfab sets up a primary and one backup",
    ),
    "a relative state directory": (
        SMALL + "state_directory: x/y\n",
        '5: state_directory: "x/y" is not an absolute path',
    ),
    "a state directory that goes up": (SMALL + "state_directory: /a/../b\n", "5: state_directory: "),
    "a state directory in slurm_conf": (
        SMALL + "slurm_conf: {StateSaveLocation: /x}\n",
        "5: slurm_conf.StateSaveLocation: slurmfab writes StateSaveLocation itself: it comes from the key state_"
        "directory",
    ),
    "a controller twice": (SMALL.replace("mn", "[mn, mn]"), "2: controllers: …names mn more than once"),
    "no controller": (SMALL.replace("mn", "[]"), "2: controllers: it is empty"),
    "a node in two groups": (SMALL + "  - hosts: n[04-05]\n", '5: nodes[1].hosts: "n04" is already in nodes[0]'),
    "a node twice in a group": (SMALL.replace("n[01-04]", "[n1, n1]"), "4: nodes[0].hosts: …names n1 more than once"),
    "a node called DEFAULT": (
        SMALL.replace("n[01-04]", "default"),
        '4: nodes[0].hosts: "default" is a reserved name',
    ),
    "login and compute": (SMALL + "login: n02\n", '5: login: "n02" is also a compute node'),
    "State of a node": (SMALL + "    State: DOWN\n", "5: nodes[0].State: slurmfab writes State itself: …scontrol"),
    "NodeAddr of a node": (SMALL + "    Nodeaddr: x\n", "5: nodes[0].Nodeaddr: slurmfab writes NodeAddr itself"),
    "a list for Slurm": (SMALL + "    Gres: [a, b]\n", "5: nodes[0].Gres: it must be one value"),
    "two lines for Slurm": (SMALL + '    Gres: "a\\nState=DOWN"\n', "5: nodes[0].Gres: it contains a line break"),
    "nothing for Slurm": (SMALL + "    Gres:\n", "5: nodes[0].Gres: it has no value"),
    "two cases of a key": (SMALL + "    Gres: a\n    GRES: b\n", "6: nodes[0].GRES: it is the same key as Gres"),
    "an unknown node in a partition": (
        SMALL + "partitions:\n  - PartitionName: a\n    Nodes: n[04-05]\n",
        '7: partitions[0].Nodes: "n05" is not a compute node (known: n[01-04])',
    ),
    "unknown nodes in a partition": (
        SMALL + 'partitions: [{PartitionName: a, Nodes: "n[05-06]"}]\n',
        '5: partitions[0].Nodes: "n[05-06]" are not compute nodes (known: n[01-04])',
    ),
    "the controller in a partition": (
        SMALL + "partitions: [{PartitionName: a, Nodes: mn}]\n",
        '5: partitions[0].Nodes: "mn" is not a compute node',
    ),
    "a partition with the name of slurmfab's own": (
        SMALL + "partitions:\n  - PartitionName: SlurmFab\n    Nodes: ALL\n",
        '6: partitions[0].PartitionName: "SlurmFab" is the name of the hidden partition of slurmfab\'s own jobs; use '
        "another name",
    ),
    "a partition without nodes": (
        SMALL + "partitions: [{PartitionName: a}]\n",
        "5: partitions[0].Nodes: this key is missing",
    ),
    "a partition of nothing": (
        SMALL + "partitions: [{PartitionName: a, Nodes: ''}]\n",
        "5: partitions[0].Nodes: ",
    ),
    "a partition without a name": (
        SMALL + "partitions: [{Nodes: ALL}]\n",
        "5: partitions[0].PartitionName: this key is missing",
    ),
    "a partition called DEFAULT": (
        SMALL + "partitions: [{PartitionName: DEFAULT, Nodes: ALL}]\n",
        "5: partitions[0].PartitionName: ",
    ),
    "partitions of one name": (
        SMALL + "partitions:\n  - {PartitionName: a, Nodes: ALL}\n  - {PartitionName: A, Nodes: ALL}\n",
        '7: partitions[1].PartitionName: "A" is already the name of partitions[0]',
    ),
    "two defaults": (
        SMALL
        + "partitions:\n"
        + "  - {PartitionName: a, Nodes: ALL, Default: YES}\n"
        + "  - {PartitionName: b, Nodes: ALL, Default: true}\n",
        '7: partitions[1].Default: "a" is already the default',
    ),
    "an address of a stranger": (
        SMALL + "addresses: {n05: 10.0.0.5}\n",
        '5: addresses.n05: "n05" is not a host of the cluster (known: mn,n[01-04])',
    ),
    "an address twice": (
        SMALL + "addresses:\n  n01: 10.0.0.5\n  n02: 10.0.0.5\n",
        '7: addresses.n02: "10.0.0.5" is already the address of n01',
    ),
    "no address": (
        SMALL + "addresses: {n01: 10.0.0.300}\n",
        '5: addresses.n01: "10.0.0.300" is neither an IP address nor a DNS name',
    ),
    "an address with a port": (SMALL + "addresses: {n01: 'a:22'}\n", '5: addresses.n01: "a:22" is neither'),
    "addresses that do not zip": (
        SMALL + 'addresses: {"n[01-03]": "10.0.0.[1-2]"}\n',
        r'5: addresses.n[01-03]: "n[01-03]" has 3 hosts, but',
    ),
    "a host with two addresses": (
        SMALL + 'addresses:\n  n01: 10.0.0.1\n  "n[01-02]": "10.0.0.[2-3]"\n',
        "7: addresses.n[01-02]: n01 is already in an earlier line",
    ),
    "addresses as a list": (SMALL + "addresses: [10.0.0.1]\n", "5: addresses: it must be a mapping"),
    "no login name": (SMALL + "ssh: {user: -oProxyCommand=x}\n", '5: ssh.user: "-oProxyCommand=x" is not a login name'),
    "no port": (SMALL + "ssh: {port: ssh}\n", '5: ssh.port: it must be a whole number, not "ssh"'),
    "a port out of range": (SMALL + "ssh: {port: 65536}\n", "5: ssh.port: it must be at most 65535"),
    "another way to root": (SMALL + "ssh: {become: su}\n", "5: ssh.become: it must be 'sudo'"),
    "a range of gateways": (
        SMALL + 'ssh: {gateway: "g[1-2]"}\n',
        '5: ssh.gateway: "g[1-2]" names 2 hosts; it must name one',
    ),
    "two endpoints": (SMALL + 'ssh: {endpoints: {n01: "a,b"}}\n', "5: ssh.endpoints.n01: …1 host, but …2 addresses"),
    "an endpoint of a stranger": (
        SMALL + "ssh: {endpoints: {n9: 'a:1'}}\n",
        '5: ssh.endpoints.n9: "n9" is not a host of the cluster',
    ),
    "an endpoint that is none": (
        SMALL + "ssh: {endpoints: {n01: 'a:b'}}\n",
        '5: ssh.endpoints.n01: …"b" is not a port',
    ),
    "Slurm's key in slurm_conf in lower case": (
        SMALL + "slurm_conf: {slurmdTimeout: 1}\n",
        "5: slurm_conf.slurmdTimeout: a Slurm key is spelled",
    ),
    "two keys in one": (SMALL + 'slurm_conf: {"A=1 B": 1}\n', "5: slurm_conf.A=1 B: a Slurm key is spelled"),
    "the cluster's name in slurm_conf": (
        SMALL + "slurm_conf: {ClusterName: y}\n",
        "5: slurm_conf.ClusterName: slurmfab writes ClusterName itself: it comes from the key cluster",
    ),
    "Include in slurm_conf": (
        SMALL + "slurm_conf: {Include: x}\n",
        "5: slurm_conf.Include: slurmfab writes Include itself",
    ),
    "slurm_conf as text": (SMALL + "slurm_conf: SlurmdTimeout=300\n", "5: slurm_conf: it must be a mapping"),
    **{
        f"{key}: {settings}": (
            f"cluster: lab\ncontrollers: [mn]\n{before}{key}: [{{hosts: n2, {settings}}}]\n",
            f"{4 if before else 3}: {key}[0]…{words}",
        )
        for key, before in (("nodes", ""), ("future_nodes", "nodes: [{hosts: n1}]\n"))
        for settings, words in (
            ("Sockets: 256, CoresPerSocket: 256", "256 sockets of 256 cores of 1 threads are 65536 CPUs; slurmctld"),
            ("Boards: 256, SocketsPerBoard: 256", "65536 sockets of 1 cores of 1 threads are 65536 CPUs; slurmctld"),
            ("CPUs: 65534", "cpus='65534' is not a number from 1 to 65533"),
            ("ThreadsPerCore: UNLIMITED", "threadspercore='UNLIMITED' is not a number from 1 to 65533"),
            ("Procs: '0x10000'", '"0x10000" is too large; write a number up to 65535'),
            ("CoresPerSocket: '²'", '"²" is not a whole number'),
        )
    },
    "an ID of a stranger": (
        SMALL + "ids: {root: 5}\n",
        '5: ids.root: only slurm and munge have an ID here, not "root"',
    ),
    "root's ID": (SMALL + "ids: {slurm: 0}\n", "5: ids.slurm: 0 cannot be a user's ID"),
    "nobody's ID": (SMALL + "ids: {slurm: 65534}\n", "5: ids.slurm: 65534 cannot be a user's ID"),
    "one ID for two": (SMALL + "ids: {slurm: 405, munge: 405}\n", "5: ids: two users cannot share one ID"),
    "no ID": (SMALL + "ids: {slurm: x}\n", "5: ids.slurm: it must be a whole number"),
    "no margin": (SMALL + "memory_margin: lots\n", '5: memory_margin: "lots" is neither a percentage'),
    "all memory as margin": (SMALL + "memory_margin: 100%\n", '5: memory_margin: "100%" is neither a percentage'),
    "neither yes nor no": (SMALL + "hosts_file: perhaps\n", '5: hosts_file: it must be true or false, not "perhaps"'),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_parse_when_the_file_is_wrong_then_one_line_says_where_and_why(case):
    text, expected = COMPLAINTS[case]

    found = complaints(text)

    assert len(found) == 1
    assert re.match(re.escape(expected).replace("…", ".*"), found[0])
    assert "\n" not in found[0]


def test_parse_when_a_mapping_is_inside_itself_then_it_stops():
    assert "5: ids.slurm: it is nested too deeply" in complaints(SMALL + "ids: &a {slurm: *a}\n")


def test_parse_when_there_are_many_mistakes_then_all_are_said_in_the_files_order():
    text = """\
cluster: Titanic
controllers: mn01
login: cn02
colour: red
nodes:
  - hosts: cn[01-04]
    Weight: [1]
    State: DOWN
partitions:
  - {PartitionName: a, Nodes: cn05}
  - {Nodes: ALL}
slurm_conf:
  SlurmdTimeout: 300
  SlurmdTimeout: 301
  Include: x
ids: {slurm: many, munge: 0}
"""
    places = [line.split(": ")[:2] for line in complaints(text)]

    assert places == [
        ["1", "cluster"],
        ["3", "login"],
        ["4", "colour"],
        ["7", "nodes[0].Weight"],
        ["8", "nodes[0].State"],
        ["10", "partitions[0].Nodes"],
        ["11", "partitions[1].PartitionName"],
        ["14", "slurm_conf.SlurmdTimeout"],
        ["15", "slurm_conf.Include"],
        ["16", "ids.slurm"],
        ["16", "ids.munge"],
    ]


def test_parse_when_the_hosts_are_wrong_then_nobody_is_called_a_stranger_for_it():
    text = "cluster: x\ncontrollers: mn\nnodes:\n  - hosts: n[4-1]\npartitions: [{PartitionName: a, Nodes: n4}]\n"

    assert [line.split(": ")[1] for line in complaints(text)] == ["nodes[0].hosts"]


def test_load_when_there_is_no_file_then_it_names_the_way_to_make_one(tmp_path):
    with pytest.raises(InputError, match=r"There is no cluster file .*cluster\.yaml\. `fab deploy --hosts"):
        loading.load(tmp_path / "cluster.yaml")


def test_load_when_there_is_no_file_but_others_have_locks_then_it_names_them(tmp_path):
    for name in ("lab-demo.yaml", "lab-demo.lock.json", "example.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"no cluster file .*/lab-demo, but [^ ]*/lab-demo\.yaml\. `fab deploy"):
        loading.load(tmp_path / "lab-demo")


def test_load_when_the_path_is_a_folder_then_it_says_so(tmp_path):
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        loading.load(tmp_path)


def test_load_when_the_file_is_not_utf8_then_it_names_the_line(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"cluster: x\n# \xe9\n")

    with pytest.raises(InputError, match=r"cluster\.yaml:2: this is not UTF-8 text"):
        loading.load(path)


def test_load_when_a_comment_hides_the_end_of_its_line_then_it_names_the_line(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"cluster: x\r\n# a comment\rusers: [{name: eve, sudo: yes}]\n")

    with pytest.raises(InputError, match=r"cluster\.yaml:2: a carriage return ends a line here"):
        loading.load(path)


def test_load_when_a_lock_lies_beside_then_it_comes_along(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(GOOD)
    lock = Lock(slurm="24.11.5", ids={"slurm": 64030})
    locks.save(lock, loading.lock_path(path))

    loaded = loading.load(path)

    assert (loaded.path, loaded.lock, loaded.cluster.name) == (path, lock, "titanic")


@pytest.mark.needs_root("only root can give files to other users")
def test_load_when_somebody_else_left_the_lock_where_all_may_put_files_then_it_is_refused(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(GOOD)
    locks.save(Lock(slurm="24.11.5"), loading.lock_path(path))
    os.chown(loading.lock_path(path), 4242, 4242)
    assert loading.load(path).lock.slurm == "24.11.5"  # the directory is root's alone, who let them in
    tmp_path.chmod(0o1777)
    with pytest.raises(InputError, match=r"lock\.json belongs to another user \(UID 4242\), who may not change .*yaml"):
        loading.load(path)


@pytest.mark.parametrize(
    ("path", "lock"),
    [("configs/cluster.yaml", "configs/cluster.lock.json"), ("a.b.yml", "a.b.lock.json"), ("plain", "plain.lock.json")],
)
def test_lock_path_when_given_a_cluster_file_then_it_lies_beside(path, lock):
    assert loading.lock_path(Path(path)) == Path(lock)


@pytest.mark.parametrize(
    ("value", "path"), [(None, "configs/cluster.yaml"), ("", "configs/cluster.yaml"), ("x.yaml", "x.yaml")]
)
def test_default_path_when_the_environment_names_one_then_it_counts(monkeypatch, value, path):
    monkeypatch.delenv("SLURMFAB_CLUSTER", raising=False)
    if value is not None:
        monkeypatch.setitem(os.environ, "SLURMFAB_CLUSTER", value)

    assert loading.default_path() == Path(path)


def model_keys():
    """Every key of a cluster file that is slurmfab's or that it looks at, as `place.key`."""
    made = json_schema.schema()
    keys = list(made["properties"])
    keys += [f"ssh.{key}" for key in made["definitions"]["Ssh"]["properties"]]
    return [*keys, "nodes[].hosts", "partitions[].PartitionName", "partitions[].Nodes", "ids.slurm", "ids.munge"]


@pytest.mark.parametrize("key", model_keys())
def test_documentation_when_a_key_exists_then_it_has_a_row(key):
    text = (REPOSITORY / "docs" / "cluster-file.md").read_text()

    assert f"| `{key}` |" in text


def test_documentation_when_it_shows_a_whole_file_then_the_file_is_sound():
    blocks = (REPOSITORY / "docs" / "cluster-file.md").read_text().split("```yaml\n")[1:]
    whole = [block.split("```")[0] for block in blocks if block.startswith("cluster:")]

    assert whole
    assert [read(text).name for text in whole]


def test_examples_when_counted_then_none_is_missing():
    names = ["acceptance", "accounting", "around-slurm", "bastion", "containers", "directory", "gpu", "large", "logins"]
    names += ["monitoring", "power", "registry", "small", "software", "storage"]
    assert [path.name for path in EXAMPLES] == [f"example-{name}.yaml" for name in names]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_when_loaded_then_they_are_sound(path):
    cluster = loading.load(path).cluster

    assert cluster.compute_nodes
    assert cluster.controller not in cluster.login


def test_a_file_when_it_is_larger_than_any_cluster_file_then_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "MOST_BYTES", 1000)
    (tmp_path / "cluster.yaml").write_text("#" * 1001)

    with pytest.raises(InputError, match="it has more than"):
        loading.read_text(tmp_path / "cluster.yaml")


def test_a_file_when_it_never_ends_then_is_refused():
    with pytest.raises(InputError, match="it is not a regular file"):
        loading.read_text(Path("/dev/zero"))


def test_complaints_when_one_line_is_wrong_for_very_many_hosts_then_are_the_first_of_them():
    found = complaints(SMALL + "addresses: {'x[1-60000]': '10.[1-6].[1-100].[1-100]'}\n")

    assert len(found) == 201
    assert '"x1" is not a host of the cluster' in found[0]
    assert found[-1].endswith("there may be more mistakes; these are 200 of them.")


def test_complaints_when_there_are_very_many_wrong_keys_then_are_the_first_of_them():
    found = complaints(SMALL + "".join(f"x{number}: 1\n" for number in range(300)))

    assert len(found) == 201


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("health: {intervall: 60}\n", "health.intervall: unknown key; did you mean interval?"),
        ("backup: {dirctory: /srv}\n", "backup.dirctory: unknown key; did you mean directory?"),
        ("database: {hst: c1}\n", "database.hst: unknown key; did you mean host?"),
        ("users: [{name: ann, acounts: [a]}]\n", "users[0].acounts: unknown key; did you mean accounts?"),
        ("private_tmp: {x: 1}\n", "private_tmp.x: unknown key; known: BasePath, Dirs, Shared"),
    ],
)
def test_an_unknown_key_when_it_is_in_a_section_then_the_keys_of_that_section_are_known(text, complaint):
    assert any(complaint in line for line in complaints(SMALL + text))
