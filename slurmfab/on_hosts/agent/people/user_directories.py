"""A directory of each user on the host's own disk, such as for the images of containers."""

from __future__ import annotations

from typing import ClassVar, Dict, Optional, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, make_itself, open_itself
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, access_text, find_user

ACCESS = "root:root 0755"
MODE = 0o700


class UserDirectories(Resource):
    """A directory of root's, and in it one for each of these users, named by the UID, which only the user can enter.

    Root alone can change names there, so that no user can put a link, or a directory of his own, in the place of
    another's. Directories stay when their user goes, or the key that they are for.
    """

    kind: ClassVar[str] = "user-directories"
    named_by: ClassVar[str] = "path"
    path: str  # absolute path of root's directory
    users: Tuple[str, ...]  # names of users; those who do not exist on the host have none

    def accounts(self, context: Context) -> Dict[str, Tuple[str, int, int]]:
        """Name, UID and GID of each user who exists, by the name of the directory."""
        found = ((user, find_user(context, user)) for user in self.users)
        return {str(one.pw_uid): (user, one.pw_uid, one.pw_gid) for user, one in found if one is not None}

    def wanted(self, context: Context) -> State:
        """Owner and mode of each directory."""
        own = {self.below(name): "%s 0700" % user for name, (user, _, _) in self.accounts(context).items()}
        return {self.path: ACCESS, **own}

    def below(self, name: str) -> str:
        """The path of a user's directory."""
        return "%s/%s" % (self.path, name)

    def actual(self, context: Context) -> State:
        """The same as found; ResourceFailed if others than root can change a used directory, or a path is none."""
        folder = open_itself(context.path(self.path))
        if folder is None:
            return {}
        with folder:
            self.refuse_foreign(context, folder)
            state: Dict[str, object] = {self.path: access_text(context, folder.status, "root", "root")}
            for name, (user, _, _) in self.accounts(context).items():
                state[self.below(name)] = owner_of(context, folder, name, user)
        return state

    def refuse_foreign(self, context: Context, folder: Folder) -> None:
        """Raise ResourceFailed where another user could have put the directories there."""
        if folder.others and folder.names():
            raise ResourceFailed(
                "%s is there already, and %s can change it (%s). Name another directory for the images of users, or "
                "make this one root's, with mode 0755"
                % (self.path, folder.others, "%(owner)s %(mode)s" % access_of(context, folder.status, "root", "root"))
            )

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make missing directories, set access of others; ResourceFailed if something else is in their place."""
        with make_itself(context.path(self.path)) as folder:
            self.refuse_foreign(context, folder)
            if self.path in differing:
                folder.set_access(0, 0, 0o755)
            for name, (_, uid, gid) in self.accounts(context).items():
                if self.below(name) in differing:
                    with entered(folder, name) as own:
                        own.set_access(uid, gid, MODE)


def owner_of(context: Context, folder: Folder, name: str, user: str) -> Optional[str]:
    """Owner and mode of a user's directory; `None` for none. `context`: tells the names of users."""
    if folder.find(name) is None:
        return None
    with entered(folder, name) as own:
        return "%(owner)s %(mode)s" % access_of(context, own.status, user)


def entered(folder: Folder, name: str) -> Folder:
    """A user's directory, made if it is missing. Raises ResourceFailed if it is something else."""
    try:
        return folder.enter(name) if folder.find(name) else folder.make(name, MODE)
    except NotADirectoryError:
        raise ResourceFailed("%s/%s is not a directory; move it away" % (folder.path, name)) from None
