"""The directories of munged, which does not start if others than munge can change them or their files."""

from __future__ import annotations

import os
from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import OTHERS_WRITE, Folder, open_folder
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text, gid_of, uid_of, user_name
from slurmfab.on_hosts.agent.identities.ways import closed_ways, open_ways

MODES = {"/etc/munge": 0o700, "/var/lib/munge": 0o711, "/var/log/munge": 0o700, "/run/munge": 0o755}
"""The directories of munged with the modes of Debian's package; all users pass the one of the socket."""

FILES = {"/var/lib/munge": ("munge.seed", 0o600), "/var/log/munge": ("munged.log", 0o640)}
"""Files that munged makes, each with its mode, by directory."""

SOCKETS = "/run/munge"
UNIT = "munge"
SAFE = "safe, of munge"


class MungeDirectories(Resource):
    """The directories of munged and the files that it makes there: munge's, and nobody else can write to them."""

    kind: ClassVar[str] = "munge-directories"
    only_name: ClassVar[str] = UNIT

    def labelled(self, context: Context) -> Tuple[str, ...]:
        """All of them."""
        return tuple(self.wanted(context))

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Each directory safe, and each file that is there."""
        return dict.fromkeys([*MODES, *(self.file(directory) for directory in FILES)], SAFE)

    def file(self, directory: str) -> str:
        """The path of munged's file in a directory."""
        return "%s/%s" % (directory, FILES[directory][0])

    def actual(self, context: Context) -> State:
        """The same on the host; what is not safe with owner, group and mode; ResourceFailed if no directory."""
        state: Dict[str, str] = {}
        for directory in MODES:
            if directory in FILES:
                state[self.file(directory)] = SAFE
            try:
                folder = open_folder(context.path(directory))
            except FileNotFoundError:
                if directory == SOCKETS and not self.is_running(context):
                    state[directory] = SAFE
                continue
            except NotADirectoryError:
                raise ResourceFailed("%s is not a directory; move it away" % directory) from None
            with folder:
                way = closed_ways(context, directory, "munge")
                state[directory] = way or self.access(context, folder.status, directory == SOCKETS)
                if directory in FILES:
                    state[self.file(directory)] = self.file_access(context, folder, FILES[directory][0])
        return state

    def is_running(self, context: Context) -> bool:
        """Whether munged runs; systemd makes the directory of its socket at each start, and removes it at the end."""
        return context.root != "/" or context.run(["systemctl", "is-active", "--quiet", UNIT]).returncode == 0

    def file_access(self, context: Context, folder: Folder, name: str) -> str:
        """The access of a file in a directory; a missing one is safe."""
        status = folder.find(name)
        if status is None:
            return SAFE
        folder.require_regular(name, status)
        return self.access(context, status)

    def access(self, context: Context, status: os.stat_result, is_public: bool = False) -> str:
        """`SAFE`, or owner, group and mode of a directory or file; a public one lets all users pass."""
        is_open = not is_public or status.st_mode & 0o001
        if is_open and user_name(context, status.st_uid, "munge") == "munge" and not status.st_mode & OTHERS_WRITE:
            return SAFE
        return access_text(context, status)

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make directories, set access, renew a lost socket; ResourceFailed without munge, or for other things."""
        account = (uid_of(context, "munge"), gid_of(context, "munge"))
        lacks_socket = not os.path.isdir(context.path(SOCKETS))
        for directory, mode in MODES.items():
            if directory in differing:
                open_ways(context, directory, "munge")
                with open_folder(context.path(directory), make=True) as folder:
                    folder.set_access(*account, mode)
            if directory in FILES and self.file(directory) in differing:
                name, file_mode = FILES[directory]
                with open_folder(context.path(directory)) as folder:
                    replace.change_access_in(folder, name, (*account, file_mode))
        if lacks_socket and context.root == "/":
            # A munged that runs has lost its socket with the directory.
            context.run(["systemctl", "try-restart", UNIT], seconds=180)
