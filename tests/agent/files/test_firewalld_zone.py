"""The zone of firewalld: its file and what firewalld has of it, as firewall-cmd tells; a reload loses nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, apply
from slurmfab.on_hosts.agent.files import firewalld_zone
from slurmfab.on_hosts.agent.files.firewalld_zone import OF, PATH, FirewalldZone
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile

ALL = "public (default, active)\n  target: default\n  interfaces: eth0\n  ports: {}\n\ntrusted\n  target: ACCEPT\n"


class Host(Context):
    """A scratch root with a firewalld that knows sources of one zone, as the real one prints them."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.zone: list[str] | None = None  # what it lets in; `None` for no such zone
        self.in_file: list[str] = []  # what the zone has after a reload
        self.ports, self.called = "", list[str]()

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        word, value = argv[-1].partition("=")[::2]
        code, text = 0, ""
        if word == "--info-zone":
            code = 0 if self.zone is not None else 112
            text = f"slurmfab\n  target: ACCEPT\n  sources: {' '.join(self.zone or ())}\n"
        elif word == "--list-all-zones":
            shown = ALL.format("" if "--permanent" in argv else self.ports)
            text = shown.replace(" (default, active)", "").replace("eth0", "") if "--permanent" in argv else shown
        else:
            self.called.append(argv[-1])
        if word == "--reload":
            self.zone = self.in_file
        elif word == "--add-source" and self.zone is not None:
            self.zone.append(value)
        elif word == "--remove-source" and self.zone is not None:
            self.zone.remove(value)
        return subprocess.CompletedProcess(argv, code, text.encode(), b"")


def zone(*sources: str) -> FirewalldZone:
    return FirewalldZone(OF, (OwnedFile(PATH, " ".join(sources)),), sources)


def test_a_zone_when_new_then_firewalld_loads_it_and_later_addresses_come_and_go_without_that(root: Path) -> None:
    host = Host(str(root))
    host.in_file = ["10.0.0.1"]
    assert apply(zone("10.0.0.1"), host).status == CHANGED
    assert host.called == ["--check-config", "--reload"]
    assert apply(zone("10.0.0.1"), host).status == OK
    host.called.clear()
    assert apply(zone("10.0.0.2"), host).status == CHANGED
    assert host.called == ["--remove-source=10.0.0.1", "--add-source=10.0.0.2"]
    assert apply(FirewalldZone(OF, ()), host).status == CHANGED
    assert (host.zone, Path(host.path(PATH)).exists()) == ([], False)


def test_settings_that_are_not_permanent_when_a_zone_is_new_then_nothing_is_changed(root: Path) -> None:
    host = Host(str(root))
    host.ports = "9999/tcp"
    outcome = apply(zone("10.0.0.1"), host)
    assert (outcome.status, outcome.message) == (FAILED, firewalld_zone.UNSAVED)
    assert (host.called, Path(host.path(PATH)).exists()) == ([], False)
