"""Files of the programs that are replaced in one step: a reader, or a crash, sees the old content or the new one."""

from __future__ import annotations

import os


def write(path: str, text: str) -> None:
    """Write a file whose directory exists. Only one run of a program writes it at a time.

    `text`: the whole content; surrogates, as from names that are no UTF-8, are written out. Raises OSError if the disk
    is full, for example; the old file is unchanged.
    """
    fresh = path + ".new"
    with open(fresh, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, path)
