"""Where a host gets Slurm's packages from, if not from its distribution: an apt source with its key and pins.

    /etc/apt/sources.list.d/slurmfab-slurm.sources   the source (sources.list(5), deb822)
    /etc/apt/keyrings/slurmfab-slurm.asc             the key that signs it
    /etc/apt/preferences.d/slurmfab-slurm            pins (apt_preferences(5))
    /var/lib/slurmfab/slurm-source.json              what the source says of its release

The pins name the release as the source's own Release file does, so the lists of this source alone are fetched before.
Everything from there has the priority of backports: it is installed if it is asked for, or if something needs it that
the other sources do not have. Slurm of another version than the wanted one is never offered to `apt upgrade`.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar, List, Tuple

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.packages import apt_sources
from slurmfab.on_hosts.agent.packages.slurm_release import ONLY, RECORD, SOURCES, Release, refresh_lists, releases

OF = "slurm-source"
KEY = "/etc/apt/keyrings/slurmfab-slurm.asc"
PREFERENCES = "/etc/apt/preferences.d/slurmfab-slurm"
RELEASE = "the release of the source"  # the name in a state for what the record says

PRIORITY, NEVER = 100, -1
"""Of everything from there, as of backports; and of Slurm in other versions than the wanted one."""


class SlurmSource(Resource):
    """The apt source of Slurm's packages; without values, its removal."""

    kind: ClassVar[str] = "slurm-source"
    deadline: ClassVar[float] = 1800.0
    UNSHOWN = ("key",)
    suite: str = ""  # another suite of the mirrors that the host uses already; empty for a repository
    uris: Tuple[str, ...] = ()
    suites: Tuple[str, ...] = ()
    components: Tuple[str, ...] = ()
    key: str = ""  # the OpenPGP key that signs it, as text
    version: str = ""  # the wanted version of Slurm, or with a `*` behind the beginning of one
    names: Tuple[str, ...] = ()  # patterns of the names of Slurm's own packages

    def name(self) -> str:
        """The suite, or the addresses."""
        return self.suite or " ".join(self.uris) or "none"

    def is_there_already(self, context: Context) -> bool:
        """Whether the host's own sources have the suite, so that it needs no other entry."""
        return bool(self.suite) and any(self.suite in one.suites for one in apt_sources.entries(context))

    def text(self, context: Context) -> str:
        """The text of the source's file, or empty; ResourceFailed if the host has no source of its own release."""
        if self.suite:
            if self.suite == apt_sources.own_codename(context):
                raise ResourceFailed(
                    "slurm.source.suite is %s, the release that this host runs; leave slurm.source out of the cluster "
                    "file, or name another suite, such as %s-backports" % (self.suite, self.suite)
                )
            own = apt_sources.of_own_release(context)
            return apt_sources.stanza(own._replace(suites=(self.suite,)))
        if not self.uris:
            return ""
        return apt_sources.stanza(apt_sources.Source(self.uris, self.suites, self.components, signed_by=KEY))

    def digest(self, context: Context) -> str:
        """The digest of the source and its key, by which a record belongs to them."""
        return hashlib.sha256((self.text(context) + self.key).encode()).hexdigest()

    def files(self, context: Context) -> OwnedFiles:
        """The wanted files; the pins only if it is known what the source says of its release."""
        text = self.text(context)
        if not text:
            return OwnedFiles(OF, ())
        files = [] if self.is_there_already(context) else [OwnedFile(SOURCES, text)]
        if self.key:
            files.append(OwnedFile(KEY, self.key))
        found = releases(context, self.digest(context))
        if found is not None:
            files.append(OwnedFile(PREFERENCES, self.pins(found)))
        return OwnedFiles(OF, tuple(files))

    def pins(self, found: List[Release]) -> str:
        """The text of the file of preferences."""
        pins = dict.fromkeys(one.pin for one in found if one.pin) or {'origin "%s"' % self.site: None}
        stanzas = []
        if self.version and self.names:
            wanted = self.version if self.version.endswith("*") else self.version + "*"
            stanzas.append((" ".join(self.names), "version " + wanted, PRIORITY))
            stanzas += [(" ".join(self.names), pin, NEVER) for pin in pins]
        stanzas += [("*", pin, PRIORITY) for pin in pins]
        text = "\n".join("Package: %s\nPin: %s\nPin-Priority: %d\n" % one for one in stanzas)
        return "# Made by slurmfab for the key slurm of the cluster file.\n" + text

    @property
    def site(self) -> str:
        """The server of the repository; empty for a directory."""
        address = self.uris[0] if self.uris else ""
        return address.split("/")[2].split(":")[0] if "://" in address else ""

    def wanted(self, context: Context) -> State:
        """The files, and a record of what the source says of its release."""
        text = self.text(context)
        return {**self.files(context).wanted(context), RELEASE: self.digest(context) if text else None}

    def actual(self, context: Context) -> State:
        """The same as found."""
        return {**self.files(context).actual(context), RELEASE: host_records.read(context, RECORD).get("of")}

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ, and the records."""
        files = OwnedFiles(OF, ()).touches(differing - {RELEASE})
        return (*files, *((RECORD, PREFERENCES) if RELEASE in differing else ()))

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write source, key and pins, lists fetched between, or take all back; ResourceFailed if unsigned."""
        every = frozenset((SOURCES, KEY, PREFERENCES, *differing))
        if not self.text(context):
            self.take_back(context, every)
            return
        files = self.files(context)
        files.converge(context, every)
        if RELEASE not in differing:
            return
        try:
            host_records.write(context, RECORD, {"of": self.digest(context), "releases": self.fetched(context)})
        except ResourceFailed:
            self.take_back(context, every)
            raise
        self.files(context).converge(context, every)

    def take_back(self, context: Context, every: frozenset[str]) -> None:
        """Remove the files and the record; what was there before comes back."""
        OwnedFiles(OF, ()).converge(context, every)
        host_records.write(context, RECORD, {})

    def fetched(self, context: Context) -> List[Release]:
        """Fetch the source's lists; its releases, ResourceFailed if it fails, or another source has them."""
        from slurmfab.on_hosts.agent.packages import apt_errors

        is_there_already = self.is_there_already(context)
        output = refresh_lists(context, () if is_there_already else ONLY)
        if output:
            raise ResourceFailed("the source of Slurm's packages: " + apt_errors.explain_source(output))
        found = apt_sources.releases(context)
        if is_there_already:
            own = [release for _, suite, release in found if suite == self.suite]
        else:
            own = [release for entry, _, release in found if entry.startswith(SOURCES + ":")]
        others = {release for entry, suite, release in found if suite != self.suite and not entry.startswith(SOURCES)}
        if not own or others.intersection(own):
            raise ResourceFailed(
                "the source of Slurm's packages is one that this host has already in another file of apt's, or it has "
                "no packages for this architecture; leave slurm.source out of the cluster file, or name another one"
            )
        return [Release(*one) for one in dict.fromkeys(own)]
