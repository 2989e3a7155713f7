"""Slurm's files of a cluster made by hand as its twin has them: without nodes, addresses and hardware that it lacks."""

from __future__ import annotations

import pytest

from slurmfab.cluster.facts import Hardware
from slurmfab.commands.rehearse.real_files import Changes, changed, room_for, without_sets

SMALL = Hardware(CPUs=2, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=1, RealMemory=4000)
GONE = frozenset({"n3", "n4"})


def on_twin(text: str, *, gone: frozenset[str] = GONE, room: Hardware | None = None, **addresses: str) -> list[str]:
    """The lines of a file on a twin that lacks n3 and n4."""
    known = {f"10.0.0.{name[1:]}": address for name, address in addresses.items()}
    return changed(text, Changes(without_sets([text], gone), known, room)).splitlines()


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("NodeName=n[1-4] CPUs=4 Gres=gpu:2", ["NodeName=n[1-2] CPUs=4 Gres=gpu:2"]),
        ("NodeName=n[2-3] NodeAddr=10.1.0.[2-3] Port=17002,17003", ["NodeName=n2 NodeAddr=10.1.0.2 Port=17002"]),
        ("NodeName=n[3-4] CPUs=4", []),
        ("NodeName=DEFAULT CPUs=4", ["NodeName=DEFAULT CPUs=4"]),
        ("PartitionName=all Nodes=ALL Default=YES", ["PartitionName=all Nodes=ALL Default=YES"]),
        ("PartitionName=fat Nodes=n[2-4]", ["PartitionName=fat Nodes=n2"]),
        ("PartitionName=fat Nodes=n[3-4]", ['PartitionName=fat Nodes=""']),
        ("DownNodes=n3 State=DOWN", []),
        ("SuspendExcNodes=n[1-3]", ["SuspendExcNodes=n[1-2]"]),
        ("NodeName=n[1-4] Name=gpu File=/dev/nvidia0", ["NodeName=n[1-2] Name=gpu File=/dev/nvidia0"]),
        ("Name=gpu NodeName=n4 File=/dev/nvidia0", []),
        ("SuspendTime=300", []),
        ("PartitionName=all Nodes=ALL SuspendTime=300", ["PartitionName=all Nodes=ALL"]),
    ],
)
def test_a_line_that_names_nodes_which_the_twin_lacks_is_left_without_them(line: str, left: list[str]) -> None:
    assert on_twin(f"{line}\n") == left


def test_a_set_of_nodes_or_a_switch_that_loses_all_nodes_is_gone_from_the_lines_that_name_it() -> None:
    sets = "NodeSet=thin Nodes=n[1-2]\nNodeSet=fat Nodes=n[3-4]\nNodeSet=ib Feature=ib\n"
    named = "PartitionName=p Nodes=thin,ib"
    lines = on_twin(f"{sets}PartitionName=p Nodes=thin,fat,ib\n")
    assert lines == ["NodeSet=thin Nodes=n[1-2]", "NodeSet=ib Feature=ib", named]
    leaves = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n"
    lines = on_twin(f"{leaves}SwitchName=up Switches=s2\nSwitchName=top Switches=s1,up\n")
    assert lines == ["SwitchName=s1 Nodes=n[1-2]", "SwitchName=top Switches=s1"]


def test_a_file_in_which_nothing_is_other_stays_with_its_comments_and_continued_lines() -> None:
    text = "# ask the board\nSchedulerParameters=bf_continue,\\\nbf_window=2880 # two days\n\nNodeName=n[1-2] CPUs=2\n"
    assert changed(text, Changes(frozenset({"n3"}), {}, SMALL if room_for([text], SMALL) else None)) == text


def test_addresses_of_hosts_are_those_of_the_twin_and_no_part_of_another_address() -> None:
    text = "SlurmctldHost=ctl(10.0.0.1)\nNodeName=n[1-2] NodeAddr=10.0.0.[11-12]\n"
    lines = on_twin("SlurmctldHost=ctl(10.0.0.1)\nNodeName=n11 NodeAddr=10.0.0.11\n", a1="172.16.0.1")
    assert lines == ["SlurmctldHost=ctl(172.16.0.1)", "NodeName=n11 NodeAddr=10.0.0.11"]
    assert on_twin(text, a1="172.16.0.1")[0] == "SlurmctldHost=ctl(172.16.0.1)"


def test_addresses_in_a_range_are_those_of_the_twins_nodes_one_by_one() -> None:
    lines = on_twin("NodeName=n[1-3] NodeAddr=10.0.0.[1-3]\n", a1="172.16.0.7", a2="172.16.0.9")
    assert lines == ["NodeName=n[1-2] NodeAddr=172.16.0.[7,9]"]


@pytest.mark.parametrize(
    ("line", "is_larger"),
    [
        ("NodeName=n1 CPUs=2 RealMemory=4000", False),
        ("NodeName=n1 Sockets=1 CoresPerSocket=2", False),
        ("NodeName=n1 CPUs=3", True),
        ("NodeName=DEFAULT Sockets=2 CoresPerSocket=16 ThreadsPerCore=2", True),
        ("NodeName=n1 CPUs=2 RealMemory=4001", True),
        ("DefMemPerNode=4001", False),
    ],
)
def test_nodes_are_fitted_to_the_twins_hosts_if_slurm_conf_promises_more(line: str, is_larger: bool) -> None:
    assert room_for([line], SMALL) == (SMALL if is_larger else None)


def test_a_node_line_that_promises_more_than_the_twins_host_has_is_cut_down_with_its_gres() -> None:
    text = "NodeName=n1 Sockets=2 CoresPerSocket=16 RealMemory=250000 MemSpecLimit=4000 Gres=gpu:2 Weight=3\n"
    text += "NodeName=n2 RealMemory=3000\nName=gpu File=/dev/nvidia[0-1] Cores=0-15\n"
    assert on_twin(text, room=SMALL) == [
        "NodeName=n1 Gres=gpu:2 Weight=3 CPUs=2 RealMemory=4000",
        "NodeName=n2 RealMemory=3000",
        "Name=gpu File=/dev/nvidia[0-1]",
    ]
