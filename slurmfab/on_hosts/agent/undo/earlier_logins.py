"""The files of PAM or the firewall that decide who may log in, as before a run, under the guard of such changes."""

from __future__ import annotations

from typing import Any, ClassVar, Iterator, List, Tuple

from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES, SSSD_CONF
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State, compare
from slurmfab.on_hosts.agent.files import firewall_rules, pam_modules
from slurmfab.on_hosts.agent.services import login_guard
from slurmfab.on_hosts.agent.undo.restored_file import Restored

CONTENT = ("content", "file")  # what a change of a file is named after its path alone


class EarlierLogins(Resource):
    """Files with the state that they had before a run, until another login has passed them; after that as they are."""

    kind: ClassVar[str] = "earlier-logins"
    main: str  # absolute path of the file with the lines that name the others
    files: Tuple[Tuple[str, str], ...]  # absolute path of each file, with the id of the run that stored its copy

    def name(self) -> str:
        """The file with the lines."""
        return self.main

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ."""
        return tuple(sorted({name.partition(" ")[0] for name in differing}))

    def wanted(self, context: Context) -> State:
        """Content and access of each file before its run; or no file."""
        return {name: value for name, value, _ in self.values(context)}

    def actual(self, context: Context) -> State:
        """The same as found."""
        return {name: value for name, _, value in self.values(context)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Put the files back so that no login in between finds a line without its file; take back what fails.

        Raises ResourceFailed if a copy or a module is missing, or systemd refuses the guard.
        """
        restored = self.in_order(context)
        for one in restored:
            absent = pam_modules.missing(context, str(one.wanted(context).get("content", "")))
            if absent:
                words = "%s of before needs %s, which is not installed any more; install its package, then try again"
                raise ResourceFailed(words % (one.path, ", ".join(absent)))
        paths = [path for path, _ in self.files]
        if FIREWALL_RULES in paths:
            context.must(["nft", "--version"])  # a rollback installs no packages
        login_guard.arm(context, paths, {FIREWALL_RULES: firewall_rules.NO_RULES})
        try:
            for one in restored:
                names = frozenset(change.name for change in compare(one, context))
                if names:
                    one.converge(context, names)
            if FIREWALL_RULES in paths:
                firewall_rules.put_in_effect(context)
            if SSSD_CONF in paths:
                context.run(["systemctl", "try-restart", "sssd"])
        except BaseException:
            login_guard.take_back(context)
            raise

    def values(self, context: Context) -> Iterator[Tuple[str, Any, Any]]:
        """The name, the wanted and the actual value of all that the files shall be."""
        for path, run in self.files:
            one = Restored(path, run)
            wanted, actual = one.wanted(context), one.actual(context)
            for name, value in wanted.items():
                yield path if name in CONTENT else "%s %s" % (path, name), value, actual.get(name)

    def in_order(self, context: Context) -> List[Restored]:
        """Files that the lines name, the lines, and what had not existed."""

        def turn(one: Restored) -> int:
            return 2 if not one.entry(context)["existed"] else int(one.path == self.main)

        return sorted((Restored(path, run) for path, run in self.files), key=turn)
