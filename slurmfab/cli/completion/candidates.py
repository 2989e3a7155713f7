"""The values that fit where the cursor is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slurmfab.cli.completion import takes
from slurmfab.cli.completion.cluster_values import ClusterValues
from slurmfab.cli.completion.command_line import Wanted
from slurmfab.cli.completion.takes import Table

WORDS, FILES, DIRECTORIES = "words", "files", "directories"
"""What a shell is told in the first line: take these words, or complete a path yourself."""

MOST_BYTES = 4 << 20
SSH_HOST = re.compile(r"(?im)^\s*Host\s*[ =]\s*(.+)$")
HOSTS_LIKE = (takes.HOSTS, takes.NODES, takes.OUT_OF_SERVICE, takes.NEW_HOSTS)  # what may be in a file as well


class Candidates(NamedTuple):
    """What a shell may offer."""

    kind: str = WORDS  # one of `WORDS`, `FILES`, `DIRECTORIES`
    # the words with their explanations, which may be empty; each is the whole word, prefix included. For a path it is
    # one word, its beginning.
    words: tuple[tuple[str, str], ...] = ()


def candidates(wanted: Wanted, table: Table) -> Candidates:
    """The values that fit. `wanted`: where the cursor is."""
    if wanted.takes is None:
        fitting = {flag: option.help for flag, option in wanted.options.items() if flag.startswith(wanted.word)}
        return Candidates(words=tuple(sorted(fitting.items())))
    if wanted.takes.what in (takes.FILE, takes.DIRECTORY):
        return Candidates(FILES if wanted.takes.what == takes.FILE else DIRECTORIES, ((wanted.word, ""),))
    if wanted.takes.what == takes.TASKS:
        return Candidates(words=tuple((name, one.help) for name, one in table.items() if name.startswith(wanted.word)))
    chosen, word = last_of_list(wanted.word) if wanted.takes.many else ("", wanted.word)
    if wanted.takes.what in HOSTS_LIKE and word.startswith("@"):
        return in_host_file(word, wanted.prefix + chosen)
    known = values(wanted.takes, ClusterValues(wanted.cluster), word)
    others = set(chosen.split(","))
    fitting_values = (name for name in known if name.startswith(word) and name not in others)
    return Candidates(words=tuple((f"{wanted.prefix}{chosen}{name}", "") for name in fitting_values))


def last_of_list(word: str) -> tuple[str, str]:
    """A list with commas, and its last entry; commas in brackets end none.

    >>> last_of_list("n[1,3],n4,n")
    ('n[1,3],n4,', 'n')
    """
    depth, after = 0, 0
    for place, character in enumerate(word):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            after = place + 1
    return word[:after], word[after:]


def values(wanted: takes.Takes, cluster: ClusterValues, word: str) -> Iterable[str]:
    """All values of a kind. `word`: the beginning of the value that is wanted."""
    if wanted.what == takes.CHOICES:
        return wanted.choices
    if wanted.what == takes.LABS:
        from slurmfab.lab.layout import LABS

        return sorted(path.name for path in LABS.glob("*/"))
    if wanted.what == takes.NEW_HOSTS or (wanted.what == takes.HOSTS and not cluster.is_there):
        return hosts_of_ssh_config(os.path.expanduser("~/.ssh/config"))  # noqa: PTH111 - no home is no error
    if wanted.what == takes.OUT_OF_SERVICE:
        return [name for name in cluster.drained if name.startswith(word)] or cluster.named(takes.NODES)
    if wanted.what == takes.RUNS:
        return ("last", *cluster.runs)
    return cluster.named(wanted.what)


def in_host_file(word: str, before: str) -> Candidates:
    """What fits behind `@`: a path, or the groups of that file."""
    path, has_group, group = word[1:].rpartition(":")
    if not has_group:
        return Candidates(FILES, ((group, ""),))
    return Candidates(words=tuple((f"{before}@{path}:{name}", "") for name in groups(path) if name.startswith(group)))


def groups(path: str) -> Iterable[str]:
    """The groups of a file with hosts; none where it cannot be read."""
    from slurmfab.base import bounded_file
    from slurmfab.base.errors import SlurmfabError
    from slurmfab.cluster.host_files import selection

    with suppress(OSError, RuntimeError, UnicodeDecodeError, SlurmfabError):
        text = bounded_file.read(Path(path).expanduser(), MOST_BYTES).decode()
        return sorted(selection.read(text, path).groups)
    return ()


def hosts_of_ssh_config(path: str) -> Iterable[str]:
    """The hosts that an ssh_config names; patterns are none."""
    from slurmfab.base import bounded_file
    from slurmfab.base.errors import SlurmfabError

    with suppress(OSError, UnicodeDecodeError, SlurmfabError):
        lines = SSH_HOST.findall(bounded_file.read(Path(path), MOST_BYTES).decode())
        return dict.fromkeys(name for line in lines for name in line.split() if not re.search(r"[*?!#\"]", name))
    return ()
