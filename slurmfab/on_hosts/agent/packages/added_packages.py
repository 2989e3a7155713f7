"""The record of the packages that slurmfab has installed on a host, so that only these are removed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, FrozenSet, Iterable

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import ADDED_PACKAGES

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.core.resource import Context


def read(context: Context) -> FrozenSet[str]:
    """The names in the record; none where there is no record."""
    return frozenset((replace.read(context.path(ADDED_PACKAGES)) or b"").decode(errors="replace").split())


def note(context: Context, names: Iterable[str]) -> None:
    """Add packages that are about to be installed."""
    write(context, read(context) | frozenset(names))


def forget(context: Context, names: Iterable[str]) -> None:
    """Drop packages that are removed, or that are somebody else's from now on."""
    write(context, read(context) - frozenset(names))


def write(context: Context, names: FrozenSet[str]) -> None:
    """Write the record if it says something else; without names there is none."""
    path = context.path(ADDED_PACKAGES)
    if names == read(context):
        return
    if not names:
        replace.unlink(path)
        return
    replace.put(path, "".join("%s\n" % one for one in sorted(names)).encode(), 0, 0, 0o644, make=True)
