"""The versions of Slurm's programs, as they tell them themselves (`slurmd -V`).

The names and versions of packages tell less: a site builds its own, or has Slurm without any package. As each question
is a process, the answers are remembered below /run by the programs' inodes, sizes and times, until one is replaced.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterable, List

from slurmfab.on_hosts.agent.compiled import DIRECTORY, Compiled
from slurmfab.on_hosts.agent.core.language import is_roots_alone

REMEMBERED, EXAMPLE = "slurm-versions.json", "slurm-versions.conf"
ANY_CONF = b"ClusterName=any\nSlurmctldHost=localhost\n"
"""A slurm.conf for Slurm's commands, which tell no version without one, nor with one that has a mistake."""

ANSWER = re.compile(r"\b\d\d\.\d\d\.\d+[\w.+~-]{0,64}", re.ASCII)
SECONDS = 20.0  # time limit of a program, which only prints a line


def read(root: str, programs: Iterable[str]) -> Dict[str, str]:
    """The versions that programs tell, by name; the first path of a name that tells one counts."""
    marks = {path: mark(root + path) for path in programs}
    cache = Compiled(root + DIRECTORY)
    known = remembered(cache)
    there = {path: known[path] for path, one in marks.items() if one and known.get(path, [])[:1] == [one]}
    asked = [path for path, one in marks.items() if one and path not in there]
    if asked:
        cache.write(EXAMPLE, ANY_CONF)
        there.update({path: [marks[path], version] for path, version in ask(root, asked).items()})
        cache.write(REMEMBERED, json.dumps(there).encode())
    found: Dict[str, str] = {}
    for path in marks:
        if path in there:
            found.setdefault(os.path.basename(path), there[path][1])
    return found


def mark(path: str) -> str:
    """What changes when a program is replaced; empty for none, or if users put it there. Links are followed."""
    if path.startswith("/usr/local/") and not is_roots_alone(os.path.dirname(path)):
        return ""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return "%d:%d:%d:%d" % (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def remembered(cache: Compiled) -> Dict[str, List[str]]:
    """Mark and version by path, from earlier answers; empty for none."""
    try:
        known: Any = json.loads(cache.read(REMEMBERED))
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def ask(root: str, paths: Iterable[str]) -> Dict[str, str]:
    """The version that each program tells, all asked at once; without those that tell none."""
    import subprocess  # not every request needs it

    running, found = {}, {}
    null, environment = subprocess.DEVNULL, {**os.environ, "SLURM_CONF": "%s/%s" % (root + DIRECTORY, EXAMPLE)}
    for path in paths:
        argv = [root + path, "-V"]
        try:
            running[path] = subprocess.Popen(argv, stdin=null, stdout=subprocess.PIPE, stderr=null, env=environment)
        except OSError:
            continue
    for path, process in running.items():
        try:
            told = ANSWER.search(process.communicate(timeout=SECONDS)[0].decode(errors="replace"))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            continue
        if told and process.returncode == 0:
            found[path] = told[0]
    return found
