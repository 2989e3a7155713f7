"""What takes a GPU out of work: its device is gone, its driver has seen a grave error, its memory waits for a reset.

Which errors are grave: NVIDIA's catalogue of Xids (docs.nvidia.com/deploy/xid-errors). Those count that ask for a reset
of the GPU or the host, or for its replacement. Those that a job's own program can cause do not (13, 31, 43, 45, 68 and
69), nor those after which it is enough to start the program again (94), nor mere records (63, 92).
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from typing import Any, Callable, Dict, Iterator, List, Sequence

from slurmfab.programs.health_probe import is_alive, started

GRAVE = {
    48: "an ECC error that could not be corrected",
    62: "its microcontroller halted",
    64: "a bad memory row could not be put out of use",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "an ECC error that could not be contained",
    119: "its firmware does not answer",
    120: "an error of its firmware",
    140: "an ECC error that it did not recover from",
    143: "it could not be initialized",
}
"""What the driver reports, by Xid."""

RECOVERY = 154
"""The Xid that says what it takes to recover, from what to what; `None` is nothing."""

XID = re.compile(rb"^\d+,\d+,(\d+),[^;]*;.*?NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+)(.*)", re.MULTILINE)
"""A record of the kernel's log in the form of /dev/kmsg (Documentation/ABI/testing/dev-kmsg of Linux)."""

KERNEL_LOG = "/dev/kmsg"
NVIDIA_SMI = "nvidia-smi"
SMI_EVERY = 3600
"""Seconds between two questions to nvidia-smi, which takes its time."""

SMI_SECONDS = 5.0
SMI_FAILURES = {
    9: "the driver is not loaded",
    10: "the kernel has trouble with a GPU's interrupts",
    15: "a GPU has fallen off the bus",
}
"""Its exit codes that tell of broken GPUs (nvidia-smi(1), RETURN VALUE)."""

ROWS = "gpu_bus_id,remapped_rows.pending,remapped_rows.failure"
PAGES = "gpu_bus_id,retired_pages.pending"
YES = ("1", "yes")

Causes = Dict[str, str]
Left = Callable[[float], float]
"""The seconds that are left for something that would like to have so many."""


def devices(files: Sequence[str]) -> Causes:
    """Device files that are not there any more."""
    return {"gpu " + path: "GPU %s is gone" % path for path in files if not is_device(path)}


def is_device(path: str) -> bool:
    """Whether this is a device."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def xids(memory: Dict[str, Any], path: str = KERNEL_LOG) -> Causes:
    """Grave errors since the boot, or since somebody had them forgotten.

    Args:
        memory: keeps what was found in `xids`, for the kernel forgets; `xids_after`: what was up to then (microseconds
            since the boot) does not count.
        path: where the kernel's log is read.
    """
    known: Dict[str, str] = memory.setdefault("xids", {})
    after = memory.get("xids_after", -1)
    for match in XID.finditer(records(path)):
        when, bus, code = int(match[1]), match[2].decode(), int(match[3])
        key, text = "xid %s %d" % (bus, code), GRAVE.get(code, "")
        if code == RECOVERY:
            text = "" if b"(None)" in match[4].rpartition(b" to ")[2] else "it needs a reset"
        if text and when > after:
            known[key] = "GPU %s: Xid %d, %s" % (bus, code, text)
        elif code == RECOVERY:
            known.pop(key, None)
    return dict(known)


def records(path: str) -> bytes:
    """Those records of the kernel's log that are the NVIDIA driver's, or a whole file in its place."""
    found: List[bytes] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        while True:
            try:
                record = os.read(descriptor, 65536)
            except BrokenPipeError:  # the kernel has thrown away the record that would have been next
                continue
            except OSError:
                break
            if not record:
                break
            if b"NVRM: " in record:
                found.append(record)
    finally:
        os.close(descriptor)
    return b"".join(found)


def latest(path: str = KERNEL_LOG) -> int:
    """When the last error was that the log has, in microseconds since the boot; -1 for none."""
    return max((int(match[1]) for match in XID.finditer(records(path))), default=-1)


def asked(memory: Dict[str, Any], now: float, left: Left, program: str = NVIDIA_SMI) -> Causes:
    """What nvidia-smi says, which is asked once in a while and may hang; a node is ill when it does so twice in a row.

    Args:
        memory: keeps in `smi` when it was asked and what it said, and a process that hangs.
        now: seconds since 1970.
        left: how much time there is.
        program: its name.
    """
    last: Dict[str, Any] = memory.get("smi", {})
    if last.get("stuck") and is_alive(*last["stuck"]):
        return {"smi": "nvidia-smi does not answer"}
    if last and not last.get("stuck") and 0 <= now - last["at"] < SMI_EVERY:
        return dict(last["causes"])
    fresh: Dict[str, Any] = {"at": int(now), "causes": {}}
    try:
        rows = answer([program, "--query-remapped-rows=" + ROWS, "--format=csv,noheader"], left(SMI_SECONDS))
        pages = [] if rows else answer([program, "--query-gpu=" + PAGES, "--format=csv,noheader"], left(SMI_SECONDS))
        fresh["causes"] = dict([*waiting_rows(rows), *waiting_pages(pages)])
    except FileNotFoundError:
        pass
    except Hangs as error:
        fresh["stuck"] = [error.pid, started(error.pid)]
        fresh["causes"] = {"smi": "nvidia-smi does not answer"} if last.get("stuck") else {}
    except Fails as error:
        fresh["causes"] = {"smi": "nvidia-smi: %s" % error}
    memory["smi"] = fresh
    return dict(fresh["causes"])


class Hangs(Exception):
    """A program that does not end."""

    def __init__(self, pid: int) -> None:
        super().__init__(str(pid))
        self.pid = pid


class Fails(Exception):
    """A program that says that GPUs are broken."""


def answer(argv: Sequence[str], seconds: float) -> List[List[str]]:
    """The lines of a table that a program prints, with commas between the columns; none where it does not know it.

    Raises:
        Hangs: it takes too long; it was killed, and may still be there.
        Fails: it says that GPUs are broken.
    """
    run = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        text, _ = run.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        run.kill()
        run.returncode = -9  # nobody waits for it: it may hang in the kernel
        raise Hangs(run.pid) from None
    if run.returncode in SMI_FAILURES:
        raise Fails(SMI_FAILURES[run.returncode])
    lines = text.decode(errors="replace").splitlines() if run.returncode == 0 else []
    return [[word.strip() for word in line.split(",")] for line in lines if "," in line and ":" in line]


def waiting_rows(rows: Sequence[Sequence[str]]) -> "Iterator[tuple[str, str]]":
    """GPUs with memory rows that wait to be replaced by spare ones, or that could not be."""
    for bus, pending, failure in (row for row in rows if len(row) == 3):  # noqa: PLR2004
        if failure.lower() in YES:
            yield "rows %s failed" % bus, "GPU %s: a bad memory row could not be replaced" % bus
        elif pending.lower() in YES:
            yield "rows %s" % bus, "GPU %s: a bad memory row waits for a reset" % bus


def waiting_pages(rows: Sequence[Sequence[str]]) -> "Iterator[tuple[str, str]]":
    """Older GPUs with memory pages that wait to be put out of use."""
    for bus, pending in (row for row in rows if len(row) == 2):  # noqa: PLR2004
        if pending.lower() in YES:
            yield "pages %s" % bus, "GPU %s: bad memory pages wait for a reset" % bus
