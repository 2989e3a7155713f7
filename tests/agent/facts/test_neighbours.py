"""Switches that a host sees, in outputs written after the manual pages of lldpctl, networkctl and ibnetdiscover."""

from __future__ import annotations

import json

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.facts import neighbours

LLDPCTL = json.dumps({
    "lldp": [
        {
            "interface": [
                {
                    "name": "eno1",
                    "via": "LLDP",
                    "rid": "1",
                    "age": "0 day, 00:04:11",
                    "chassis": [{
                        "id": [{"type": "mac", "value": "00:1c:73:00:00:01"}],
                        "name": [{"value": "leaf01.example.org"}],
                        "capability": [{"type": "Bridge", "enabled": True}],
                    }],
                    "port": [{"id": [{"type": "ifname", "value": "Ethernet7"}]}],
                },
                {"name": "eno2", "via": "LLDP", "chassis": [{"id": [{"type": "mac", "value": "00:1c:73:00:00:02"}]}]},
            ]
        }
    ]
})  # fmt: skip
NETWORKCTL = json.dumps({
    "Neighbors": [
        {
            "InterfaceIndex": 2,
            "InterfaceName": "eno1",
            "Neighbors": [{"ChassisID": "00:1c:73:00:00:01", "PortID": "Ethernet7", "SystemName": "leaf01"}],
        }
    ]
})  # fmt: skip
FABRIC = """\
#
# Topology file: generated on Thu Nov 26 10:00:00 2026
#
# Initiated from node 248a0703009c0001 port 248a0703009c0001

vendid=0x2c9
devid=0xd2f0
sysimgguid=0xe41d2d0300000a00
switchguid=0xe41d2d0300000a00(e41d2d0300000a00)
Switch	41 "S-e41d2d0300000a00"		# "MF0;leaf01:MQM8700/U1" enhanced port 0 lid 2 lmc 0
[1]	"H-248a0703009c0001"[1](248a0703009c0001) 		# "n01 mlx5_0" lid 10 4xHDR
[2]	"H-248a0703009c0002"[1](248a0703009c0002) 		# "n02 mlx5_0" lid 11 4xHDR
[40]	"S-e41d2d0300000c00"[1]		# "MF0;spine01:MQM8700/U1" lid 4 4xHDR

vendid=0x2c9
devid=0xd2f0
switchguid=0xe41d2d0300000c00(e41d2d0300000c00)
Switch	41 "S-e41d2d0300000c00"		# "MF0;spine01:MQM8700/U1" enhanced port 0 lid 4 lmc 0
[1]	"S-e41d2d0300000a00"[40]		# "MF0;leaf01:MQM8700/U1" lid 2 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x248a0703009c0001
caguid=0x248a0703009c0001
Ca	1 "H-248a0703009c0001"		# "n01 mlx5_0"
[1](248a0703009c0001) 	"S-e41d2d0300000a00"[1]		# lid 10 lmc 0 "MF0;leaf01:MQM8700/U1" lid 2 4xHDR
"""


def test_lldpctl_when_a_neighbour_has_a_name_then_it_is_told_with_its_interface() -> None:
    assert neighbours.parse_lldpctl(LLDPCTL) == [("eno1", "leaf01.example.org")]


def test_networkctl_when_it_speaks_json_then_it_tells_the_same() -> None:
    assert neighbours.parse_networkctl(NETWORKCTL) == [("eno1", "leaf01")]


@pytest.mark.parametrize(
    "text",
    ["", "not JSON", "[]", '{"lldp": 1}', '{"lldp": [{"interface": [{"chassis": [{"name": [{}]}]}]}]}', "[" * 99999],
)
def test_lldp_when_the_output_is_another_then_there_are_no_neighbours(text: str) -> None:
    assert neighbours.parse_lldpctl(text) == []
    assert neighbours.parse_networkctl(text) == []


def test_a_fabric_when_ibnetdiscover_shows_it_then_switches_and_their_ports_are_told() -> None:
    leaf, spine = "S-e41d2d0300000a00", "S-e41d2d0300000c00"
    assert neighbours.parse_fabric(FABRIC) == (
        [(leaf, "MF0;leaf01:MQM8700/U1"), (spine, "MF0;spine01:MQM8700/U1")],
        [
            (leaf, "H-248a0703009c0001", "n01 mlx5_0"),
            (leaf, "H-248a0703009c0002", "n02 mlx5_0"),
            (leaf, spine, "MF0;spine01:MQM8700/U1"),
            (spine, leaf, "MF0;leaf01:MQM8700/U1"),
        ],
    )


def test_a_host_when_it_has_none_of_the_programs_then_it_sees_nothing() -> None:
    class Bare(Context):
        def run(self, *_: object, **__: object) -> object:  # type: ignore[override]
            raise neighbours.ResourceFailed("not installed")

    found = neighbours.read({"fabric": True}, Bare())
    assert (found["lldp"], found["switches"], found["links"]) == ([], [], [])
