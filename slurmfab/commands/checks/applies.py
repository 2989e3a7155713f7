"""What a check raises where its sentence says nothing about this cluster or this host."""

from __future__ import annotations


class DoesNotApply(Exception):
    """The check has no result here: it has neither passed, nor is anything left that could be run.

    `pytest.skip` is for a check that could not be run although its sentence is about this host.
    """
