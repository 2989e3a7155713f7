"""The directory on a host that holds packages of a bundle until they are installed; apt uses it as a package source.

    /var/lib/slurmfab/bundle/BUNDLE/Packages          the bundle's index of all its packages
    /var/lib/slurmfab/bundle/BUNDLE/sources.list      names this directory, and nothing else
    /var/lib/slurmfab/bundle/BUNDLE/NAME.deb          packages that this host lacks; NAME.deb.part while it is copied
    /var/lib/slurmfab/bundle/BUNDLE/lists, archives   apt's lists and cache; those of the host stay unchanged

With dnf, the index is `repodata`, and `dnf_bundle` says what else is there.

With `packages: {through: controller}`, what the controller's apt has fetched (`lent_files`):

    /var/lib/slurmfab/bundle/LISTS/KEY.gz, KEY        lists, and packages; LISTS is the digest of all lists
    /var/lib/slurmfab/bundle/LISTS/method             gives them to the host's apt

Packages in files of the site's own lie there, too, in a directory that root alone can read:

    /var/lib/slurmfab/bundle/FILES/NAME.deb           FILES is the digest of their names and digests; or NAME.rpm

BUNDLE is the digest of the bundle's manifest: files that an interrupted run copied from the same bundle are kept, and
files of other bundles are removed. The packages are installed by the host's own apt with the host's dpkg status, so
that holds, pins and marks stay in effect.
"""

from __future__ import annotations

import os
import re
from typing import Iterable, List, Optional, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

PLACE = "/var/lib/slurmfab/bundle"
INDEX = "Packages"
PART = ".part"

_BUNDLE = r"[0-9a-f]{64}"
_LENT = _BUNDLE + r"(\.gz)?"
_FILE = r"[a-z0-9][a-z0-9.+-]*_[A-Za-z0-9.+~%-]+_[a-z0-9-]+\.deb|[A-Za-z0-9_][A-Za-z0-9._+~^-]*\.[a-z0-9_]+\.rpm"


def place_of(bundle: str) -> str:
    """The directory of a bundle's packages by its digest; ResourceFailed if that is not 64 hexadecimal digits."""
    if not re.fullmatch(_BUNDLE, bundle):
        raise ResourceFailed("this is not a digest of a bundle")
    return "%s/%s" % (PLACE, bundle)


def checked(name: str) -> str:
    """The name, if it is `NAME_VERSION_ARCHITECTURE.deb` or `NAME-VERSION.ARCHITECTURE.rpm`, else ResourceFailed."""
    if not re.fullmatch(_FILE, name):
        raise ResourceFailed("%r is not the name of a package's file" % name[:80])
    return name


def lent(name: str) -> str:
    """The name, if it is that of a file of `lent_files`, else ResourceFailed."""
    if not re.fullmatch(_LENT, name):
        raise ResourceFailed("%r is not the name of a file from the controller" % name[:80])
    return name


def checked_or_lent(name: str) -> str:
    """The name of a file of either kind, else ResourceFailed."""
    return name if re.fullmatch(_LENT, name) else checked(name)


def begin(context: Context, bundle: str, index: str) -> str:
    """Make the directory for a bundle's packages alone; its path, ResourceFailed if it is no digest, OSError."""
    place = make_alone(context, bundle)
    make_readable(place)
    make_folders(place)
    for name, text in ((INDEX, index), ("sources.list", "deb [trusted=yes] file:%s ./\n" % place)):
        replace.put(os.path.join(place, name), text.encode(), os.geteuid(), os.getegid(), 0o644)
    return place


def make_beside(context: Context, bundle: str) -> str:
    """Make a directory of files from the controller, without others of its kind, beside packages in files."""
    import shutil  # slow to import, and seldom needed

    place = make_way(context, bundle)
    for name in names(os.path.dirname(place)):
        path = os.path.join(os.path.dirname(place), name)
        if name != bundle and os.path.lexists(path + "/method"):
            shutil.rmtree(path)
    make_readable(place)
    return place


def make_alone(context: Context, bundle: str) -> str:
    """Make the way to a directory of packages, without others of its kind; ResourceFailed if no digest."""
    import shutil  # slow to import, and seldom needed

    place = make_way(context, bundle)
    for name in names(os.path.dirname(place)):
        if name != bundle:
            shutil.rmtree(os.path.join(os.path.dirname(place), name))
    return place


def make_way(context: Context, bundle: str) -> str:
    """Make the directories above one of packages, whose path is returned; ResourceFailed if no digest."""
    place = context.path(place_of(bundle))
    base = os.path.dirname(place)
    parent = os.path.dirname(base)
    os.makedirs(os.path.dirname(parent), exist_ok=True)
    for path in (parent, base):
        make_readable(path)
    # The undo store is below this directory too, and may have made it with a restrictive umask.
    os.chmod(parent, 0o755)  # noqa: S103 - the directories in it have their own modes
    return place


def digest_of(files: Iterable[Tuple[str, str]]) -> str:
    """The digest that names the directory of packages in files. `files`: name and SHA-256 of each."""
    import hashlib  # slow to import, and seldom needed

    text = "".join("%s %s\n" % (checked(name), sha256) for name, sha256 in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()


def as_files(context: Context, files: Iterable[Tuple[str, str, str]], texts: List[str]) -> List[str]:
    """Packages for apt-get or dnf, those that were sent here in files (package, file, SHA-256) by their paths."""
    known = {package: name for package, name, _ in files}
    if not known:
        return texts
    place = context.path(place_of(digest_of((name, sha256) for _, name, sha256 in files)))
    return [
        "%s/%s" % (place, known[name]) if name in known else text
        for text, name in ((text, text.partition("=")[0]) for text in texts)
    ]


def make_folders(place: str) -> None:
    """Make the directories of package lists and packages in which apt works."""
    for folder in ("lists", "lists/partial", "archives", "archives/partial"):
        make_readable(os.path.join(place, folder))


def make_readable(path: str) -> None:
    """Make a public directory, whatever the umask, as apt's user _apt reads it; an existing one stays."""
    if not os.path.isdir(path):
        os.mkdir(path)
        os.chmod(path, 0o755)  # noqa: S103 - see above


def options(context: Context, bundle: str) -> Tuple[str, ...]:
    """The options that restrict apt to installed packages and the bundle's, whose digests it compares."""
    place = context.path(place_of(bundle))
    settings = {
        "Dir::Etc::sourcelist": place + "/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": place + "/lists",
        "Dir::Cache::archives": place + "/archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        # With a default release that no source has, apt refuses to work.
        "APT::Default-Release": "",
    }
    return tuple(word for name, value in settings.items() for word in ("-o", "%s=%s" % (name, value)))


def remove(context: Context) -> None:
    """Remove all bundles from this host."""
    import shutil

    shutil.rmtree(context.path(PLACE), ignore_errors=True)


def leftover(context: Context) -> Optional[str]:
    """A remark that an interrupted run left packages of a bundle here; `None` when there are none."""
    return "left by an interrupted run" if os.path.lexists(context.path(PLACE)) else None
