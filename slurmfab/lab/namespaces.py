"""Numbers of namespaces, as far as lab hosts depend on them."""

from __future__ import annotations

import ctypes
import os
from threading import Thread

BATCH = 4096
"""How many numbers each processor of the kernel takes at once (Linux 6.18, kernel/nstree.c and linux/cookie.h)."""

CLONE_NEWUTS = 0x04000000
"""The cheapest kind of namespace (linux/sched.h)."""


def outnumber() -> None:
    """See to it that namespaces made from now on have higher numbers than all those that there are.

    A process can keep another mount namespace by a bind mount only if that has a higher number than its own
    (fs/namespace.c, mnt_ns_loop); Slurm does so for private directories of jobs. Since Linux 6.18 each processor gives
    out numbers from batches of its own, so that on some processors namespaces begin below that of a host which was
    started on another one. A real machine is in the first namespace of all, and knows no such thing.
    """
    threads = [Thread(target=_use_up, args=(processor,)) for processor in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _use_up(processor: int) -> None:
    """Make a processor take its next batch; the thread that calls this is in namespaces of its own afterwards."""
    os.sched_setaffinity(0, {processor})
    unshare = ctypes.CDLL(None).unshare
    for _ in range(BATCH + 1):
        unshare(CLONE_NEWUTS)
