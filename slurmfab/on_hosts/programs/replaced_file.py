"""Files of the programs that are replaced in one step: a reader, or a crash, sees the old content or the new one."""

from __future__ import annotations

import os


def write(path: str, text: str) -> None:
    """Write a file, surrogates too, in one step, by a single run; OSError, with the old one unchanged."""
    fresh = path + ".new"
    with open(fresh, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, path)
