"""Slurm's configuration files as a set: the installed Slurm parses all of them before any is replaced."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Dict, Iterator, List, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.included_files import INCLUDE, may_include, read_included, too_large, whole
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.reading import names, read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Opened, open_folder
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text, find_user, user_name

if TYPE_CHECKING:
    import subprocess

SLURMD = ("/usr/sbin/slurmd", "/usr/local/sbin/slurmd")
STAGING_PREFIX = ".slurmfab-"  # prefix of the names of staging directories

SLURM_CONF = "slurm.conf"

REFUSED = "the installed Slurm refuses the new files, so nothing was replaced: "
"""Beginning of the message about files that the installed Slurm does not accept; its errors follow."""

SLURM_USER = re.compile(r"^[ \t]*SlurmUser[ \t]*=[ \t]*\"?([^\s\"#(]+).*$", re.MULTILINE | re.IGNORECASE)
"""The line of slurm.conf that names the user of slurmctld."""

OF_SLURM = re.compile(rb"^SlurmUser=slurm$", re.MULTILINE)
"""The same line in a slurm.conf of slurmfab's, for the user whom it makes."""

BETWEEN = " | "  # what stands between these errors
RIGHT_ACCESS = "root:root 0644"  # owner, group and mode of each file

DEVICE_GONE = (
    ". A device that the lock names is missing, and slurmd would not start without it. Repair the hardware, or accept "
    "the present hardware: %s accept-hardware NODE" % FAB
)
"""Advice when gres.conf names a missing device file: slurmd ends with a fatal error then (24.11, gres.c)."""


class SlurmFiles(Resource):
    """Slurm's text files in one directory, owned by root, mode 0644.

    All files, also unchanged ones, are staged in a new directory, and the installed Slurm has to accept them there.
    """

    kind: ClassVar[str] = "slurm-files"
    named_by: ClassVar[str] = "directory"
    directory: str  # absolute, such as /etc/slurm; it has to exist
    files: Tuple[Tuple[str, str], ...]  # name and content of each
    node: str = ""  # this host's NodeName, so that slurmd also checks gres.conf; empty where no slurmd runs
    # Names of files in the directory that are kept as they are and parsed along, if they exist.
    beside: Tuple[str, ...] = ()
    # Whether the installed Slurm is also asked in a dry run, before anything is changed; about slurm.conf.
    previewed: bool = False
    # Names of files that were made by hand, whose owner and mode are right if only root and slurm change them. They may
    # be links of root's, as to a directory that the hosts share.
    kept: Tuple[str, ...] = ()

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ."""
        return tuple("%s/%s" % (self.directory, name) for name, _ in self.files if {name, name + " access"} & differing)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Content and access of each file, and no staging directory of a killed run."""
        state: Dict[str, object] = dict(self.files)
        state.update({name + " access": RIGHT_ACCESS for name, _ in self.files})
        return {**state, "leftovers": None}

    def actual(self, context: Context) -> State:
        """Content and access, links of root's, leftovers; ResourceFailed in a dry run if Slurm refuses."""
        state: Dict[str, object] = {"leftovers": ",".join(self.leftovers(context)) or None}
        for name, _ in self.files:
            path = context.path("%s/%s" % (self.directory, name))
            target = replace.link_target(path)
            if target:
                stays = self.is_kept_link(context, name, path)
                state[name] = dict(self.files)[name]
                state[name + " access"] = RIGHT_ACCESS if stays else "a link to %s" % target
                continue
            found = replace.find(path)
            if found is None:
                # A missing file is reported as one difference, not two.
                state[name + " access"] = RIGHT_ACCESS
                continue
            status, content = found
            state[name] = self.text(name, path, content)
            context.remark = context.remark or too_large(path, content)
            access = access_text(context, status, "root", "root")
            state[name + " access"] = RIGHT_ACCESS if name in self.kept and self.is_safe(context, status) else access
        if self.previewed and context.dry_run and any(state.get(name) != content for name, content in self.files):
            self.preview(context)
        return state

    @property
    def slurm_user(self) -> str:
        """The user of slurmctld, who may own a file that was made by hand."""
        return ([*SLURM_USER.findall(dict(self.files).get(SLURM_CONF, "")), ""])[0] or "slurm"

    def is_safe(self, context: Context, status: os.stat_result) -> bool:
        """Whether only root and the user of slurmctld can change a file, and all can read it."""
        return is_safe(context, status, owners=("root", self.slurm_user))

    def is_kept_link(self, context: Context, name: str, path: str) -> bool:
        """Whether a link of root's leads to a file that was made by hand and is right. `path`: where the link is."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        is_file = name in self.kept and stat.S_ISREG(status.st_mode) and self.is_safe(context, status)
        return is_file and self.text(name, path, read_bytes(path)) == dict(self.files)[name]

    def text(self, name: str, path: str, content: bytes) -> str:
        """The text of the file at `path`, with all that it includes unless the wanted one includes files itself."""
        wanted = dict(self.files)[name]
        if content == wanted.encode("utf-8", "surrogateescape"):
            return wanted
        everything = whole(path, content)
        # The facts, which have no other bytes than those of UTF-8, told the text of a file that was made by hand.
        if name in self.kept and everything.decode(errors="replace") == wanted:
            return wanted
        # Parts of a hand-made slurm.conf are compared one by one: what the wanted one includes is no difference here.
        return (content if has_include(wanted.encode()) else everything).decode("utf-8", "surrogateescape")

    def preview(self, context: Context) -> None:
        """Let Slurm parse the new slurm.conf in memory, without a disk; ResourceFailed if it refuses."""
        content = dict(self.files).get(SLURM_CONF, "")
        if not content:
            return
        path = context.path("%s/%s" % (self.directory, SLURM_CONF))
        with Opened(os.memfd_create(SLURM_CONF, os.MFD_CLOEXEC)) as descriptor:
            text = whole(path, content.encode("utf-8", "surrogateescape"))
            # Slurm refuses a user who is not there. SchedMD's packages make none, and the run has not made it yet.
            missing = find_user(context, self.slurm_user) is None
            os.write(descriptor, OF_SLURM.sub(b"", text) if missing else text)
            conf = "/proc/%d/fd/%d" % (os.getpid(), descriptor)
            try:
                done = context.run(commands.hostnames("x"), env={"SLURM_CONF": conf})
            except ResourceFailed:
                return  # Slurm is not installed yet
        if done.returncode != 0:
            raise ResourceFailed(REFUSED + slurm_errors(printed(done), conf, "%s/%s" % (self.directory, SLURM_CONF)))

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Stage the files, let Slurm parse them, then rename those that differ; ResourceFailed if it refuses."""
        directory = context.path(self.directory)
        paths = {name: os.path.join(directory, name) for name, _ in self.files}
        linked = {name: path for name, path in paths.items() if replace.link_target(path)}
        links = {name for name, path in linked.items() if not self.is_kept_link(context, name, path)}
        changing = sorted(
            (name for name, _ in self.files if name in differing | links), key=lambda name: (name == SLURM_CONF, name)
        )
        with self.staged(context) as stage:
            if changing:
                self.parse_with_slurm(context, stage)
            for name in changing:
                move(stage, directory, name)
        for name, _ in self.files:
            if name + " access" in differing and name not in changing:
                replace.change_access(os.path.join(directory, name), 0, 0, 0o644)

    def rehearse(self, context: Context) -> None:
        """Stage the files and let Slurm parse them; replaces nothing, ResourceFailed if refused, or OSError."""
        with self.staged(context) as stage:
            self.parse_with_slurm(context, stage)

    @contextmanager
    def staged(self, context: Context) -> Iterator[str]:
        """The path of a new directory beside the files in use, with all files; it is removed at the end.

        Raises ResourceFailed if there is no directory of Slurm's files. Raises OSError if the files cannot be written.
        """
        import shutil  # slow to import both, and most runs change nothing
        import tempfile

        directory = context.path(self.directory)
        try:
            with open_folder(directory) as folder:
                for name in self.leftovers(context):
                    folder.remove(name)
        except FileNotFoundError:
            raise ResourceFailed("the directory %s is missing; is Slurm installed?" % self.directory) from None
        stage = tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=directory)
        try:
            for name, content in self.files:
                replace.put(os.path.join(stage, name), content.encode("utf-8", "surrogateescape"), 0, 0, 0o644)
            for name in self.beside:
                unchanged = replace.read(os.path.join(directory, name))
                if unchanged is not None:
                    replace.put(os.path.join(stage, name), unchanged, 0, 0, 0o644)
            for name in names(stage):
                self.link_included(directory, os.path.join(stage, name))
            yield stage
        finally:
            shutil.rmtree(stage)

    def link_included(self, directory: str, staged: str) -> None:
        """Let a staged file include what it includes in the directory, by links."""
        stage = os.path.dirname(staged)

        def read(path: str) -> bytes:
            inner = os.path.relpath(path, stage)
            if inner.startswith(".."):
                return read_included(path)
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(os.path.join(directory, inner), path)
            return read_included(path)

        def judge(path: str, name: str) -> bool:
            return may_include(path.replace(stage, directory, 1), name.replace(stage, directory, 1))

        whole(staged, read_bytes(staged), read, judge)

    def parse_with_slurm(self, context: Context, stage: str) -> None:
        """Let the installed Slurm parse the staged files.

        scontrol only parses slurm.conf and contacts no daemon; `slurmd -G` also reads gres.conf and looks at the
        devices. Raises ResourceFailed if Slurm refuses them; the text has its errors. A host that fetches slurm.conf
        has none with which the others could be read.
        """
        conf = os.path.join(stage, SLURM_CONF)
        if not os.path.lexists(conf):
            return
        done = context.run(commands.hostnames("x"), env={"SLURM_CONF": conf})
        if done.returncode == 0 and self.node and any(os.path.exists(context.path(path)) for path in SLURMD):
            done = context.run(["slurmd", "-G", "-N", self.node, "-f", conf], env={"SLURM_CONF": conf})
        if done.returncode != 0:
            errors = slurm_errors(printed(done), stage, self.directory)
            errors += DEVICE_GONE if "stat gres.conf file" in errors else ""
            raise ResourceFailed(REFUSED + errors)

    def leftovers(self, context: Context) -> List[str]:
        """Names of staging directories. Only one session works on a host at a time, so none of them is in use."""
        directory = context.path(self.directory)
        staged = (name for name in names(directory) if name.startswith(STAGING_PREFIX))
        return [name for name in staged if os.path.isdir(os.path.join(directory, name))]


def has_include(content: bytes) -> bool:
    """Whether a file includes others."""
    return any(map(INCLUDE.match, content.splitlines()))


def is_safe(
    context: Context, status: os.stat_result, mode: int = 0o644, owners: Tuple[str, ...] = ("root", "slurm")
) -> bool:
    """Whether only one of these users can change a file, and all can use it as with the wanted mode."""
    is_trusted = user_name(context, status.st_uid, "root") in owners
    return is_trusted and not status.st_mode & 0o022 and status.st_mode & mode & 0o055 == mode & 0o055


def move(stage: str, directory: str, name: str) -> None:
    """Rename a staged file to its place; ResourceFailed if something that is no regular file has its place."""
    with open_folder(stage) as staged, open_folder(directory) as folder:
        status = folder.find(name)
        if status is not None and (folder.others or not stat.S_ISLNK(status.st_mode)):
            folder.require_regular(name, status)
        os.rename(name, name, src_dir_fd=staged.descriptor, dst_dir_fd=folder.descriptor)


def printed(done: subprocess.CompletedProcess[bytes]) -> str:
    """Everything that a program printed."""
    return (done.stderr + b"\n" + done.stdout).decode(errors="replace")


def slurm_errors(output: str, stage: str, directory: str) -> str:
    """The errors in the output of a Slurm program, in their order, each once, six at most.

    Args:
        output: everything that the program printed.
        stage: path of the staged files, which are gone when the text is read.
    """
    lines = [line.strip() for line in output.replace(stage, directory).splitlines() if line.strip()]
    wrong = [line for line in lines if re.search("error|fatal", line)] or lines
    # A line begins with the program's name and often a time stamp.
    bare = [re.sub(r"^(?:\S+: )?(?:\[[^\]]*\] )?(?=error|fatal)", "", line) for line in wrong]
    return BETWEEN.join(list(dict.fromkeys(bare))[:6]) or "it gave no reason"
