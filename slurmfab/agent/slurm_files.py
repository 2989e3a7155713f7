"""Slurm's configuration files as one whole, which the installed Slurm parses before any of them is replaced."""

from __future__ import annotations

import os
import re
from typing import ClassVar, Dict, List, Tuple

from slurmfab.agent import replace
from slurmfab.agent.accounts import group_name, user_name
from slurmfab.agent.reading import names
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

STAGE = ".slurmfab-"
"""How the names of staging directories begin."""

MAIN = "slurm.conf"

DEVICE_GONE = (
    ". A device that the lock has is gone, and slurmd would not start without it: mend the hardware, or accept what is "
    "there (fab replace-node --accept-hardware)"
)
"""What to try where gres.conf names a file that is not there; slurmd ends at that (24.11, gres.c)."""


class SlurmFiles(Resource):
    """Text files of Slurm's, root's and 0644, in one directory.

    All of them, also those that are right already, are staged in a fresh directory, where the installed Slurm has to
    accept them.

    Args:
        directory: absolute, such as /etc/slurm; it has to be there.
        files: name and content of each.
        node: this host's NodeName, so that slurmd checks its part (gres.conf too); empty where no slurmd runs.
        beside: names of files in the directory that stay as they are, and are judged along where they are there.
    """

    kind: ClassVar[str] = "slurm-files"
    directory: str
    files: Tuple[Tuple[str, str], ...]
    node: str = ""
    beside: Tuple[str, ...] = ()

    def name(self) -> str:
        """The directory."""
        return self.directory

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ."""
        return tuple("%s/%s" % (self.directory, name) for name, _ in self.files if {name, name + " access"} & differing)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Content, and owner with mode, of each file; no staging directory of a killed run."""
        state: Dict[str, object] = dict(self.files)
        state.update({name + " access": "root:root 0644" for name, _ in self.files})
        return {**state, "leftovers": None}

    def actual(self, context: Context) -> State:
        """The same as it is."""
        state: Dict[str, object] = {"leftovers": ",".join(self.leftovers(context)) or None}
        for name, _ in self.files:
            path = context.path("%s/%s" % (self.directory, name))
            content, status = replace.read(path), replace.regular(path)
            if content is None or status is None:
                # A file that is to be made is one difference, not two.
                state[name + " access"] = "root:root 0644"
                continue
            state[name] = content.decode("utf-8", "surrogateescape")
            owner, group = user_name(context, status.st_uid, "root"), group_name(context, status.st_gid, "root")
            state[name + " access"] = "%s:%s %04o" % (owner, group, status.st_mode & 0o7777)
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Stage, let Slurm judge, then rename each file that differs into its place, slurm.conf last.

        Raises:
            ResourceFailed: Slurm refuses them; nothing was replaced.
        """
        import shutil  # noqa: PLC0415 - slow to import both, and most runs change nothing
        import tempfile  # noqa: PLC0415

        directory = context.path(self.directory)
        for name in self.leftovers(context):
            shutil.rmtree(os.path.join(directory, name))
        if not os.path.isdir(directory):
            raise ResourceFailed("the directory %s is missing; is Slurm installed?" % self.directory)
        changing = sorted((name for name, _ in self.files if name in differing), key=lambda name: (name == MAIN, name))
        stage = tempfile.mkdtemp(prefix=STAGE, dir=directory)
        try:
            for name, content in self.files:
                replace.put(os.path.join(stage, name), content.encode("utf-8", "surrogateescape"), 0, 0, 0o644)
            for name in self.beside:
                unchanged = replace.read(os.path.join(directory, name))
                if unchanged is not None:
                    replace.put(os.path.join(stage, name), unchanged, 0, 0, 0o644)
            if changing:
                self.judge(context, stage)
            for name in changing:
                path = os.path.join(directory, name)
                replace.regular(path)
                os.rename(os.path.join(stage, name), path)
        finally:
            shutil.rmtree(stage)
        for name, _ in self.files:
            if name + " access" in differing and name not in changing:
                replace.change_access(os.path.join(directory, name), 0, 0, 0o644)

    def judge(self, context: Context, stage: str) -> None:
        """Let the installed Slurm parse staged files.

        scontrol only parses slurm.conf and contacts nobody; slurmd -G also reads gres.conf and looks at the devices.

        Raises:
            ResourceFailed: with Slurm's own complaint.
        """
        conf = os.path.join(stage, MAIN)
        done = context.run(["scontrol", "show", "hostnames", "x"], env={"SLURM_CONF": conf})
        if done.returncode == 0 and self.node and os.path.exists(context.path("/usr/sbin/slurmd")):
            done = context.run(["slurmd", "-G", "-N", self.node, "-f", conf], env={"SLURM_CONF": conf})
        if done.returncode != 0:
            words = complaint((done.stderr + b"\n" + done.stdout).decode(errors="replace"), stage, self.directory)
            words += DEVICE_GONE if "stat gres.conf file" in words else ""
            raise ResourceFailed("the installed Slurm refuses the new files, so nothing was replaced: %s" % words)

    def leftovers(self, context: Context) -> List[str]:
        """Names of staging directories; only one session works on a host, so none is in use now."""
        directory = context.path(self.directory)
        staged = (name for name in names(directory) if name.startswith(STAGE))
        return [name for name in staged if os.path.isdir(os.path.join(directory, name))]


def complaint(output: str, stage: str, directory: str) -> str:
    """What Slurm found wrong, in the order that it said it, each once.

    Args:
        output: all that its program printed.
        stage: the staging directory, which no reader could look into any more.
        directory: the one that it stands for.
    """
    said = [line.strip() for line in output.replace(stage, directory).splitlines() if line.strip()]
    wrong = [line for line in said if re.search("error|fatal", line)] or said
    # A line begins with the program's name and often a time stamp.
    bare = [re.sub(r"^(?:\S+: )?(?:\[[^\]]*\] )?(?=error|fatal)", "", line) for line in wrong]
    return " | ".join(list(dict.fromkeys(bare))[:6]) or "it gave no reason"
