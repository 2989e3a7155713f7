"""Whether systemd has loaded the drop-ins of units; a masked unit has none."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.services.service import show
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

PLACES = {unit: f"/etc/systemd/system/{unit}.d/10-slurmfab.conf" for unit in ("munge.service", "slurmd.service")}


class Systemd(Context):
    """A host whose systemd has loaded the drop-ins of some units, and of which it knows some as masked."""

    def __init__(self, loaded: Sequence[str], masked: Sequence[str], *, dry_run: bool = False) -> None:
        super().__init__(dry_run=dry_run)
        self.loaded, self.masked, self.asked = loaded, masked, 0

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked += 1
        text = "\n\n".join(
            f"Id={unit}\nLoadState={'masked' if unit in self.masked else 'loaded'}\n"
            f"NeedDaemonReload={'yes' if unit in self.masked else 'no'}\n"
            f"DropInPaths={PLACES[unit] if unit in self.loaded else ''}"
            for unit in argv
            if "." in unit
        )
        return subprocess.CompletedProcess(argv, 0, text.encode(), b"")


@pytest.mark.parametrize(
    ("loaded", "masked", "found"),
    [
        ((*PLACES,), (), "as on disk"),
        (("slurmd.service",), (), "older"),
        (("slurmd.service",), ("munge.service",), "as on disk"),
        (("munge.service",), ("munge.service",), "older"),
    ],
)
def test_drop_ins_are_wanted_of_units_that_are_not_masked(
    loaded: Sequence[str], masked: Sequence[str], found: str
) -> None:
    wanted = UnitsLoaded("restarts", (*PLACES,), (*PLACES.values(),))
    assert wanted.actual(Systemd(loaded, masked))["loaded"] == found


def test_daemons_and_their_drop_ins_when_compared_then_systemd_is_asked_once() -> None:
    host = Systemd((*PLACES,), (), dry_run=True)
    host.units = ("munge", "slurmd")
    assert [show(host, unit)["LoadState"] for unit in host.units] == ["loaded", "loaded"]
    assert UnitsLoaded("restarts", (*PLACES,), (*PLACES.values(),)).actual(host)["loaded"] == "as on disk"
    assert host.asked == 1
