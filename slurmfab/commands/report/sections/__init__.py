"""The sections of a page, each a module with a pure function `section(sources) -> Section | None`."""

from __future__ import annotations

from collections.abc import Callable

from slurmfab.commands.report.section import Section, Sources
from slurmfab.commands.report.sections import (
    accounts,
    changes,
    checks,
    drift,
    drills,
    gpu_checks,
    hardware,
    nodes,
    picture,
    runs,
    usage,
)

SECTIONS: tuple[Callable[[Sources], Section | None], ...] = (
    picture.section,
    nodes.section,
    hardware.section,
    checks.section,
    drift.section,
    gpu_checks.section,
    drills.section,
    usage.section,
    accounts.section,
    runs.section,
    changes.section,
)
"""All sections in the order of the page, below its head. Add new ones here.

One returns `None` where the page was not made for what it shows (`NOT_ASKED`), and a section with a note where
something is missing.
"""
