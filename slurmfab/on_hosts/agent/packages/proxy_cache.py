"""Files of package sources, each fetched once and read by many while it arrives.

They lie in files without a name, which the kernel takes away with the process: nothing is left, however it ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from typing import Dict, Iterator

from slurmfab.on_hosts.agent.packages.proxy_upstream import Upstream

PLACE = "/var/tmp"  # noqa: S108 - on the disk, for whoever the process is; files there get no name
PIECE = 256 * 1024
PARALLEL = 8  # how many files are fetched at the same time

MOST_BYTES = 4 << 30
"""The most bytes that are kept; then those that came first are fetched again if somebody asks for them."""

LEAST_FREE = 512 << 20  # bytes that stay free on the disk
PATIENCE = 120.0  # seconds without a further byte after which readers give up
OK = 200


class Entry:
    """A file of a source, as far as it is there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.changed = threading.Condition()
        self.status = 0  # of the source's answer; 0 until it has come
        self.size = -1  # in bytes; -1 until it is known
        self.modified = ""  # when the source changed it, as the source says it
        self.written = 0
        self.is_done = False
        self.error = ""
        self.file = tempfile.TemporaryFile(dir=PLACE, buffering=0)  # noqa: SIM115 - readers and the fetcher share it

    def note(self, **values: object) -> None:
        """Change attributes, and wake those who wait."""
        with self.changed:
            vars(self).update(values)
            self.changed.notify_all()

    def add(self, data: bytes) -> None:
        """Store further bytes; OSError of the disk."""
        view = memoryview(data)
        while view:
            view = view[self.file.write(view) or 0 :]
        self.note(written=self.written + len(data))

    def wait(self, offset: int) -> int:
        """Wait until there is more than `offset`, or no more comes; how much is there. OSError if it fails."""
        with self.changed:
            woken = self.changed.wait_for(lambda: self.written > offset or self.is_done or self.error, PATIENCE)
            if self.error or not woken:
                raise OSError(self.error or "no data for %.0f s" % PATIENCE)
            return self.written

    def head(self) -> None:
        """Wait until status and size are known; OSError if the source does not answer."""
        with self.changed:
            woken = self.changed.wait_for(
                lambda: self.error or self.is_done or (self.status and (self.size >= 0 or self.status != OK)), PATIENCE
            )
            if self.error or not woken:
                raise OSError(self.error or "no answer within %.0f s" % PATIENCE)

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes as they arrive; OSError if they end too early."""
        offset = 0
        while offset < self.size or not self.is_done:
            there = self.wait(offset)
            if there == offset:
                return
            while offset < there:
                data = os.pread(self.file.fileno(), min(PIECE, there - offset), offset)
                offset += len(data)
                yield data


class Cache:
    """The files that were asked for, by address."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.entries: Dict[str, Entry] = {}
        self.lock = threading.Lock()
        self.slots = threading.Semaphore(PARALLEL)
        self.fetched = 0
        self.fetched_bytes = 0

    def entry(self, url: str) -> Entry:
        """The file at an address, whose fetching begins unless it has before."""
        with self.lock:
            found = self.entries.get(url)
            if found is None or found.error or found.status not in (0, OK):
                found = self.entries[url] = Entry(url)
                threading.Thread(target=self.fetch, args=(found,), daemon=True).start()
            return found

    def fetch(self, entry: Entry) -> None:
        """Fetch a file; an error is told to its readers."""
        with self.slots:
            try:
                self.store(entry)
            except Exception as error:  # whatever it is, readers would wait for it in vain
                entry.note(error=str(error) or type(error).__name__)

    def store(self, entry: Entry) -> None:
        """Ask the source, and store what it sends."""
        connection, reply = self.upstream.get(entry.url)
        try:
            size = -1 if reply.length is None else reply.length
            if reply.status != OK:
                entry.note(status=reply.status, is_done=True)
                return
            self.make_room(max(size, 0))
            entry.note(status=OK, size=size, modified=reply.getheader("Last-Modified", ""))
            while True:
                data = reply.read1(PIECE)
                if not data:
                    break
                if size < 0:
                    self.make_room(len(data))
                entry.add(data)
            if 0 <= size != entry.written:
                raise OSError("it ended after %d of %d bytes" % (entry.written, size))
            entry.note(size=entry.written, is_done=True)
            with self.lock:
                self.fetched, self.fetched_bytes = self.fetched + 1, self.fetched_bytes + entry.written
            self.upstream.keep(entry.url, connection, reply)
        finally:
            if not entry.is_done or entry.status != OK:
                connection.close()

    def make_room(self, size: int) -> None:
        """Forget what came first until there is room; OSError if there is none. Readers read on what is forgotten."""
        with self.lock:
            done = [one for one in self.entries.values() if one.is_done]
            kept = sum(max(one.size, one.written) for one in self.entries.values())
            free = os.statvfs(PLACE)
            room = min(MOST_BYTES - kept, free.f_bavail * free.f_frsize - LEAST_FREE)
            while room < size and done:
                gone = done.pop(0)
                del self.entries[gone.url]
                room += gone.written
            if room < size:
                raise OSError(errno.ENOSPC, "no room in %s for %d bytes" % (PLACE, size))
