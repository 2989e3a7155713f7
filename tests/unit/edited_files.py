"""Cluster files as people write them, and what differs between two of them."""

from __future__ import annotations

import difflib

STYLES = {
    "block": """\
# our cluster
cluster: titanic   # the unsinkable

ssh:
    user: admin   # four spaces here

addresses:
  mn01: 10.0.0.1
  cn[01-16]:  10.0.1.[1-16]     # rack 1

  # gpu01: 10.0.2.1

controllers: [ mn01 ]
nodes:
- hosts: cn[01-04]     # the old ones
  Gres: 'gpu:pascal:2'

# the new ones
- Feature: bigmem
  hosts:   cn[05-16]
  # a comment inside

partitions:
  - {PartitionName: batch, Nodes: ALL, Default: YES, MaxTime: 7-00:00:00}
slurm_conf: {SlurmdTimeout: 0300}
""",
    "flow": """\
{cluster: titanic, addresses: {mn01: 10.0.0.1, "cn[01-16]": "10.0.1.[1-16]"}, controllers: [mn01],
 nodes: [{hosts: "cn[01-04]", Gres: "gpu:pascal:2"}, {hosts: "cn[05-16]", Feature: bigmem}]}   # all in one
""",
    "lists": """\
cluster: titanic
controllers: mn01
addresses:
    mn01: "10.0.0.1"
    "cn[01-16]": "10.0.1.[1-16]"
nodes:
  -   hosts: [cn01, "cn[02-04]"]  # a flow list
      Gres: gpu:pascal:2
  -   hosts:
        - cn[05-15]
        - 'cn16'     # the last
      Feature: bigmem
""",
    "flow list over lines": """\
cluster: titanic
controllers: mn01
addresses: {
  mn01: 10.0.0.1,       # head
  "cn[01-16]": "10.0.1.[1-16]",  # the rest
}
nodes:
  - hosts: [
      cn01, cn02,  # first rack
      cn03, cn04,  # second rack
    ]
    Gres: gpu:pascal:2
  - {hosts: "cn[05-16]", Feature: bigmem}
""",
    "folded scalar": """\
cluster: titanic
controllers: mn01
addresses:
  mn01: 10.0.0.1
  cn[01-16]: 10.0.1.[1-16]
nodes:
  - hosts: >-
      cn[01-04]
    Gres: gpu:pascal:2
  - hosts: "cn[05-16]"
    Feature: bigmem""",
}
LINE_ENDS = {"unix": "\n", "dos": "\r\n"}


def difference(old: str, new: str) -> list[str]:
    """The lines that differ, with - and + before them."""
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return [line for line in lines if line.startswith(("- ", "+ "))]
