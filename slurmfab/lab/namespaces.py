"""Numbers of kernel namespaces: a workaround that lab hosts need since Linux 6.18."""

from __future__ import annotations

import ctypes
import os
from threading import Thread

BATCH = 4096
"""How many namespace numbers a CPU reserves at once (Linux 6.18, kernel/nstree.c and linux/cookie.h)."""

CLONE_NEWUTS = 0x04000000
"""Flag for a new UTS namespace, the cheapest kind (linux/sched.h)."""


def outnumber() -> None:
    """Use up namespace numbers until new namespaces get higher numbers than all existing ones.

    A process can bind-mount a mount namespace only if its number is higher than that of the process's own mount
    namespace (fs/namespace.c, mnt_ns_loop). Slurm does this for jobs' private directories. Since Linux 6.18 each CPU
    assigns numbers from its own batch, so a namespace made on one CPU can have a lower number than that of a host
    started on another CPU. Real machines use the first namespace and do not have this problem.
    """
    threads = [Thread(target=_use_up, args=(processor,)) for processor in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _use_up(processor: int) -> None:
    """Make a CPU reserve its next batch; the calling thread is in another UTS namespace afterwards."""
    os.sched_setaffinity(0, {processor})
    unshare = ctypes.CDLL(None).unshare
    for _ in range(BATCH + 1):
        unshare(CLONE_NEWUTS)
