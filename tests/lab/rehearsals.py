"""Changes of a cluster that are rehearsed, most with a planted fault, some without one; see rehearsals.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("rehearsals.yml")
BASE = """\
nodes:
  - {hosts: n1, Gres: "gpu:a100:2"}
  - {hosts: n2, Feature: big}
partitions:
  - {PartitionName: main, Nodes: ALL, Default: "YES"}
  - {PartitionName: long, Nodes: n2}
  - {PartitionName: gpu, Nodes: n1}
database: ctl
qos:
  - {name: normal}
  - {name: fast, Priority: 10}
accounts:
  - {name: physics, QOS: "normal,fast"}
  - {name: maths, QOS: normal}
users:
  - {name: ann, uid: 4001, accounts: physics}
  - {name: bob, uid: 4002, accounts: "maths,physics"}
"""
"""What the cluster file of the real cluster has besides its hosts."""

LAST_WEEK = r"""
cd / && set -e
sub() { who=$1; shift; runuser -u "$who" -- sbatch --parsable --mem=50 --output=/dev/null "$@" --wrap 'exit 0'; }
sub ann --time=60 --array=1-3
sub ann --time=60 --qos=fast
sub ann --time=60 --partition=long
sub bob --time=120
sub bob --time=60 --partition=gpu --gres=gpu:1
sub bob --time=60 --partition=gpu --gres=gpu:a100:1
sub ann --time=60 --constraint=big
until [ -z "$(squeue --noheader)" ]; do sleep 0.1; done
for i in $(seq 300); do
    [ "$(sacct --noheader --allusers -X | grep --count COMPLETED)" -lt 9 ] || exit 0
    sleep 0.1
done
sacct --allusers -X >&2; exit 1
"""
"""A script of the controller: the jobs of last week."""

NAMES = ("name", "PartitionName", "hosts", "SwitchName")
"""Keys by which an entry of a list is known."""


@dataclass(frozen=True)
class Rehearsal:
    """A change that is rehearsed.

    Args:
        name: what the test calls it.
        fault: what is wrong with it, in a few words, for docs/rehearse.md; empty for a change without a fault.
        change: what becomes of the cluster file, as `merged` has it.
        files: what files beside the cluster file hold.
        command: what is rehearsed, without `--cluster`.
        wanted: words of the report that name the fault.
        instead: by suite whose Slurm does something else, words that are wanted there in place of these.
        code: the exit code of the rehearsal.
        suite: the one suite on which it is played, by test_rehearse_upgrade.py; empty for any, by test_rehearse.py.
        prepare: a script for the controller of the real cluster that plants the fault there, before a backup.
        mend: one that takes it away.
    """

    name: str
    fault: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = "deploy"
    wanted: tuple[str, ...] = ()
    instead: Mapping[str, Sequence[str]] = field(default_factory=dict)
    code: int = 1
    suite: str = ""
    prepare: str = ""
    mend: str = ""


def merged(base: Any, change: Any) -> Any:
    """A value of a cluster file with a change: mappings by key, entries of lists by name, `null` takes away."""
    if isinstance(base, dict) and isinstance(change, dict):
        found = {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}
        return {key: value for key, value in found.items() if value is not None}
    if isinstance(base, list) and isinstance(change, list) and all(isinstance(one, dict) for one in (*base, *change)):
        entries = {known_by(one): one for one in base}
        for one in change:
            entries[known_by(one)] = None if one.get("gone") else merged(entries.get(known_by(one), {}), one)
        return [one for one in entries.values() if one]
    return change


def known_by(entry: Mapping[str, Any]) -> str:
    """The name of an entry of a list."""
    return next(str(entry[key]) for key in NAMES if key in entry)


def rehearsal(row: Mapping[str, Any]) -> Rehearsal:
    """A rehearsal from its row in the file."""
    code = row.get("code", 1 if "fault" in row else 0)
    return Rehearsal(**{**row, "wanted": tuple(row.get("wanted", ())), "code": code})


REHEARSALS = tuple(map(rehearsal, yaml.safe_load(FILE.read_text())))
