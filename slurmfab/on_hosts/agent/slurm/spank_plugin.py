"""A plugin of Slurm's commands and job steps (spank(7)) that a file of slurmfab's in plugstack.conf.d is to load.

Slurm stops every srun on a host whose plugstack.conf requires a plugin that it cannot load, and loads a plugin twice
that two files name. So all of this is looked at before the file is written. The file includes the one that comes with
the plugin's package: without the package, as after a rollback, Slurm finds nothing to include, and goes on.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import tempfile
from typing import ClassVar, Iterator, List, Optional, Set, Tuple

from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

DIRECTORY = "/etc/slurm"
PLUGSTACK = DIRECTORY + "/plugstack.conf"
LINE = re.compile(r"(required|optional|include)[ \t]+(\S+)")
"""A line of plugstack.conf, without the arguments of a plugin (spank(7))."""

LOADED = "Slurm loads it"
YES = "yes"
PROBE = "ClusterName=probe\nSlurmctldHost=localhost\nPlugStackConfig=%s\n"
"""A slurm.conf with which a command reads another plugstack.conf than the host's."""


class SpankPlugin(Resource):
    """A plugin that Slurm on this host can load, that no other file loads, and whose own file Slurm reads.

    Nothing is changed; what is not so is a failure with its repair.
    """

    kind: ClassVar[str] = "spank-plugin"
    named_by: ClassVar[str] = "plugin"
    wanted_state: ClassVar[State] = {LOADED: YES}
    plugin: str  # file name of the plugin
    packaged: str  # path of the file with the line that loads it, which comes with its package
    file: str  # path of slurmfab's file in plugstack.conf.d, which includes that one
    option: str  # an option of srun that it adds, such as `--container-image`
    package: str  # the package that has it

    def actual(self, context: Context) -> State:
        """Whether Slurm can load it, as far as a dry run tells; ResourceFailed, with the repair, if not."""
        if not os.path.exists(context.path(self.packaged)):
            return {LOADED: None}
        self.refuse_others(context)
        return {LOADED: self.probed(context) or YES}

    def refuse_others(self, context: Context) -> None:
        """Raise ResourceFailed where another file loads the plugin, or plugstack.conf does not include slurmfab's."""
        for path, word, value in lines(context, PLUGSTACK):
            loads = value == self.packaged if word == "include" else os.path.basename(value) == self.plugin
            if loads and path not in (self.file, self.packaged):
                raise ResourceFailed(
                    "%s loads %s already, and Slurm would load it twice. Remove that line there; slurmfab's own is in "
                    "%s" % (path, self.plugin, self.file)
                )
        if not self.is_included(context):
            raise ResourceFailed(
                "%s does not include %s, so that Slurm would not load %s. Add this line there: include %s/*.conf"
                % (PLUGSTACK, self.file, self.plugin, os.path.dirname(self.file))
            )

    def is_included(self, context: Context) -> bool:
        """Whether plugstack.conf includes slurmfab's file, also before it is there."""
        values = (value for _, word, value in lines(context, PLUGSTACK) if word == "include")
        return any(fnmatch.fnmatchcase(self.file, absolute(value, PLUGSTACK)) for value in values)

    def probed(self, context: Context) -> Optional[str]:
        """Why Slurm's commands cannot load the plugin; `None` if they can, or none is installed."""
        if context.root != "/":
            return None
        with tempfile.TemporaryDirectory(prefix="slurmfab-") as place:
            conf, stack = os.path.join(place, "slurm.conf"), os.path.join(place, "plugstack.conf")
            with open(conf, "w", encoding="ascii") as file:
                file.write(PROBE % stack)
            with open(stack, "w", encoding="ascii") as file:
                file.write("include %s\n" % self.packaged)
            done = context.run(["srun", "--help"], env={"SLURM_CONF": conf})
        if self.option in done.stdout.decode("utf-8", "replace"):
            return None
        said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "spank" in line]
        return (said or ["srun has no option %s with it" % self.option])[0]

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Say why the plugin cannot be used. Raises ResourceFailed: always."""
        if not os.path.exists(context.path(self.packaged)):
            raise ResourceFailed("%s is missing; the package %s has to bring it" % (self.packaged, self.package))
        raise ResourceFailed(
            "Slurm on this host cannot load %s: %s. It has to be built for this version of Slurm; put such a package "
            "of %s under packages. plugstack.conf is as before" % (self.plugin, self.probed(context), self.package)
        )


def lines(context: Context, path: str, seen: Optional[Set[str]] = None) -> Iterator[Tuple[str, str, str]]:
    """Yield file, word and value of each line of plugstack.conf and what it includes, once."""
    seen = {path} if seen is None else seen
    for line in read_text(context.path(path)).splitlines():
        found = LINE.match(line.strip())
        if found is None:
            continue
        yield path, found[1], found[2]
        for other in matching(context, absolute(found[2], path)) if found[1] == "include" else ():
            if other not in seen:
                seen.add(other)
                yield from lines(context, other, seen)


def absolute(value: str, path: str) -> str:
    """The path of an included file; a relative one begins at the file that includes it."""
    return os.path.join(os.path.dirname(path), value)


def matching(context: Context, pattern: str) -> List[str]:
    """The files on the host that a pattern of an include means, in the order in which Slurm reads them."""
    start = len(context.path("/")) - 1
    return [found[start:] for found in sorted(glob.glob(context.path(pattern)))]
