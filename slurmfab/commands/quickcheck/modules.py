"""Check of environment modules: a user's job loads one."""

from __future__ import annotations

import shlex

import pytest

from slurmfab.base.program_name import FAB
from slurmfab.commands.quickcheck.bench import Bench

LOAD = """
for directory in {directories}; do
    for name in $(MODULEPATH=$directory module --terse avail 2>&1 | grep -v -e ':$' -e '/$' | head -n 1); do
        name=${{name%%(*}}
        module load "$name" && module --terse list 2>&1 | grep -q -F -- "$name" && echo "loaded=$name" && exit
        echo "failed=$name"
        exit
    done
done
echo empty
"""
"""Loads the first module of the directories, and prints what became of it; for a login shell of bash."""


def modules(bench: Bench, node: str) -> str:
    """Load a module in a job, by a batch script as users write it."""
    wanted = bench.cluster.modules
    if wanted is None or not wanted.path:
        pytest.skip(f"the cluster file has no {'modules.path' if wanted else 'modules'}.")
    directories = " ".join(map(shlex.quote, wanted.path))
    printed = bench.run((node,), f"exec bash -lc {shlex.quote(LOAD.format(directories=directories))}")
    words = dict(line.partition("=")[::2] for line in printed.splitlines() if "=" in line)
    if "empty" in printed.splitlines():
        pytest.skip(f"there are no modules in {', '.join(wanted.path)}.")
    assert "loaded" in words, (
        f"the module {words.get('failed', '')} was not loaded: {(printed.strip().splitlines() or ['no output'])[0]}. "
        f"Repair: {FAB} check-cluster --only modules --hosts {node}"
    )
    return f"a job loaded the module {words['loaded']} ({wanted.system})"
