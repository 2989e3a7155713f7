"""Check of jobs' directories on their nodes' disks: one is there for the job, and gone after it."""

from __future__ import annotations

import re

import pytest

from slurmfab.base.errors import HostError
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.opener import opened
from slurmfab.commands.quickcheck.bench import Bench

USED = (
    'echo text > "${name}/file" && grep -qx text "${name}/file" && '
    'echo "directory=${name} mode=$(stat -c %a "${name}")"'
)
"""Writes into the directory, and tells which it is."""

GONE = "for try in $(seq 100); do test -e {directory} || exit 0; sleep 0.1; done; exit 1"
"""Waits for the end of the epilog, which runs after srun has ended."""


def chosen(bench: Bench, nodes: tuple[str, ...]) -> str:
    """A node with room for a job whose jobs have directories; raises as `Work`."""
    wanted = bench.cluster.scratch
    there = tuple(node for node in nodes if wanted and wanted.of_node(node))
    if not there:
        pytest.skip(f"the cluster file has no scratch{' for these nodes' if wanted else ''}.")
    return bench.free(there)[0]


def scratch(bench: Bench, node: str) -> str:
    """Write into the directory of a job, and see that it is removed."""
    wanted = bench.cluster.scratch
    assert wanted is not None, "chosen has found a node"
    printed = bench.run((node,), USED.replace("name", wanted.variable), options=("--gres=scratch:1",))
    found = re.search(r"^directory=(\S+) mode=(\d+)$", printed, re.MULTILINE)
    log = f"Repair: see journalctl -t slurmfab-scratch on {node}; {FAB} deploy --hosts {node}"
    assert found, f"the job could not write into ${wanted.variable}. {log}"
    directory, mode = found.groups()
    assert re.fullmatch(rf"{re.escape(wanted.path)}/\d+", directory), (
        f"the job found {directory} in ${wanted.variable}, which is not below {wanted.path}. {log}"
    )
    assert mode == "700", f"{directory} has mode {mode}, so other users can enter it. {log}"
    try:
        with opened(bench.opener, bench.known, node) as host:
            is_gone = host.run(GONE.format(directory=directory)).rc == 0
    except HostError:
        return f"a job wrote into {directory}; whether that is gone is not known, as {node} does not answer"
    assert is_gone, f"{directory} is still there after its job. {log}"
    return f"a job wrote into {directory}, which is gone after it"
