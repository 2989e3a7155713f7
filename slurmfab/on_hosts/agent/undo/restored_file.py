"""Files, links, directories and logins with the state that they had before a run, from this host's undo store."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, Iterator, List, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES, SSSD_CONF
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State, compare
from slurmfab.on_hosts.agent.core.safe_paths import open_folder
from slurmfab.on_hosts.agent.files import firewall_rules, pam_modules
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, gid_of, uid_of
from slurmfab.on_hosts.agent.services import login_guard
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.undo_store import entries


class Restored(Resource):
    """A file with the content, owner, group and mode that it had before a run; or no file where there was none.

    A link of root's, as to a directory that the hosts share, is made again; what it leads to is as it is.

    The copy never leaves the host, so no secret travels.
    """

    kind: ClassVar[str] = "restored"
    named_by: ClassVar[str] = "path"
    file_in: ClassVar[str] = "path"
    path: str  # absolute path
    run: str  # id of the run that stored the copy
    # Whether no report may show the content; a copy marked as secret, or a private file, is not shown either.
    secret: bool = False

    def secrets(self) -> frozenset[str]:
        """The content, if it is a secret."""
        return frozenset({"content"} if self.secret else ())

    def removes(self, context: Context) -> Tuple[str, ...]:
        """The file, where there was none before the run."""
        return () if self.entry(context)["existed"] else (self.path,)

    def wanted(self, context: Context) -> State:
        """Content, owner, group and mode before the run; or no file."""
        entry = self.entry(context)
        if not entry["existed"]:
            return {"file": None}
        if "link" in entry:
            return {"link": entry["link"]}
        content = self.content(context, entry)
        shown = "as kept" if self.is_hidden(context, entry) else content.decode("utf-8", "surrogateescape")
        return {"content": shown, "owner": entry["owner"], "group": entry["group"], "mode": entry["mode"]}

    def actual(self, context: Context) -> State:
        """The same of the present file. Raises ResourceFailed if something that is not a regular file has this path."""
        entry, path = self.entry(context), context.path(self.path)
        target = replace.link_target(path)
        found = None if target else replace.find(path)
        if target:
            return {"file": "a link to %s" % target, "link": target}
        if found is None:
            return {"file": None}
        status, content = found
        shown = content.decode("utf-8", "surrogateescape")
        if entry["existed"] and self.is_hidden(context, entry):
            shown = "as kept" if content == self.content(context, entry) else "another"
        return {
            "file": "present",
            "content": shown,
            **access_of(context, status, entry.get("owner", ""), entry.get("group", "")),
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Replace the file by the copy, set access, or remove it; ResourceFailed if copy or owner is missing."""
        entry, path = self.entry(context), context.path(self.path)
        if not entry["existed"]:
            replace.unlink(path)
            return
        if "link" in entry:
            replace.put_link(path, entry["link"])
            return
        uid, gid, mode = number(context, entry["owner"], uid_of), number(context, entry["group"], gid_of), entry["mode"]
        if "content" in differing:
            replace.put(path, self.content(context, entry), uid, gid, int(mode, 8), make=True)
        else:
            replace.change_access(path, uid, gid, int(mode, 8))

    def entry(self, context: Context) -> undo_store.Entry:
        """The file's entry in the run's manifest; ResourceFailed if there is none, or it was no regular file."""
        found = next((one for one in undo_store.entries(context, self.run) if one.get("path") == self.path), None)
        if found is None:
            raise ResourceFailed("this host has no copy of %s from before the run %s" % (self.path, self.run))
        if found.get("other"):
            sentence = "before the run %s, %s was %s, which slurmfab does not restore; restore it by hand"
            raise ResourceFailed(sentence % (self.run, self.path, found["other"]))
        return found

    def content(self, context: Context, entry: undo_store.Entry) -> bytes:
        """The content before the run. Raises ResourceFailed if the copy is missing."""
        content = undo_store.content_of(context, self.run, entry)
        if content is None:
            raise ResourceFailed("the copy of %s from the run %s is missing" % (self.path, self.run))
        return content

    def is_hidden(self, context: Context, entry: undo_store.Entry) -> bool:
        """Whether the old or the present content is private though the file is not declared a secret."""
        path = context.path(self.path)
        status = None if replace.link_target(path) else replace.regular(path)
        is_private = bool(entry["secret"]) or (status is not None and undo_store.is_private(status))
        return is_private and not self.secret


def number(context: Context, account: str, find: Callable[[Context, str], int]) -> int:
    """The UID or GID for an owner or group of an entry, which is a number if it had no name."""
    return int(account) if account.isdecimal() else find(context, account)


class EarlierDirectory(Resource):
    """A directory with the owner, group and mode that it had before a run; one that is gone stays away."""

    kind: ClassVar[str] = "earlier-directory"
    named_by: ClassVar[str] = "path"
    path: str  # absolute path
    owner: str  # a name, or a number that had none; so is `group`
    group: str
    mode: int

    def folders(self) -> Tuple[str, ...]:
        """The directory itself."""
        return (self.path,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Owner, group and mode before the run."""
        return {"owner": self.owner, "group": self.group, "mode": "%04o" % self.mode}

    def actual(self, context: Context) -> State:
        """The same as found. Raises ResourceFailed if the way there leads through a link of another user."""
        try:
            with open_folder(context.path(self.path)) as folder:
                return access_of(context, folder.status, self.owner, self.group)
        except (FileNotFoundError, NotADirectoryError):
            return self.wanted(context)

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Give it back; ResourceFailed without the owner or group."""
        uid, gid = number(context, self.owner, uid_of), number(context, self.group, gid_of)
        with open_folder(context.path(self.path)) as folder:
            folder.set_access(uid, gid, self.mode)


BEFORE = "as before this run"


class EarlierFiles(Resource):
    """Those of these files that a run has changed on this host, with the state that they had before the run."""

    kind: ClassVar[str] = "earlier-files"
    named_by: ClassVar[str] = "run"
    paths: Tuple[str, ...]  # absolute paths, in the order in which they are put back
    run: str
    secret: bool = False  # whether the files may hold secrets; the copies never leave the host in any case

    def wanted(self, context: Context) -> State:
        """Each file that the run has changed, as before."""
        return dict.fromkeys(self.restored(context), BEFORE)

    def actual(self, context: Context) -> State:
        """Whether each of them is as before the run, or changed."""
        restored = self.restored(context)
        return {path: "changed" if compare(one, context) else BEFORE for path, one in restored.items()}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put back each file that differs; ResourceFailed if a copy is missing, OSError if it cannot be written."""
        for path, one in self.restored(context).items():
            if path in differing:
                one.converge(context, frozenset(change.name for change in compare(one, context)))

    def restored(self, context: Context) -> Dict[str, Restored]:
        """How each file that the run has changed is put back, by path."""
        changed = {entry.get("path") for entry in entries(context, self.run)}
        return {path: Restored(path, self.run, secret=self.secret) for path in self.paths if path in changed}


CONTENT = ("content", "file")  # what a change of a file is named after its path alone


class EarlierLogins(Resource):
    """Files with the state that they had before a run, until another login has passed them; after that as they are."""

    kind: ClassVar[str] = "earlier-logins"
    named_by: ClassVar[str] = "main"
    main: str  # absolute path of the file with the lines that name the others
    files: Tuple[Tuple[str, str], ...]  # absolute path of each file, with the id of the run that stored its copy

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
