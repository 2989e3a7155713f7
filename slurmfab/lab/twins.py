"""Twins of clusters on this machine: one rehearsal of a cluster at a time, and none that was killed is forgotten.

Such a one leaves a private directory, and its twin. Whoever rehearses next, whatever the cluster, or looks at
this machine (`fab doctor`), removes both.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import labs, state

PLACES = Path("/var/lib/slurmfab-rehearsals")  # contains a directory for each rehearsal that goes on
NAME = re.compile("t[0-9a-f]{7}")  # names of twins, as labs


@contextmanager
def alone(name: str) -> Iterator[Path]:
    """A directory that root alone reads, for temporary files of the rehearsal whose twin has this name.

    It is removed at the end. Raises LabError if another rehearsal of the cluster goes on.
    """
    remove_forgotten()
    PLACES.mkdir(mode=0o700, exist_ok=True)
    PLACES.chmod(0o700)
    mine, before = PLACES / name, tempfile.tempdir
    with ExitStack() as held:
        try:
            held.enter_context(state.locked(mine, patience=0))
        except LabError as error:
            raise LabError(
                "Another rehearsal of this cluster is at work on this machine. Wait until it is done, or end it."
            ) from error
        is_left = True
        try:
            mine.chmod(0o700)
            tempfile.tempdir = str(mine)
            yield mine
            is_left = False
        finally:
            tempfile.tempdir = before
            shutil.rmtree(mine)
            if is_left and name in labs.names():
                mine.mkdir(mode=0o700)  # so that it is removed the next time


def remove_forgotten() -> tuple[str, ...]:
    """Remove what rehearsals have left that were killed, twins included, and return the names of these."""
    removed = []
    for mine in sorted(PLACES.iterdir()) if PLACES.is_dir() else ():
        with ExitStack() as held:
            try:
                held.enter_context(state.locked(mine, patience=0, make=False))
            except LabError:
                continue  # it goes on
            if NAME.fullmatch(mine.name):
                try:
                    labs.down(mine.name)
                except Exception:  # noqa: S112
                    continue  # whatever one twin does: it is tried again the next time, and others are removed
                removed.append(mine.name)
            shutil.rmtree(mine, ignore_errors=True)
    return tuple(removed)
