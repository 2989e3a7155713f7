"""Which versions apt would install of Slurm's packages here, from this host's sources or from another one.

apt works with lists and a cache of its own, in a directory that is removed at the end, so nothing changes on the host:
its lists are linked, those of the other source are fetched beside them, and an installation is only simulated. New
packages with plugins are fetched to see which plugins they have, and not unpacked.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages import apt_errors, apt_sources, bundle_place, dpkg_status, slurm_release
from slurmfab.on_hosts.agent.packages.apt import LISTS, MINIMAL, apt_get, lists_are_fresh
from slurmfab.on_hosts.agent.packages.bundle_making import temporary_directory
from slurmfab.on_hosts.agent.packages.slurm_release import fits
from slurmfab.on_hosts.agent.slurm.package_source import PREFERENCES, SlurmSource
from slurmfab.on_hosts.agent.upgrade.reading import INFO, packages

OWN = "slurmfab-upgrade"
REMOVED = re.compile(r"^Remv (\S+) ", re.M)
PLUGIN = r"/(?:%s)/([a-z][a-z0-9_]*)\.so$"  # a plugin in a list of files, below the directory of plugins

SECONDS = 600.0


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Which versions of Slurm's installed packages apt would install.

    `request`: `manager`: of packages. `names`: of Slurm's packages. `plugins`: patterns of their directories of
    plugins. `version`: the wanted one, or with a `*` behind its beginning; empty for the newest. `suite`: another suite
    of the host's own mirrors; or `stanza` and `key`: a source in apt's format without its key, and that key; all
    missing for the host's own sources. Returns `versions`: the new version of each of Slurm's packages that would
    change, by name. `others`: likewise, of the packages that would come along. `removed`: packages that would go.
    `offered`: all versions of the main package that the source has, newest first. `plugins`: names of the plugins in
    the new packages. `trouble`: why apt would install nothing.
    """
    if request.get("manager") == "dnf":
        from slurmfab.on_hosts.agent.dnf import dnf_offer

        return dnf_offer.read(request, context)
    own = sorted(packages(dpkg_status.read(context.root), request["names"]))
    answer: Dict[str, Any] = {"versions": {}, "others": {}, "removed": [], "offered": [], "plugins": [], "trouble": ""}
    if not own:
        return {**answer, "trouble": "none of Slurm's packages is installed here"}
    with temporary_directory(context) as place:
        try:
            options, source = prepare(context, place, request)
            found = slurm_release.offered(context, own, options, source)
            answer["offered"] = list(dict.fromkeys(version for versions in found.values() for version in versions))[:20]
            chosen = choose(found, request.get("version", ""))
            if not chosen:
                return answer
            answer.update(simulated(context, options, source, chosen))
            plugin = PLUGIN % "|".join(re.escape(os.path.basename(one)) for one in request["plugins"])
            with_plugins = [one for one in answer["versions"] if one in chosen and has_plugins(context, one, plugin)]
            folder = os.path.join(place, "archives")
            fetch(context, options, ["%s=%s" % (name, chosen[name]) for name in with_plugins], folder)
            answer["plugins"] = plugins_in(context, folder, with_plugins, plugin)
        except ResourceFailed as error:
            answer["trouble"] = str(error)
    return answer


def prepare(
    context: Context, place: str, request: Mapping[str, Any]
) -> Tuple[Tuple[str, ...], Optional[apt_sources.Source]]:
    """Fetch the lists of the wanted source; apt's options for it together with the host's own sources, and the source.

    The source gets the priority that it will have, so that apt takes nothing else from there than it would. `place`:
    the directory for all that apt writes. Raises ResourceFailed if the source cannot be fetched, or there is no mirror
    whose suite it could be.
    """
    bundle_place.make_folders(place)
    link(context, LISTS, os.path.join(place, "lists"), ("lock",))
    state = settings(place)
    text = stanza(context, place, request)
    if not text:
        if not lists_are_fresh(context, time.time()):
            update(context, state)
        return state, None
    source = next(apt_sources.of_stanza(text))
    alone, together, pins = (os.path.join(place, name) for name in ("alone", "together", "pins"))
    for directory in (alone, together, pins):
        os.mkdir(directory, 0o755)
    for directory in (alone, together):
        write(os.path.join(directory, OWN + ".sources"), text)
    # The source that slurmfab has put there may be the same one; apt refuses one source with two keys.
    link(context, apt_sources.PARTS, together, (apt_sources.OWN,))
    only = (*state, "-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + alone)
    update(context, (*only, "-o", "APT::Get::List-Cleanup=0"))
    found = [slurm_release.Release(*release) for _, _, release in apt_sources.releases(context, only)]
    link(context, os.path.dirname(PREFERENCES), pins, (os.path.basename(PREFERENCES),))
    write(os.path.join(pins, OWN), SlurmSource(uris=source.uris).pins(found))
    return (*state, "-o", "Dir::Etc::sourceparts=" + together, "-o", "Dir::Etc::preferencesparts=" + pins), source


def link(context: Context, folder: str, place: str, without: Sequence[str]) -> None:
    """Link all files of a directory of apt's in another one, but for some."""
    for name in names(context.path(folder)):
        path = os.path.join(context.path(folder), name)
        if name not in without and os.path.isfile(path):
            os.symlink(path, os.path.join(place, name))


def write(path: str, text: str) -> None:
    """Write a file that apt reads."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def settings(place: str) -> Tuple[str, ...]:
    """Options with which apt writes only into a directory, and knows what the host has installed (apt.conf(5))."""
    values = ["Dir::State::lists=%s/lists" % place, "Dir::Cache::archives=%s/archives" % place]
    values += ["Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", "Debug::NoLocking=1"]
    return tuple(word for value in values for word in ("-o", value))


def update(context: Context, options: Sequence[str]) -> None:
    """Fetch package lists. Raises ResourceFailed if a source does not answer, or is not trusted."""
    code, output = apt_get(context, [*options, "update"])
    if code != 0 or "\nErr:" in output:
        raise ResourceFailed(apt_errors.explain(output))


def stanza(context: Context, place: str, request: Mapping[str, Any]) -> str:
    """The wanted source as deb822 (sources.list(5)), or empty; ResourceFailed without a fitting mirror."""
    if request.get("stanza"):
        key = os.path.join(place, "key.asc")
        with open(key, "w", encoding="utf-8") as file:
            file.write(request["key"])
        return "%s\nSigned-By: %s\n" % (request["stanza"].strip(), key)
    if not request.get("suite"):
        return ""
    own = apt_sources.first_of_own_release(context)
    if own is None:
        raise ResourceFailed("no source of apt's here has the host's own suite, so %s is unknown" % request["suite"])
    return apt_sources.deb822(own._replace(suites=(request["suite"],), trusted="", architectures=""))


def choose(found: Mapping[str, Sequence[str]], wanted: str) -> Dict[str, str]:
    """The newest of each package's versions, newest first, that is wanted: any, exact, or `26.05*`."""
    fitting = {
        name: [one for one in versions if fits(one.rpartition(":")[2], wanted)] for name, versions in found.items()
    }
    return {name: versions[0] for name, versions in fitting.items() if versions}


def simulated(
    context: Context, options: Sequence[str], source: Optional[apt_sources.Source], chosen: Mapping[str, str]
) -> Dict[str, Any]:
    """What apt would do to install the chosen versions, or what it would have to remove; see `prepare`.

    Raises ResourceFailed if apt would not install them.
    """
    flags, wanted = ("--allow-change-held-packages",), ["%s=%s" % pair for pair in chosen.items()]
    words, code, output = slurm_release.solved(context, wanted, options, flags, source)
    if code != 0 and apt_errors.REMOVALS.search(output):
        code, output = apt_get(context, [*options, *flags, MINIMAL[0], "--simulate", "install", "--", *words])
    if code != 0:
        raise ResourceFailed(apt_errors.explain(output))
    return outcome(output, [*chosen])


def outcome(output: str, own: Sequence[str]) -> Dict[str, Any]:
    """The new versions of Slurm's and of other packages, and the packages that would go, as apt-get told them."""
    new = slurm_release.changes_in(output)
    return {
        "versions": {name: version for name, version in new.items() if name in own},
        "others": {name: version for name, version in new.items() if name not in own},
        "removed": REMOVED.findall(output),
    }


def has_plugins(context: Context, name: str, plugin: str) -> bool:
    """Whether an installed package has plugins."""
    for file in names(context.path(INFO)):
        if file.endswith(".list") and file[: -len(".list")].partition(":")[0] == name:
            return bool(re.search(plugin, read_text(context.path("%s/%s" % (INFO, file))), re.M))
    return False


def fetch(context: Context, options: Sequence[str], wanted: Sequence[str], folder: str) -> None:
    """Fetch packages (`NAME=VERSION`) into a directory; ResourceFailed if they cannot be fetched."""
    if wanted:
        argv = ["sh", "-c", 'cd "$0" && exec apt-get "$@"', folder, "-q", *options, "download", "--", *wanted]
        done = context.run(argv, seconds=SECONDS)
        if done.returncode != 0:
            raise ResourceFailed(apt_errors.explain((done.stdout + b"\n" + done.stderr).decode(errors="replace")))


def plugins_in(context: Context, folder: str, wanted: Sequence[str], plugin: str) -> List[str]:
    """Names of the plugins in fetched packages. `folder`: where the packages are."""
    found: Set[str] = set()
    for file in names(folder):
        if file.partition("_")[0] in wanted and file.endswith(".deb"):
            shown = context.must(["dpkg-deb", "--contents", os.path.join(folder, file)], seconds=SECONDS)
            found.update(one for one in re.findall(plugin, shown, re.M) if not one.startswith("lib"))
    return sorted(found)
