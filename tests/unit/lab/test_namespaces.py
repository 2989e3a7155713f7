"""Numbers of namespaces: to have them used up changes nothing for whoever asks for it."""

from __future__ import annotations

import os
from pathlib import Path

from slurmfab.lab import power


def test_outnumber_when_called_then_this_thread_stays_where_it_was():
    before = os.sched_getaffinity(0), Path("/proc/thread-self/ns/uts").readlink()
    power.outnumber()
    assert (os.sched_getaffinity(0), Path("/proc/thread-self/ns/uts").readlink()) == before
