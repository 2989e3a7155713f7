"""Cluster files that have every key of a cluster file once: the examples that editors and the reference show.

The tests load each of them, and see that no key is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from slurmfab.cluster.inventory.yaml_nodes import TAG, compose

_MOST = 3
"""The most examples of a key."""

_NUMBER = re.compile(r"(0|[1-9]\d{0,14})(\.\d{1,9})?")

DOCUMENTS = (
    """\
cluster: titanic
ssh:
  user: admin
  key: ~/.ssh/id_ed25519
  port: 22
  become: sudo
  gateway: jump@bastion.example.org:2222
  endpoints: {"cn[01-16]": "198.51.100.[11-26]:22"}
  networks: [10.1.0.0/16]
addresses:
  mn[01-02]: 10.0.0.[1-2]
  db01: 10.0.0.3
  login01: 10.0.0.4
  cn[01-16]: 10.0.1.[1-16]
  gpu[01-04]: 10.0.2.[1-4]
controllers: [mn01, mn02]
state_directory: /shared/slurm/state
login: [login01]
nodes:
  - hosts: cn[01-16]
    Feature: bigmem
    Weight: 10
  - hosts: gpu[01-04]
    Gres: gpu:a100:4,mps:400
partitions:
  - PartitionName: batch
    Nodes: cn[01-16]
    Default: YES
    MaxTime: 2-00:00:00
  - {PartitionName: gpu, Nodes: "gpu[01-04]", QOS: gpu}
slurm_conf:
  SlurmdTimeout: 300
  ReturnToService: null
cgroup_conf: {AllowedRAMSpace: 98}
slurmdbd_conf: {PurgeJobAfter: 24month}
slurm_files: {plugstack.conf: slurm/plugstack.conf}
slurm_conf_directory: /shared/slurm/etc
keep_files: true
guard_directories: true
rotate_logs: true
slurm_user: slurm
slurm:
  packages: smd
  version: "26.05.*"
  source: {uris: "https://apt.example.org/slurm", suites: trixie, components: [main], key: keys/slurm.asc}
packages:
  all: [htop, "tree=2.1*"]
  controllers: [sosreport]
  database: [mariadb-backup]
  compute: [libopenblas0-pthread, debs/enroot_3.5.0-1_amd64.deb]
  login: [emacs-nox]
  groups: [{hosts: "gpu[01-04]", packages: [nvtop]}]
files:
  /etc/profile.d/site.sh: {source: files/site.sh, mode: "0644"}
  /etc/sssd/sssd.conf:
    text: "[sssd]\\n"
    template: true
    roles: [login, compute]
    hosts: mn01
    owner: root
    group: root
    mode: "0600"
    restart: sssd
topology:
  - {SwitchName: leaf1, Nodes: "cn[01-16]", LinkSpeed: 100}
  - {SwitchName: leaf2, Nodes: "gpu[01-04]"}
  - {SwitchName: spine, Switches: "leaf[1-2]"}
ids: {slurm: 64030, munge: 405}
memory_margin: 3%
hosts_file: false
database:
  host: db01
  user: slurm
  name: slurm_acct_db
  settings: false
qos:
  - {name: normal, MaxSubmitJobsPU: 500}
  - {name: gpu, Priority: 100, MaxTRESPU: gres/gpu=4}
accounts:
  - name: physics
    parent: root
    description: Department of physics
    organization: science
    coordinators: [ann]
    Fairshare: 20
users:
  - name: ann
    uid: 2001
    gid: 2001
    groups: [video]
    shell: /bin/zsh
    home: /home/ann
    comment: Ann Example
    keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKy2Vd0aIk9nN7Cn2CFC0DWXV6WqQ3l6n3gLrIq5S2yY ann@laptop"]
    sudo: true
    accounts: [physics]
    associations: {physics: {MaxJobs: 20}}
    quota: {soft: 200G, hard: 220G}
  - {name: bob, accounts: [physics], quota: false}
unix_users: true
licenses: {matlab: 10, comsol: 2}
backup:
  directory: /backup/slurm
  when: "03:30"
  keep: 30
  encrypt_to: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]
mounts:
  - path: /software
    source: nas.example.org:/export/software
    type: nfs4
    options: hard,vers=4.2
    roles: [controller, login, compute]
  - {path: /data, source: "nas.example.org:/export/data", type: nfs4, hosts: "gpu[01-04]", automount: true}
exports:
  - path: /srv/home
    host: mn01
    to: [login, compute]
    options: rw,no_root_squash
    mount: /home
homes: /home
quota: {path: /home, soft: 50G, hard: 60G}
scratch:
  path: /scratch
  size: 400G
  groups: [{hosts: "gpu[01-04]", size: 2T}]
  variable: SCRATCH
  tmpdir: true
mail:
  relay: smtp.example.org:587
  from: slurm@example.org
  tls: starttls
  user: slurm
  password_file: mail.password
modules: {system: lmod, path: [/software/modules]}
mpi: {type: pmix, packages: openmpi}
containers:
  use: [podman, apptainer, docker]
  podman:
    storage: /local/containers
    prune: {unused_for: 30d, above: 80%, when: daily}
  apptainer: {storage: /local/apptainer}
  docker: {users: [ann]}
registry:
  host: mn01
  address: 10.0.0.1
  port: 5000
  anonymous_pull: true
  pull_port: 5001
  directory: /srv/images
  password_file: registry.htpasswd
  only: true
  allowed: [docker.io/library]
monitoring:
  listen: cluster
  port: 9100
  every: 30
  prometheus: {host: mn01, listen: cluster, port: 9090, retention: 30d, every: 15}
gpu_checks:
  program: all_reduce_perf
  arguments: -b 512M -e 8G -f 2
  environment: {NCCL_SOCKET_IFNAME: ib0}
  when: Sun 03:30
  min_busbw: {a100: 220}
  between_nodes: {a100: 20}
  mpi: pmix
  partition: gpu
  qos: gpu
  drain: true
  wait: 120
  minutes: 15
  keep: 100
acceptance:
  memory: {target: 180, tolerance: 3%}
  ours:
    script: jobs/ours.sh
    nodes: each
    hosts: cn[01-16]
    partition: batch
    tasks: cores
    gpus: 0
    minutes: 30
    whole_nodes: true
    at_once: 4
    user: ann
    variables: {SIZE: 2000}
    pattern: "speed: ([0-9.]+)"
    unit: GB/s
    better: higher
    target: 90
  fio-home:
    script: fio
    figures:
      read: {pattern: "read ([0-9.]+)", unit: MB/s, target: 900, tolerance: 5%, better: higher}
drift: {when: daily, mail: ann@example.org, textfile: /var/lib/prometheus/node-exporter/slurmfab-drift.prom}
prolog: prolog.d
epilog: {"gpu[01-04]": epilog-gpu.d}
job_environment:
  all: {OMP_PLACES: cores}
  groups: [{hosts: "gpu[01-04]", variables: {NCCL_DEBUG: WARN}}]
health:
  interval: 300
  mounts: [/home]
  disk: {/: 3%, /scratch: 2G}
  memory: true
  gpus: true
  clock: 10
  daemons: [sssd]
mps_daemon: true
own_partition: true
restart_daemons: true
bundle: cluster.bundle-trixie-amd64.tar
slurm_ssh: {logins: from_controllers, also_from: 192.0.2.0/24}
node_logins: with_job
user_ssh: own
login_limits: {memory: 20%, tasks: 512, cpus: 4}
private_data: [jobs, usage]
motd: Maintenance on Friday.
user_tools: true
x11: true
power:
  nodes: cn[01-16]
  suspend_after: 30m
  keep: 2
  rate: 60
  suspend_timeout: 2m
  resume_timeout: 15m
  how:
    ipmi: {address: "{node}-ipmi", user: ADMIN, password_file: ipmi.password}
""",
    """\
cluster: lab
controllers: mn01
nodes:
  - hosts: cn[01-02]
configless: true
slurm: {version: 26.05.5, source: {suite: trixie-backports}}
private_tmp: {BasePath: /local/private, Dirs: /tmp, Shared: true}
monitoring: {openmetrics: true}
packages: {all: [debs/enroot_4.1.2-1_amd64.deb, debs/nvslurm-plugin-pyxis_0.24.0-1_amd64.deb]}
containers:
  use: [enroot]
  enroot: {storage: /local/enroot, hooks: [slurm-pmi], mount_home: true}
database:
  host: mn01
  external: db.example.org:3307
  password_file: database.password
power:
  nodes: cn[01-02]
  how:
    wake_on_lan: {mac: {cn01: "52:54:00:12:34:56", cn02: "52:54:00:12:34:57"}, broadcast: 10.0.1.255}
""",
    """\
cluster: lab
controllers: mn01
nodes:
  - hosts: cn[01-02]
slurm: {version: "25.11.*", source: {directory: debs/slurm-25.11}}
database: {host: mn01, external: db.example.org, keep_password: true}
power:
  nodes: cn[01-02]
  how:
    command: {suspend: /opt/site/power-off, resume: /opt/site/power-on}
""",
)
"""Cluster files; the first example of a key is the one that the reference shows."""


def add(top: dict[str, Any], definitions: Mapping[str, Any]) -> None:
    """Add the examples to the schema of a cluster file.

    Args:
        definitions: the schemas of its parts, to which it refers.
    """
    for document in DOCUMENTS:
        _add(top, plain(compose(document, "an example")), definitions)
    for part in (top, *definitions.values()):
        for one in part["properties"].values():
            if one.get("type") == "boolean" and "examples" not in one:
                one["examples"] = [not one.get("default", False)]


def _add(schema: dict[str, Any], value: Any, definitions: Mapping[str, Any]) -> None:
    """Add a value, and the values inside it, to the schemas of their keys."""
    for one in _alternatives(schema, definitions):
        if isinstance(value, list) and "items" in one:
            for inner in value:
                _add(one["items"], inner, definitions)
        for key, inner in value.items() if isinstance(value, dict) else ():
            of_key = one.get("properties", {}).get(key)
            for other in (one.get("additionalProperties"), *one.get("patternProperties", {}).values()):
                if of_key is None and isinstance(other, dict):
                    _add(other, inner, definitions)
            if of_key is not None:
                examples = of_key.setdefault("examples", [])
                if inner not in examples and len(examples) < _MOST:
                    examples.append(inner)
                _add(of_key, inner, definitions)


def _alternatives(schema: dict[str, Any], definitions: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a value may have."""
    if "$ref" in schema:
        yield from _alternatives(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif "anyOf" in schema:
        for one in schema["anyOf"]:
            yield from _alternatives(one, definitions)
    else:
        yield schema


def plain(node: Node) -> Any:
    """The value of a node as an editor reads it: numbers are numbers."""
    if isinstance(node, MappingNode):
        return {key.value: plain(value) for key, value in node.value}
    if not isinstance(node, ScalarNode):
        return [plain(one) for one in node.value]
    if node.tag == TAG + "null":
        return None
    if node.tag == TAG + "bool":
        return str(node.value).lower() == "true"
    if node.style or not _NUMBER.fullmatch(node.value):
        return str(node.value)
    return float(node.value) if "." in node.value else int(node.value)


def text_of(key: str) -> str:
    """The lines of a key at the top of the file, with its value, from the first example that has it.

    Args:
        key: such as `power`.
    """
    for document in DOCUMENTS:
        lines = document.splitlines()
        starts = [number for number, line in enumerate(lines) if not line.startswith(" ")] + [len(lines)]
        for start, end in pairwise(starts):
            if lines[start].startswith(f"{key}:"):
                return "\n".join(lines[start:end])
    return ""
