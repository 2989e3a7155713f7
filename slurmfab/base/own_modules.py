"""Modules of a site: each is judged when it is imported, wherever below a directory Python finds it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType

from slurmfab.base.foreign import Trusted, why_not_own
from slurmfab.base.own_directory import own_directory

KINDS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)
"""What Python imports from files, in its order."""


class ForeignModule(ImportError):
    """A module that others could have written."""


def judge(directory: Path, trusted: Trusted) -> None:
    """Have Python import from a directory, and from those below it, only modules that nobody else could write.

    Directories on Python's path stay as they are, such as those of a virtual environment below. Importing another
    module raises ForeignModule.
    """
    top = directory.absolute()
    others = [Path(entry) for entry in sys.path if entry and top in Path(entry).parents]

    def finder(entry: str) -> FileFinder:
        place = Path(entry)
        if not place.is_dir() or not is_within(place, [top]) or is_within(place, others):
            raise ImportError  # another finder's
        return _Judging(entry, trusted)

    sys.path_hooks.insert(0, finder)
    for entry in [one for one in sys.path_importer_cache if is_within(Path(one), [top])]:
        del sys.path_importer_cache[entry]


def is_within(place: Path, directories: Iterable[Path]) -> bool:
    """Whether a directory is one of these, or below one."""
    return any(one in (place, *place.parents) for one in directories)


class _Judging(FileFinder):
    """Finds modules in one directory, and refuses those that others could have written."""

    def __init__(self, path: str, trusted: Trusted) -> None:
        super().__init__(path, *KINDS)
        self.trusted = trusted

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        found = super().find_spec(fullname, target)
        for place in (found.origin, found.cached) if found else ():
            if place and (why := why_not_own(Path(place), self.trusted)):
                text = f"{place} is not loaded: {why}, and what is in it would run as you."
                raise ForeignModule(text, name=fullname, path=place)
        return found


@contextmanager
def compiled_anew() -> Iterator[None]:
    """While in this context, Python compiles modules from their sources, and those compiled before are not loaded.

    What is judged is the source, and a `.pyc` beside it may be of somebody else.
    """
    before = sys.pycache_prefix, sys.dont_write_bytecode
    with own_directory("compiled") as empty:
        sys.pycache_prefix, sys.dont_write_bytecode = str(empty), True
        try:
            yield
        finally:
            sys.pycache_prefix, sys.dont_write_bytecode = before
