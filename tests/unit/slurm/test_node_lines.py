"""Compute nodes as lines of slurm.conf."""

from __future__ import annotations

import random
import time

import pytest

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import expand
from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.slurm.gres import gres_lines
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.node_lines import node_lines, real_memory

SMALL = Hardware(CPUs=4, Boards=1, SocketsPerBoard=1, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=16000)
SAID = "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=15520"
PASCAL = (Gpu("/dev/nvidia0", "pascal"), Gpu("/dev/nvidia1", "pascal"))


def node(name: str, address: str = "", hostname: str = "", gpus: tuple[Gpu, ...] = (), **settings: str) -> Node:
    return Node(name, address or name, hostname or name, SMALL, gpus, settings)


def test_equal_nodes_share_one_line() -> None:
    nodes = [node(f"cn{number:02}", f"10.0.1.{number}") for number in range(1, 5)]
    assert node_lines(nodes, "3%") == (f"NodeName=cn[01-04] NodeAddr=10.0.1.[1-4] {SAID} State=UNKNOWN",)


def test_different_nodes_keep_the_order_in_which_they_first_appear() -> None:
    lines = node_lines([node("z1"), node("a1", Weight="5"), node("z2")], "3%")
    assert [line.split()[0] for line in lines] == ["NodeName=z[1-2]", "NodeName=a1"]


def test_nodes_of_different_kinds_share_a_line_that_says_the_same_of_both() -> None:
    (line,) = node_lines([node("n1", RealMemory="15520"), node("n2"), node("n3", RealMemory="15520")], "3%")
    assert line.split()[0] == "NodeName=n[1-3]"


def test_addresses_stay_with_their_names_whatever_their_order() -> None:
    (line,) = node_lines([node("n10", "10.0.0.2"), node("n9", "10.0.0.7"), node("n8", "10.0.0.1")], "3%")
    assert line.startswith("NodeName=n[8-10] NodeAddr=10.0.0.[1,7,2] ")


def test_node_addr_is_written_only_where_it_says_something() -> None:
    lines = node_lines([node("n1"), node("n2", "10.0.0.2")], "3%")
    assert ["NodeAddr" in line for line in lines] == [False, True]


def test_node_hostname_is_written_where_the_host_calls_itself_otherwise() -> None:
    lines = node_lines([node("n1", hostname="machine7"), node("n2", hostname="machine9"), node("n3")], "3%")
    assert lines[0].startswith("NodeName=n[1-2] NodeHostname=machine[7,9] CPUs=4 ")
    assert "NodeHostname" not in lines[1]


def test_gpus_become_gres_by_type_in_the_order_of_their_files() -> None:
    mixed = (Gpu("/dev/nvidia0", "v100"), Gpu("/dev/nvidia1", "a100"), Gpu("/dev/nvidia2", "v100"))
    (line,) = node_lines([node("n1", gpus=mixed)], "3%")
    assert line.endswith(" Gres=gpu:v100:2,gpu:a100:1 State=UNKNOWN")


def test_gpus_without_a_type_are_only_counted() -> None:
    (line,) = node_lines([node("n1", gpus=(Gpu("/dev/nvidia0"), Gpu("/dev/nvidia1")))], "3%")
    assert " Gres=gpu:2 " in line


def test_what_the_user_says_wins_whatever_its_case() -> None:
    (line,) = node_lines([node("n1", gpus=PASCAL, realmemory="9000", GRES="gpu:1", state="FUTURE")], "3%")
    assert "realmemory=9000" in line
    assert "GRES=gpu:1" in line
    assert line.endswith("state=FUTURE")
    assert "15520" not in line
    assert "pascal" not in line
    assert "UNKNOWN" not in line


def test_a_layout_of_the_users_takes_the_discovered_cpus_with_it() -> None:
    (line,) = node_lines([node("n1", ThreadsPerCore="1")], "3%")
    assert "CPUs" not in line
    assert " Boards=1 SocketsPerBoard=1 CoresPerSocket=2 RealMemory=15520 ThreadsPerCore=1 " in line


def test_sockets_of_the_users_replace_boards_and_their_sockets() -> None:
    (line,) = node_lines([node("n1", Sockets="2", CoresPerSocket="1")], "3%")
    assert "Board" not in line
    assert "CPUs" not in line


def test_cpus_that_fit_the_layout_leave_it_and_others_drop_it() -> None:
    cores, odd = node_lines([node("n1", CPUs="2"), node("n2", CPUs="3")], "3%")
    assert "CoresPerSocket=2" in cores
    assert "CPUs=2" in cores
    assert "CoresPerSocket" not in odd
    assert "CPUs=3" in odd


@pytest.mark.parametrize(
    ("total", "margin", "kept"),
    [
        (515000, "3%", 499550),
        (16000, "512M", 15488),
        (16000, "2G", 13952),
        (16000, "100", 15900),
        (16000, "0%", 16000),
        (4000, "3%", 4000 - 256),
        (400, "3%", 200),
        (1001, "10.5%", 1001 - 256),
    ],
)
def test_a_margin_is_kept_from_the_memory(total: int, margin: str, kept: int) -> None:
    assert real_memory(total, margin) == kept


@pytest.mark.parametrize("margin", ["", "a bit", "-5%", "3 percent", "5X"])
def test_a_margin_that_is_none_is_refused(margin: str) -> None:
    with pytest.raises(InputError, match="is not a margin"):
        real_memory(16000, margin)


def test_a_margin_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="leaves nothing of the 16000 MiB"):
        real_memory(16000, "16G")


def test_ten_thousand_nodes_take_less_than_two_seconds_and_keep_their_addresses() -> None:
    dice = random.Random(1)
    addresses_of = [f"10.{dice.randrange(256)}.{dice.randrange(256)}.9" for _ in range(10000)]
    nodes = [node(f"cn{number:05}", address, gpus=PASCAL) for number, address in enumerate(addresses_of)]
    start = time.process_time()
    (line,) = node_lines(nodes, "3%")
    (gres,) = gres_lines(nodes)
    assert time.process_time() - start < 2
    names, addresses = (word.partition("=")[2] for word in line.split()[:2])
    assert names == "cn[00000-09999]"
    assert gres.startswith("NodeName=cn[00000-09999] Name=gpu ")
    assert addresses_of == unfolded(addresses)


def unfolded(hostlist: str) -> list[str]:
    """The names of a hostlist with their order and repetitions, which no range of ours hides."""
    return [name for part in hostlist.split(",") for name in (expand(part) if "[" in part else [part])]
