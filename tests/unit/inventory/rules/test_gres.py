"""The Gres of nodes, as far as a cluster file alone tells whether it is sound."""

from __future__ import annotations

import re

import pytest
from support import cluster

from slurmfab.base.errors import InputError

HEAD = """\
cluster: lab
controllers: [c1]
nodes:
  - {hosts: n1, SETTINGS}
"""


def parse(settings: str, more: str = "") -> None:
    cluster(HEAD.replace("SETTINGS", settings) + more)


@pytest.mark.parametrize(
    "gres",
    [
        "gpu:4", "gpu:a100:4", "gpu:a100-sxm4-40gb_1g.5gb:2", "gpu:a100:2,gpu:v100:2", "gpu:a100:4,shard:16",
        "gpu:2,gpu:a100:2,mps:400", "bandwidth:no_consume:4G", "licence", "gpu",
    ],
)  # fmt: skip
def test_gres_when_spelled_as_slurm_does_is_taken(gres: str) -> None:
    parse(f"Gres: '{gres}'")


@pytest.mark.parametrize(
    ("gres", "words"),
    [
        ("gpu=4", '"gpu=4" is not a Gres, NAME:COUNT or NAME:TYPE:COUNT; write Gres: gpu:4'),
        ("gpu:-1", '"gpu:-1" is not a Gres'),
        ("gpu:a100:4,,", '"" is not a Gres'),
        ("gpu:a100:four:4", "is not a Gres"),
        ("gpu:0", '"gpu:0": the number of GPUs is a whole number from 1'),
        ("gpu:1K", "is a whole number"),
        ("gpu:a100:2,gpu:a100:2", "has the same name and type as an earlier entry"),
        ("gpu:4,shard:8,mps:8", "two ways to share a GPU; Slurm allows one of them on a node"),
        ("shard:8", "shard shares GPUs: list the GPUs too, as in gpu:a100:4,shard:8"),
        ("gpu:a100:4,shard:a100:8", '"shard" takes no type'),
        ("gpu:a100:4,shard:6", "shard:6 cannot be divided evenly among 4 GPUs; write a multiple of 4"),
        ("gpu:a100:2,gpu:v100:1,mps:100", "cannot be divided evenly among 3 GPUs"),
        ("gpu:2,shard:0", "cannot be divided evenly"),
    ],
)
def test_gres_that_slurm_would_not_take_is_refused_at_its_line(gres: str, words: str) -> None:
    with pytest.raises(InputError, match=r"cluster.yaml:4: nodes\[0\].Gres: .*" + words):
        parse(f"Gres: '{gres}'")


@pytest.mark.parametrize(("types", "shown"), [("gpu", "gpu"), ("null", "null")])
def test_a_gres_that_the_users_own_gres_types_lack_is_refused(types: str, shown: str) -> None:
    words = f'nodes[0].Gres: "shard" is not in slurm_conf.GresTypes ({shown}); add it there'
    with pytest.raises(InputError, match=re.escape(words)):
        parse("Gres: 'gpu:2,shard:8'", f"slurm_conf: {{GresTypes: {types}}}\n")


def test_gres_types_of_the_users_that_have_more_names_are_taken() -> None:
    parse("Gres: 'gpu:2,shard:8'", "slurm_conf: {GresTypes: 'gpu,shard,nic'}\n")


@pytest.mark.parametrize("method", ["nvml", "nvidia", "rsmi", "oneapi", "off", "NVML"])
def test_ways_to_find_gpus_that_slurm_knows_are_taken(method: str) -> None:
    parse(f"AutoDetect: '{method}'")


def test_a_way_to_find_gpus_that_slurm_does_not_know_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"nodes\[0\].AutoDetect: \"cuda\" is not a value of AutoDetect \(known: nvidia"
    ):
        parse("AutoDetect: cuda")
    with pytest.raises(InputError, match="write AutoDetect, as"):
        parse("Autodetect: nvml")


@pytest.mark.parametrize("files", ["/dev/nvidia[0-3,7]", "/dev/accel/accel0,/dev/dri/renderD[128-131]"])
def test_device_files_of_the_users_are_taken(files: str) -> None:
    parse(f"File: '{files}'")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("File: nvidia0", '"nvidia0" is not a device file; write them as in'),
        ("File: '/dev/nvidia[0-]'", "is not a device file"),
        ("File: '/dev/../etc/passwd'", "is not a device file"),
        ("File: /dev/nvidia0, AutoDetect: nvml", "AutoDetect: nvml finds the device files; remove one of the two keys"),
        ("FILE: /dev/nvidia0", "write File, as"),
    ],
)
def test_device_files_that_are_none_or_of_no_use_are_refused(keys: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(keys)
