"""The suites on which tests on hosts are played."""

from __future__ import annotations

import os

from slurmfab.lab.ubuntu_like import LIKES

PACKAGES = os.environ.get("PACKAGES", "debian")
"""Whose packages of Slurm the hosts have that no test says it of: `debian`, or `smd`, the stand-in for SchedMD's."""

LIKE = os.environ.get("LIKE", "")
"""A release of Ubuntu that the hosts are look-alikes of, such as `ubuntu-24.04`; empty for none."""

DEFAULT = ("bookworm", "trixie") if PACKAGES == "debian" else ("trixie",)
if LIKE:
    DEFAULT = (LIKES[LIKE].suite,)
"""Slurm 22.05 and 24.11: without and with the ability of `scontrol reconfigure` to add nodes. SchedMD's packages begin
with 23.11."""

SUITES = tuple(os.environ.get("SUITES", "").replace(",", " ").split()) or DEFAULT
"""Those that the variable `SUITES` names, as in `SUITES=noble make test`, the oldest first; otherwise `DEFAULT`."""

OLDEST, NEWEST = SUITES[0], SUITES[-1]
"""For tests that need one suite, whichever."""

SHARES = 10
"""Into how many shares the lab files are divided that are played by turns; two turns have the same share, one on each
suite."""
