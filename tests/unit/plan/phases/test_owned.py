"""Files of a capability: wanted where the cluster file has them, taken back where the host still has some."""

from __future__ import annotations

import pytest
from support import prepared_input

from slurmfab.core.plan.phases.capability import owned
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles

FILE = OwnedFile("/etc/profile.d/modules.sh", "x\n")


@pytest.mark.parametrize(
    ("files", "there", "planned"),
    [
        ((FILE,), (), (OwnedFiles("modules", (FILE,)),)),
        ((FILE,), ("modules",), (OwnedFiles("modules", (FILE,)),)),
        ((), ("mail", "modules"), (OwnedFiles("modules", ()),)),
        ((), ("mail",), ()),
    ],
)
def test_files_are_planned_where_they_are_wanted_or_still_there(
    files: tuple[OwnedFile, ...], there: tuple[str, ...], planned: tuple[OwnedFiles, ...]
) -> None:
    wanted = prepared_input(owned=there)
    assert owned(wanted, "n1", "modules", files) == planned
