"""The sudo rules of users of the cluster."""

from __future__ import annotations

from typing import ClassVar, FrozenSet

from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.files.file import File


class SudoRules(File):
    """A file of sudoers(5), checked by visudo(8) before it is installed: a broken one makes sudo fail for all users."""

    kind: ClassVar[str] = "sudo-rules"

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Replace the file, if the installed sudo accepts it; otherwise ResourceFailed, nothing changed."""
        import shutil  # slow to import, and most runs change nothing

        if shutil.which("visudo", path=SYSTEM_PATH) is None:
            raise ResourceFailed("sudo is not installed here; %s deploy installs it" % FAB)
        context.must(["visudo", "--check", "--quiet", "--file=-"], stdin=self.data())
        super().converge(context, differing)
