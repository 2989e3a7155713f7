"""A file with a given content, and a file that has to be absent."""

from __future__ import annotations

import binascii
import os
import stat
from typing import Any, ClassVar

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_parent
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, gid_of, uid_of

OTHER_NAMES = "a file with other names (hard links) in a directory that other users can change"
"""The content that reports show for such a file, which may be anybody's; it is replaced as a whole."""


class File(Resource):
    """A regular file with this content, owner, group and mode; its directory has to exist."""

    kind: ClassVar[str] = "file"
    named_by: ClassVar[str] = "path"
    file_in: ClassVar[str] = "path"
    UNSHOWN = ("content",)
    path: str  # absolute path
    content: Any  # the whole content, as text or in base64
    owner: str = "root"
    group: str = "root"
    mode: int = 0o644
    secret: bool = False  # whether no report, log or error may show the content
    encoding: str = "text"  # what `content` is: `text` (written as UTF-8) or `base64`

    def secrets(self) -> frozenset[str]:
        """The content, if it is a secret."""
        return frozenset({"content"} if self.secret else ())

    def data(self) -> bytes:
        """The wanted content as bytes."""
        if self.encoding == "base64":
            return binascii.a2b_base64(self.content)
        return str(self.content).encode("utf-8", "surrogateescape")

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Content, owner, group and mode; for a secret also that no interrupted run left a copy beside the file."""
        content = self.data().decode("utf-8", "surrogateescape")
        access = {"owner": self.owner, "group": self.group, "mode": "%04o" % self.mode}
        return {"content": content, **access, **({"leftovers": None} if self.secret else {})}

    def actual(self, context: Context) -> State:
        """The same of the file on the host, empty without one; ResourceFailed if it is no regular file."""
        path = context.path(self.path)
        try:
            folder, name = open_parent(path)
        except FileNotFoundError:
            return {}
        with folder:
            found = folder.read(name)
            if found is None:
                return {}
            status, content = found
            # Bytes that are not UTF-8 become surrogates, so equal text means equal bytes.
            text = content.decode("utf-8", "surrogateescape")
            return {
                "content": OTHER_NAMES if replace.has_other_names(folder, status) else text,
                **access_of(context, status, self.owner, self.group),
                "leftovers": len(replace.leftovers_in(folder, name)) or None if self.secret else None,
            }

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Replace the file in one step, or set its access; ResourceFailed without directory, owner or group."""
        path = context.path(self.path)
        uid, gid = uid_of(context, self.owner), gid_of(context, self.group)
        if "content" in differing:
            replace.put(path, self.data(), uid, gid, self.mode)
        elif differing - {"leftovers"}:
            replace.change_access(path, uid, gid, self.mode)
        if "leftovers" in differing:
            replace.remove_leftovers(*os.path.split(path))


class Absent(Resource):
    """No file, symbolic link or device at this path; a directory there is a failure."""

    kind: ClassVar[str] = "absent"
    named_by: ClassVar[str] = "path"
    wanted_state: ClassVar[State] = {"file": None}
    file_in: ClassVar[str] = "path"
    path: str  # absolute path
    secret: bool = False  # whether no report may show the content that the file had

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """Whether the file was declared a secret."""
        return self.secret

    def removes(self, context: Context) -> tuple[str, ...]:  # noqa: ARG002
        """The file."""
        return (self.path,)

    def actual(self, context: Context) -> State:
        """Whether the file, or a copy of a secret beside it, exists; ResourceFailed if it is a directory."""
        path = context.path(self.path)
        try:
            folder, name = open_parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return {"file": None}
        with folder:
            status = folder.find(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                raise ResourceFailed("%s is a directory; only files are removed" % path)
            left = replace.leftovers_in(folder, name) if self.secret else []
            return {"file": "present" if status is not None or left else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove the file; for a secret also the copies that interrupted runs left beside it."""
        folder, name = open_parent(context.path(self.path))
        with folder:
            if self.secret:
                replace.clear(folder, name)
            folder.unlink(name)
