"""Who may become root on a host."""

from __future__ import annotations

from typing import ClassVar, FrozenSet

from slurmfab.agent.file import File
from slurmfab.agent.resource import SYSTEM_PATH, Context, ResourceFailed


class SudoRules(File):
    """A file of sudoers(5), judged by visudo(8) before it takes its place: a broken one keeps everybody from sudo."""

    kind: ClassVar[str] = "sudo-rules"

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:
        """Replace it, if the installed sudo understands it.

        Raises:
            ResourceFailed: it does not, or there is none; the old file is untouched.
        """
        import shutil  # noqa: PLC0415 - slow to import, and most runs change nothing

        if shutil.which("visudo", path=SYSTEM_PATH) is None:
            raise ResourceFailed("sudo is not installed here; fab deploy installs it")
        context.must(["visudo", "--check", "--quiet", "--file=-"], stdin=self.data())
        super().converge(context, differing)
