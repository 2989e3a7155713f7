"""What is sent to hosts, compressed, and kept beside the compiled modules.

To compress it anew would be a tenth of a run with nothing to change. What is kept is used only if it is that data.
"""

from __future__ import annotations

import sys
import zlib
from contextlib import suppress
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path

from slurmfab.on_hosts.agent.core import replace

LEVEL = 6  # level of zlib compression: a higher one takes twice as long and saves 1% of the size
READABLE_BY_ALL = 0o644
MOST = 32  # files that are kept; each set of modules has one


def compressed(data: bytes) -> bytes:
    """Data as zlib compresses it, from an earlier run if there was one."""
    place = Path(cache_from_source(str(Path(__file__).with_name(f"sent-{sha256(data).hexdigest()[:32]}.py"))))
    with suppress(OSError, zlib.error):
        packed, unpacking = place.read_bytes(), zlib.decompressobj()
        if unpacking.decompress(packed, len(data) + 1) == data and unpacking.eof and not unpacking.unused_data:
            return packed
    packed = zlib.compress(data, LEVEL)
    if not sys.dont_write_bytecode:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            replace.exchange(str(place), packed, mode=READABLE_BY_ALL)
            remove_oldest(place.parent)
    return packed


def remove_oldest(directory: Path) -> None:
    """Remove the files that were kept first, if there are too many. Raises OSError."""
    kept = sorted(directory.glob("sent-*"), key=lambda one: one.stat().st_mtime)
    for old in kept[:-MOST]:
        old.unlink()
