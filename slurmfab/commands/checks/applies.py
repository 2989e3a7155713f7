"""What a check raises where its sentence says nothing about this cluster or this host."""

from __future__ import annotations

from typing import Any

import pytest


class DoesNotApply(Exception):
    """The check has no result here: it has neither passed, nor is anything left that could be run.

    `pytest.skip` is for a check that could not be run although its sentence is about this host.
    """


class Unasked:
    """In place of a host, or of Slurm, that a check is not to ask: it has a name, and any question ends the check."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"{self.name} is not asked for {name}.")
