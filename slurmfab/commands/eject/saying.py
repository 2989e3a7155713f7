"""Resources said in shell: for each kind, the commands that make the same on a bare host."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slurmfab.on_hosts.agent.accounting.reading import ActualTree
from slurmfab.on_hosts.agent.accounting.tree import Commands, difference
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.in_effect import reader
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.mounts.exports import EXPORTS, SETTINGS

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.accounting.tree import AccountTree
    from slurmfab.on_hosts.agent.database.slurmdbd_conf import SlurmdbdConf
    from slurmfab.on_hosts.agent.database.storage import Storage
    from slurmfab.on_hosts.agent.files.block import Block
    from slurmfab.on_hosts.agent.files.directory import Directory
    from slurmfab.on_hosts.agent.files.file import File
    from slurmfab.on_hosts.agent.files.host_names import HostNames
    from slurmfab.on_hosts.agent.files.in_effect import InEffect
    from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
    from slurmfab.on_hosts.agent.files.packaged_rotation import PackagedRotation
    from slurmfab.on_hosts.agent.files.program import Program
    from slurmfab.on_hosts.agent.files.scripts import Scripts
    from slurmfab.on_hosts.agent.files.sshd_files import SshdFiles
    from slurmfab.on_hosts.agent.identities.ssh_key import SshKey
    from slurmfab.on_hosts.agent.identities.user import Group, HostUser
    from slurmfab.on_hosts.agent.mounts.exports import ExportFiles
    from slurmfab.on_hosts.agent.mounts.mount_point import MountPoint
    from slurmfab.on_hosts.agent.munge.key import MungeKey
    from slurmfab.on_hosts.agent.packages.packages import InstalledPackages
    from slurmfab.on_hosts.agent.people.group_members import GroupMembers
    from slurmfab.on_hosts.agent.people.person import AuthorizedKeys, Person, PersonHome
    from slurmfab.on_hosts.agent.people.subordinate_ids import SubordinateIds
    from slurmfab.on_hosts.agent.people.user_directories import UserDirectories
    from slurmfab.on_hosts.agent.scratch.scratch_directory import ScratchDirectory
    from slurmfab.on_hosts.agent.services.listening import Listening
    from slurmfab.on_hosts.agent.services.service import Service
    from slurmfab.on_hosts.agent.services.units import Timer, UnitsLoaded
    from slurmfab.on_hosts.agent.slurm.files import SlurmFiles
    from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles

END = "END_OF_FILE"
_KEY = re.compile(r"ssh-\S+ \S+ \S+|\S+")  # a user's public key with its comment, or a host's key and any other word
WITHOUT_COMMANDS = frozenset(
    {
        *("connections", "free-space", "lock-copy", "login-guard", "null-device", "package-way"),
        *("root-log", "slurm-nodes", "slurm-state-access", "ssh-login", "nodes-awake"),
        *("earlier-files", "earlier-logins", "earlier-mounts", "exports-loaded", "released-mounts", "revived-unit"),
        *("absent", "carried-files", "fetched-files", "left-file", "spank-plugin", "munge-directories", "node-gate"),
        *("packages-former", "packages-gone"),
        *("dnf-packages-former", "dnf-packages-gone", "partition-drain", "node-trial", "node-drain", "node-resume"),
    }
)
"""Kinds that change nothing on a bare host: proofs, repairs, and what is taken back."""


@dataclass
class Script:
    """What is gathered while one host's resources are said."""

    keys: Mapping[str, str]  # texts that differ on new hosts, such as public keys, and the marks that stand for them
    secrets: dict[str, str] = field(default_factory=dict)  # names of shell variables by path of the secret file
    unsaid: list[str] = field(default_factory=list)  # kinds of resources that no command is known for

    def say(self, resource: Resource) -> list[str]:
        """The commands for one resource, of which those that are not known are noted."""
        if resource.kind in WITHOUT_COMMANDS:
            return []
        speaker = SPEAKERS.get(resource.kind)
        if speaker is None:
            self.unsaid.append(resource.kind)
            return []
        return speaker(self, resource)

    def put(self, path: str, text: str, access: str, *, secret: bool = False) -> list[str]:
        """Write a file; a secret one comes in a variable, without its text here. `access`: as `OWNER:GROUP MODE`."""
        target = f"put {shlex.quote(path)} {access}"
        if secret:
            name = self.secrets.setdefault(path, f"secret_{len(self.secrets)}")
            return [f'printf %s "${name}" | base64 -d | {target}']
        return here(target, self.marked(text))

    def marked(self, text: str) -> str:
        """A text with marks in the place of the keys of the hosts that it was made for."""
        return _KEY.sub(lambda found: self.keys.get(found[0], found[0]), text)


def here(command: str, text: str) -> list[str]:
    """A command with a text as its standard input, in base64 if a here-document cannot have it."""
    lines = text.split("\n")
    is_plain = not lines[-1] and END not in lines and is_utf8(text)
    if text and is_plain:
        return [f"{command} <<'{END}'", *lines[:-1], END]
    data = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    return [f"base64 -d <<<{data} | {command}" if text else f"{command} </dev/null"]


def is_utf8(text: str) -> bool:
    """Whether a text has no bytes that are not UTF-8, and no NUL, which shells drop."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def words(*parts: object) -> str:
    """A command line of these words, quoted."""
    return shlex.join(map(str, parts))


def _group(_: Script, wanted: Group) -> list[str]:
    kind = "--system " if wanted.system else ""
    return [f"getent group {wanted.group} >/dev/null || groupadd {kind}--gid {wanted.gid} {wanted.group}"]


def _user(_: Script, wanted: HostUser, *options: str) -> list[str]:
    add = words(
        *("useradd", *options, "--no-log-init", "--no-create-home", "--uid", wanted.uid, "--gid", wanted.group),
        *("--home-dir", wanted.home, "--shell", wanted.shell, "--password", "*", wanted.user),
    )
    return [f"getent passwd {wanted.user} >/dev/null || {add}"]


def _person(script: Script, wanted: Person) -> list[str]:
    groups = ("--groups", ",".join(wanted.groups)) if wanted.groups else ()
    return _user(script, wanted, "--comment", wanted.comment, *groups)


def _person_home(_: Script, wanted: PersonHome) -> list[str]:
    make = words("install", "-d", "-m", "0700", "-o", wanted.uid, "-g", wanted.gid, wanted.home)
    return [f"[ -e {shlex.quote(wanted.home)} ] || {make}"]


def _authorized_keys(script: Script, wanted: AuthorizedKeys) -> list[str]:
    if not wanted.keys:
        return []
    folder, path = (shlex.quote(f"{wanted.home}/.ssh{name}") for name in ("", "/authorized_keys"))
    text = "".join(f"{key}\n" for key in wanted.keys)
    return [
        f"install -d -m 0700 -o {wanted.uid} -g {wanted.gid} {folder}",
        *here(f"block {path} keys {wanted.uid}:{wanted.gid} 0600", script.marked(text)),
    ]


def _packages(_: Script, wanted: InstalledPackages) -> list[str]:
    return [words("install_packages", *wanted.names)] if wanted.names else []


def _ssh_key(_: Script, wanted: SshKey) -> list[str]:
    return [words("make_ssh_key", wanted.user, wanted.home)]


def _munge_key(_: Script, wanted: MungeKey) -> list[str]:
    path = shlex.quote(wanted.path)
    access = f"{wanted.owner}:{wanted.owner} 0400"
    make = f"[ -s {path} ] || head -c 1024 /dev/urandom | put {path} {access}"
    # The package may have made one, with other modes.
    return [make, words("chown", f"{wanted.owner}:{wanted.owner}", wanted.path), words("chmod", "0400", wanted.path)]


def _file(script: Script, wanted: File) -> list[str]:
    text = wanted.data().decode("utf-8", "surrogateescape")
    return script.put(wanted.path, text, f"{wanted.owner}:{wanted.group} {wanted.mode:04o}", secret=wanted.secret)


def _owned_files(script: Script, wanted: OwnedFiles) -> list[str]:
    files = [OwnedFile(*one) for one in wanted.files]
    lines = [line for one in files for line in script.put(one.path, one.text, one.access, secret=one.secret)]
    return [*lines, "systemctl daemon-reload"] if any("/systemd/" in one.path for one in files) else lines


def _block(script: Script, wanted: Block) -> list[str]:
    if not wanted.content:
        return []
    text = wanted.content if wanted.content.endswith("\n") else wanted.content + "\n"
    target = f"block {shlex.quote(wanted.path)} {shlex.quote(wanted.block)} {wanted.access} {shlex.quote(wanted.first)}"
    return here(target, script.marked(text))


def _host_names(_: Script, wanted: HostNames) -> list[str]:
    """Lines that give a host a loopback address get its own, as those of Debian's installer."""
    path = shlex.quote(wanted.path)
    return [
        f"sed -i -E '/localhost/!s/^(127\\.[0-9.]+|::1)(\\s(.*\\s)?{name}(\\s|$))/{address}\\2/' {path}"
        for name, address in wanted.addresses
    ]


def _directory(_: Script, wanted: Directory) -> list[str]:
    make = words("install", "-d", "-m", f"{wanted.mode:04o}", "-o", wanted.owner, "-g", wanted.group, wanted.path)
    return [f"[ -d {shlex.quote(wanted.path)} ] || {make}" if wanted.kept else make]


def texts_in(script: Script, folder: str, files: Iterable[tuple[str, str, int]]) -> list[str]:
    """Write root's files of one directory: name, text and mode of each."""
    return [
        line for name, text, mode in files for line in script.put(f"{folder}/{name}", text, f"root:root {mode:04o}")
    ]


def _slurm_files(script: Script, wanted: SlurmFiles) -> list[str]:
    return texts_in(script, wanted.directory, ((*file, 0o644) for file in wanted.files))


def _scripts(script: Script, wanted: Scripts) -> list[str]:
    return texts_in(script, wanted.path, ((*file, 0o755) for file in wanted.files))


def _program(script: Script, wanted: Program) -> list[str]:
    return texts_in(script, wanted.path, ((*file, 0o644) for file in wanted.files))


def _site_files(script: Script, wanted: SiteFiles) -> list[str]:
    return texts_in(script, wanted.directory, wanted.files)


def _slurmdbd_conf(script: Script, wanted: SlurmdbdConf) -> list[str]:
    access = f"{wanted.owner}:{wanted.group} 0600"
    if wanted.password:
        name = script.secrets.setdefault("database_password", f"secret_{len(script.secrets)}")
        return here(f'with_password "$(printf %s "${name}" | base64 -d)" {access}', wanted.content)
    return here(f"with_password '' {access}", wanted.content)


def _storage(_: Script, wanted: Storage) -> list[str]:
    return [words("make_database", wanted.database, wanted.pattern, wanted.user)]


def _service(_: Script, wanted: Service) -> list[str]:
    if not wanted.running:
        return [f"systemctl disable --now {wanted.unit} 2>/dev/null || :"]
    waits = [f"until_done {words(*wanted.answers)}"] if wanted.answers else []
    enable = [f"systemctl enable {wanted.unit}"] if wanted.enabled else []
    return [*enable, f"systemctl restart {wanted.unit}", *waits]


def _listening(_: Script, wanted: Listening) -> list[str]:
    return [words("until_done", "bash", "-c", f"</dev/tcp/localhost/{wanted.port}")]


def _sshd_files(script: Script, wanted: SshdFiles) -> list[str]:
    lines = _owned_files(script, wanted)
    return [*lines, "systemctl reload ssh sshd 2>/dev/null || :"] if lines else []


def _scratch_directory(_: Script, wanted: ScratchDirectory) -> list[str]:
    return [words("install", "-d", "-m", "0755", wanted.path)] if wanted.path else []


def _user_directories(_: Script, wanted: UserDirectories) -> list[str]:
    place = shlex.quote(wanted.path)
    own = [f'install -d -m 0700 -o {one} -g "$(id -g {one})" {place}/"$(id -u {one})"' for one in wanted.users]
    return [f"install -d -m 0755 {place}", *own]


def _subordinate_ids(_: Script, wanted: SubordinateIds) -> list[str]:
    return [words("subordinate", user, line) for user, line in wanted.lines().items()]


def _group_members(_: Script, wanted: GroupMembers) -> list[str]:
    return [words("gpasswd", "--add", user, wanted.group) for user in wanted.members]


def _timer(_: Script, wanted: Timer) -> list[str]:
    return [f"systemctl enable --now {wanted.unit}.timer"]


def _units_loaded(_: Script, wanted: UnitsLoaded) -> list[str]:  # noqa: ARG001 - the same for all
    return ["systemctl daemon-reload"]


def _packaged_rotation(_: Script, wanted: PackagedRotation) -> list[str]:
    return [words("rotate_by_signal", wanted.daemon)]


def _in_effect(_: Script, wanted: InEffect) -> list[str]:
    return [words(*program) for path in wanted.paths if (program := reader(path))]


def _mount(_: Script, wanted: MountPoint) -> list[str]:
    return [words("systemctl", "enable", "--now", wanted.unit)]


def _export_files(script: Script, wanted: ExportFiles) -> list[str]:
    lines = "".join(f"{path} {client}({options})\n" for path, client, options in wanted.exports)
    made = [f"mkdir -p {shlex.quote(path)}" for path in wanted.directories]
    settings = script.put(SETTINGS, wanted.settings.rstrip("\n") + "\n", "root:root 0644") if wanted.settings else []
    return [*made, *script.put(EXPORTS, lines, "root:root 0644"), *settings, "exportfs -ra"] if lines else []


def _accounts(script: Script, wanted: AccountTree) -> list[str]:
    """The commands of sacctmgr that fill an empty database, but for limits of TRES that slurmctld tells slurmdbd."""
    return configured(script, wanted, accounting(wanted, lambda tres: not tres))


def _rest_of_accounts(script: Script, wanted: AccountTree) -> list[str]:
    """The others, which are tried until slurmctld has told slurmdbd its TRES."""
    return configured(script, wanted, [f"until_done {line}" for line in accounting(wanted, bool)])


def configured(script: Script, wanted: AccountTree, lines: list[str]) -> list[str]:
    """Lines with sacctmgr, whose host may have no slurm.conf yet; none stay none."""
    if not lines or not wanted.conf:
        return lines
    return [*script.put(CONF, wanted.conf, "root:root 0644"), f"export SLURM_CONF={CONF}", *lines, f"rm {CONF}"]


def accounting(tree: AccountTree, chosen: Callable[[frozenset[str]], bool]) -> list[str]:
    """Commands for the values of a tree; `chosen` is asked with those of their TRES that slurmdbd learns late."""
    actual, changes = difference(tree, NEW_DATABASE)
    late = tree.late_tres()
    kept = {
        place: {key: value for key, value in values.items() if chosen(tree.tres(key, value) & late)}
        for place, values in changes.items()
    }
    commands = Commands(tree, actual, {place: values for place, values in kept.items() if values})
    return [words("accounting", *command) for command in commands.all()]


CONF = "/run/accounting.conf"  # a slurm.conf for sacctmgr alone
NEW_DATABASE = ActualTree((), {"normal": {}}, {}, {}, {}, {}, ())

SPEAKERS: dict[str, Callable[[Script, Any], list[str]]] = {
    "accounts": _accounts,
    "accounts-rest": _rest_of_accounts,
    "authorized-keys": _authorized_keys,
    "block": _block,
    "directory": _directory,
    "dnf-packages": _packages,
    "export-files": _export_files,
    "file": _file,
    "group": _group,
    "in-effect": _in_effect,
    "listening": _listening,
    "mount": _mount,
    "host-names": _host_names,
    "munge-key": _munge_key,
    "owned-files": _owned_files,
    "packaged-rotation": _packaged_rotation,
    "packages": _packages,
    "person": _person,
    "person-home": _person_home,
    "program": _program,
    "scripts": _scripts,
    "service": _service,
    "site-files": _site_files,
    "slurm-files": _slurm_files,
    "slurmdbd-conf": _slurmdbd_conf,
    "ssh-key": _ssh_key,
    "sshd-files": _sshd_files,
    "scratch-directory": _scratch_directory,
    "subordinate-ids": _subordinate_ids,
    "user-directories": _user_directories,
    "group-members": _group_members,
    "storage": _storage,
    "sudo-rules": _file,
    "timer": _timer,
    "units-loaded": _units_loaded,
    "user": lambda script, wanted: _user(script, wanted, "--system"),
    "user-slices": _owned_files,
}
