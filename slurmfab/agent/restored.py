"""A file as it was before a run, from the copy that this host has kept."""

from __future__ import annotations

import os
from typing import Callable, ClassVar, Tuple

from slurmfab.agent import kept, replace
from slurmfab.agent.accounts import gid_of, group_name, uid_of, user_name
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State


class Restored(Resource):
    """A file with the content, owner and mode that a run found, or none where it found none.

    The copy never leaves the host, so a secret does not travel.

    Args:
        path: absolute.
        run: the id of the run that has kept it.
        secret: whether no report may show the content; what was kept as a secret, or is private now, counts as one too.
    """

    kind: ClassVar[str] = "restored"
    path: str
    run: str
    secret: bool = False

    def name(self) -> str:
        """The path."""
        return self.path

    def secrets(self) -> frozenset[str]:
        """The content, if it is one."""
        return frozenset({"content"} if self.secret else ())

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The file."""
        return (self.path,)

    def wanted(self, context: Context) -> State:
        """Content, owner, group and mode as they were; or no file."""
        entry = self.entry(context)
        if not entry["existed"]:
            return {"file": None}
        content = self.content(context, entry)
        shown = "as kept" if self.is_hidden(context, entry) else content.decode("utf-8", "surrogateescape")
        return {"content": shown, "owner": entry["owner"], "group": entry["group"], "mode": entry["mode"]}

    def actual(self, context: Context) -> State:
        """The same of the file that is there."""
        entry, path = self.entry(context), context.path(self.path)
        content, status = replace.read(path), replace.regular(path)
        if content is None or status is None:
            return {"file": None}
        shown = content.decode("utf-8", "surrogateescape")
        if entry["existed"] and self.is_hidden(context, entry):
            shown = "as kept" if content == self.content(context, entry) else "another"
        return {
            "file": "present",
            "content": shown,
            "owner": user_name(context, status.st_uid, entry.get("owner", "")),
            "group": group_name(context, status.st_gid, entry.get("group", "")),
            "mode": "%04o" % (status.st_mode & 0o7777),
        }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put the copy in the file's place in one step, set who may use it, or remove it."""
        entry, path = self.entry(context), context.path(self.path)
        if not entry["existed"]:
            os.unlink(path)
            return
        uid, gid, mode = number(context, entry["owner"], uid_of), number(context, entry["group"], gid_of), entry["mode"]
        if "content" in differing:
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            replace.put(path, self.content(context, entry), uid, gid, int(mode, 8))
        else:
            replace.change_access(path, uid, gid, int(mode, 8))

    def entry(self, context: Context) -> kept.Entry:
        """What the run has noted of the file.

        Raises:
            ResourceFailed: nothing, or it was no file.
        """
        found = next((one for one in kept.entries(context, self.run) if one.get("path") == self.path), None)
        if found is None:
            raise ResourceFailed("nothing is kept here of %s as it was before the run %s" % (self.path, self.run))
        if found.get("other"):
            words = "before the run %s, %s was %s, which is not brought back; do that by hand"
            raise ResourceFailed(words % (self.run, self.path, found["other"]))
        return found

    def content(self, context: Context, entry: kept.Entry) -> bytes:
        """The content as it was.

        Raises:
            ResourceFailed: the copy is gone.
        """
        content = kept.content_of(context, self.run, entry)
        if content is None:
            raise ResourceFailed("the copy of %s from the run %s is not there any more" % (self.path, self.run))
        return content

    def is_hidden(self, context: Context, entry: kept.Entry) -> bool:
        """Whether the content that was, or the one that is, is private, and nobody has called it a secret."""
        status = replace.regular(context.path(self.path))
        is_private = bool(entry["secret"]) or (status is not None and kept.is_private(status))
        return is_private and not self.secret


def number(context: Context, account: str, find: Callable[[Context, str], int]) -> int:
    """The number of a user or group; one that had no name was kept as its number."""
    return int(account) if account.isdigit() else find(context, account)
