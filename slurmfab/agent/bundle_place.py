"""The place on a host where packages of a bundle lie until they are installed, as a package source for apt alone.

    /var/lib/slurmfab/bundle/BUNDLE/Packages          the bundle's index of all its packages
    /var/lib/slurmfab/bundle/BUNDLE/sources.list      names this directory, and nothing else
    /var/lib/slurmfab/bundle/BUNDLE/NAME.deb          those that this host lacks; NAME.deb.part while it is brought
    /var/lib/slurmfab/bundle/BUNDLE/lists, archives   apt's own, so that the host's package lists stay as they are

BUNDLE is the digest of the bundle's manifest, so that what an interrupted run has brought is gone on with, and what is
there of another bundle goes. The packages are installed by the host's own apt with the host's own dpkg status: what is
held, pinned or marked stays so.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

from slurmfab.agent import replace
from slurmfab.agent.reading import names
from slurmfab.agent.resource import Context, ResourceFailed

PLACE = "/var/lib/slurmfab/bundle"
INDEX = "Packages"
PART = ".part"

_BUNDLE = r"[0-9a-f]{64}"
_DEB = r"[a-z0-9][a-z0-9.+-]*_[A-Za-z0-9.+~%-]+_[a-z0-9-]+\.deb"


def place_of(bundle: str) -> str:
    """Where packages of a bundle lie.

    Args:
        bundle: the digest of its manifest.

    Raises:
        ResourceFailed: this is no such digest.
    """
    if not re.fullmatch(_BUNDLE, bundle):
        raise ResourceFailed("this is no digest of a bundle")
    return "%s/%s" % (PLACE, bundle)


def checked(name: str) -> str:
    """The name of a package's file, if it is one: `NAME_VERSION_ARCHITECTURE.deb`, as apt calls it in its cache.

    Raises:
        ResourceFailed: it is none.
    """
    if not re.fullmatch(_DEB, name):
        raise ResourceFailed("%r is no name of a package's file" % name[:80])
    return name


def begin(context: Context, bundle: str, index: str) -> str:
    """Make the place for a bundle's packages, and remove those of other bundles.

    Args:
        context: knows where.
        bundle: the digest of its manifest.
        index: the text of its Packages file.

    Returns:
        The place, below the context's root.
    """
    import shutil  # noqa: PLC0415 - slow to import, and seldom needed

    place = context.path(place_of(bundle))
    base = os.path.dirname(place)
    parent = os.path.dirname(base)
    os.makedirs(os.path.dirname(parent), exist_ok=True)
    for path in (parent, base, place):
        make_readable(path)
    # Where copies of replaced files were kept first, with a narrow umask.
    os.chmod(parent, 0o755)  # noqa: S103 - what lies in it has its own modes
    for name in names(base):
        if name != bundle:
            shutil.rmtree(os.path.join(base, name))
    make_folders(place)
    for name, text in ((INDEX, index), ("sources.list", "deb [trusted=yes] file:%s ./\n" % place)):
        replace.put(os.path.join(place, name), text.encode(), os.geteuid(), os.getegid(), 0o644)
    return place


def make_folders(place: str) -> None:
    """Make the directories of package lists and packages in which apt works."""
    for folder in ("lists", "lists/partial", "archives", "archives/partial"):
        make_readable(os.path.join(place, folder))


def make_readable(path: str) -> None:
    """Make a directory that all may look into, whatever the umask, for apt works as the user _apt.

    What lies there is on every mirror. One that is there already is left as it is.
    """
    if not os.path.isdir(path):
        os.mkdir(path)
        os.chmod(path, 0o755)  # noqa: S103 - see above


def options(context: Context, bundle: str) -> Tuple[str, ...]:
    """The options with which apt knows no packages but the installed ones and the bundle's (apt.conf(5)).

    apt compares every file with the digest in the index before dpkg sees it; the index itself came over SSH.
    """
    place = context.path(place_of(bundle))
    settings = {
        "Dir::Etc::sourcelist": place + "/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": place + "/lists",
        "Dir::Cache::archives": place + "/archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        # apt refuses everything if it knows no source of the release that is preferred.
        "APT::Default-Release": "",
    }
    return tuple(word for name, value in settings.items() for word in ("-o", "%s=%s" % (name, value)))


def remove(context: Context) -> None:
    """Remove all that was brought."""
    import shutil  # noqa: PLC0415 - see above

    shutil.rmtree(context.path(PLACE), ignore_errors=True)


def leftover(context: Context) -> Optional[str]:
    """In words, what an interrupted run has brought; `None` when there is nothing."""
    return "left by an interrupted run" if os.path.lexists(context.path(PLACE)) else None
