"""Modes of all files and directories that any plan makes: others write nowhere, and secrets are not theirs to read."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import cluster, facts_of, plan_input, prepared

from slurmfab.cluster.facts import Gpu
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.core.resource import Resource

EXAMPLES = sorted((Path(__file__).parents[3] / "configs").glob("*.yaml"))
MODES = {0o644, 0o755, 0o600, 0o700, 0o400, 0o440, 0o640, 0o750, 0o711, 0o1777}


def moded(resource: Resource) -> Iterator[tuple[str, int, bool]]:
    """Path, mode, and whether it is a secret, of each file and directory of a resource."""
    for one in (resource, *(getattr(resource, "files", ()) if resource.kind == "owned-files" else ())):
        if hasattr(one, "mode"):
            yield one.path, one.mode, bool(getattr(one, "secret", False))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_modes_of_a_plan_are_those_that_files_and_directories_usually_have(example: Path) -> None:
    wanted = cluster(re.sub(r"(?m)^ids:.*\n(?: .*\n)*", "", example.read_text()))
    facts = facts_of(wanted, prepared, gpus=(Gpu("/dev/nvidia0", "a100"),))
    there = dataclasses.replace(plan_input(wanted, facts), power_password="x", mail_password="x")
    plan = make_plan(there, tuple(wanted.hosts))
    found = {one for host in plan.hosts for _, resource in plan.of_host(host) for one in moded(resource)}
    assert found
    assert {(path, oct(mode)) for path, mode, _ in found if mode not in MODES} == set()
    assert {(path, oct(mode)) for path, mode, is_secret in found if is_secret and mode & 0o027} == set()
