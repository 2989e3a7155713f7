"""The name under which the program was called, which every message uses that recommends a command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib

from source_trees import SOURCES, literals

from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks import namespace
from slurmfab.hosts.payload import payload

COMMAND = re.compile(rf"\b(?:slurm)?fab (?:{'|'.join(sorted(namespace.task_names, key=len, reverse=True))})\b(?!-)")
WRITTEN_TO_FILES = {
    "on_hosts/agent/mounts/mount_point.py": ["slurmfab logs"],  # a sentence, in which it logs in
    "core/engine/saved_plan.py": ["slurmfab plan"],  # the name of the format
    "cluster/inventory/backups.py": ["fab backup"],  # in the JSON schema
    "cluster/inventory/cluster.py": ["fab bundle"],  # the same
    "cluster/inventory/fabfile.py": ["slurmfab import"],  # the statement of Python
    "commands/init/asking.py": ["fab add-user"],  # in a new cluster file
    "cluster/inventory/edits/writing.py": ["fab plan", "fab deploy"],  # in the first lines of a new cluster file
    "commands/import_cluster/cluster_text.py": ["fab plan", "fab deploy"],  # the same of an imported one
    "on_hosts/programs/health/main.py": ["fab deploy"],  # runs on hosts, started by slurmd
}
"""Commands in texts that nobody reads from a program that was called `fab` or `slurmfab`, and a verb."""


def test_a_program_that_is_neither_says_fab() -> None:
    assert FAB == "fab"


def test_no_message_has_a_program_name_of_its_own() -> None:
    found = {
        name: commands
        for name in SOURCES
        if (commands := [one for text in literals(name) for one in COMMAND.findall(text)])
    }
    assert found == WRITTEN_TO_FILES


def sent_name(names: dict[str, str]) -> str:
    """The program's name as a host's agent would have it."""
    scope: dict[str, str] = {}
    exec(names["slurmfab.on_hosts.agent.core.program_name"], scope)
    return scope["FAB"]


def test_the_agent_on_a_host_knows_the_name_too() -> None:
    assert sent_name(json.loads(zlib.decompress(payload()))) == "fab"
    code = (
        "import sys; from slurmfab.base import program_name; program_name.FAB = 'slurmfab'; "
        "from slurmfab.hosts.payload import *; sys.stdout.buffer.write(payload())"
    )
    packed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert sent_name(json.loads(zlib.decompress(packed))) == "slurmfab"
