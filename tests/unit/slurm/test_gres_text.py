"""What texts of gres.conf say about a node."""

from __future__ import annotations

import pytest

from slurmfab.cluster.slurm.conf_text import MOST_NAMES, parse
from slurmfab.cluster.slurm.gres import gres_by_node, is_same_gres

GPUS = "Name=gpu File=/dev/a,/dev/b\n"
OURS = "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"


def is_same(one: str, other: str, node: str = "n1") -> bool:
    return is_same_gres(*(gres_by_node(parse(text), [node])[node] for text in (one, other)))


@pytest.mark.parametrize(
    "text",
    [
        "Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "name=GPU type=A100 file=/dev/nvidia0\nName=gpu Type=a100 File=/dev/nvidia1",
        "Name=gpu Type=a100 File=/dev/nvidia0,/dev/nvidia1 Count=2",
        "AutoDetect=off\nName=gpu Type=a100 File=/dev/nvidia[0-1]",
        "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-3",
        "NodeName=n9 Name=gpu Count=3\nNodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "Name=gpu Type=a100 File=/dev/nvidia1\nName=gpu Type=a100 File=/dev/nvidia0 # the first",
    ],
)
def test_a_text_that_says_the_same_about_a_node_is_the_same(text: str) -> None:
    assert is_same(text, OURS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "Name=gpu File=/dev/nvidia[0-1]",
        "Name=gpu Type=v100 File=/dev/nvidia[0-1]",
        "Name=gpu Type=a100 File=/dev/nvidia[0-2]",
        "Name=gpu Type=a100 File=/dev/nvidia[0-1] Links=0,2",
        "AutoDetect=nvml",
        "AutoDetect=nvml\nName=gpu Type=a100 File=/dev/nvidia[0-1]",
        "Name=gpu Type=a100 MultipleFiles=/dev/nvidia0,/dev/nvidia1",
    ],
)
def test_a_text_that_says_something_else_is_another(text: str) -> None:
    assert not is_same(text, OURS)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Name=bandwidth Count=20G", "Name=bandwidth Count=21474836480 Flags=CountOnly", True),
        ("Name=bandwidth Count=20G", "Name=bandwidth Count=20", False),
        ("Name=gpu File=/dev/a Cores=0-3", "Name=gpu File=/dev/a Cores=0,1,2,3", True),
        ("Name=gpu File=/dev/a Cores=0-3", "Name=gpu File=/dev/a Cores=4-7", False),
        ("Name=gpu File=/dev/a CPUs=0", "Name=gpu File=/dev/a Cores=0", True),
        ("AutoDetect=nvml", "NodeName=n1 AutoDetect=NVML", True),
        ("Name=shard Count=8", "NodeName=n1 Name=shard Count=4\nNodeName=n1 Name=shard Count=4", True),
        (f"{GPUS}Name=mps Count=24 File=/dev/a\nName=mps Count=24 File=/dev/b", f"{GPUS}Name=mps Count=48", True),
        (f"{GPUS}Name=shard Count=8 File=/dev/a,/dev/b", f"{GPUS}Name=shard Count=8", True),
        (f"{GPUS}Name=mps Count=10 File=/dev/a\nName=mps Count=38 File=/dev/b", f"{GPUS}Name=mps Count=48", False),
        (f"{GPUS}Name=mps Count=48 File=/dev/a", f"{GPUS}Name=mps Count=48", False),
        ("", "# no devices", True),
    ],
)
def test_counts_cores_and_autodetect_are_compared_as_slurm_reads_them(one: str, other: str, expected: bool) -> None:
    assert is_same(one, other) == expected


HUGE = {
    "cores": "Name=gpu File=/dev/nvidia0 Cores=" + ",".join(["0-1048575", "5-99999999"] * 200),
    "digits": "Name=gpu File=/dev/nvidia0 Cores=0-" + "9" * 5000,
    "devices": "\n".join(f"Name=gpu File=/dev/x{number}n[1-65536]" for number in range(200)),
    "devices in one line": "Name=gpu File=" + ",".join(f"/dev/x{number}n[1-65536]" for number in range(200)),
    "nodes": "\n".join(f"NodeName=x{number}n[1-65536] Name=gpu Count=1" for number in range(200)),
    "lines of all nodes and of each": "\n".join(
        [f"Name=gpu File=/dev/nvidia{one}" for one in range(20_000)]
        + [f"NodeName=x{one} Name=gpu Count=1" for one in range(20_000)]
    ),
    "files one by one": "\n".join(f"NodeName=n1 Name=gpu File=/dev/nvidia{one}" for one in range(60_000)),
    "nodes and lines": "Name=gpu Count=1\n" * 3000 + "NodeName=n[1-65536] Name=gpu Count=1",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_a_hostile_text_that_stands_for_very_much_is_read_in_bounds_and_differs(text: str) -> None:
    found = gres_by_node(parse(text), ["n1"])
    assert len(found) + sum(len(one.files) + len(one.cores) for one in found["n1"]) <= MOST_NAMES + 2
    assert not is_same_gres(found["n1"], gres_by_node(parse(OURS))["n1"])


def test_cores_however_they_are_listed_are_compared_as_sets() -> None:
    one, other = (OURS.replace("\n", f" Cores={cores}\n") for cores in ("8,0-1,2-3", "0-2,2-3,3,8-8"))
    assert is_same(one, other)
    assert not is_same(one, OURS.replace("\n", " Cores=0-8\n"))
