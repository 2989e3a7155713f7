"""Resources said in shell: for each kind, the commands that make the same on a bare host."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from slurmfab.commands.eject.script import Script, here, words
from slurmfab.on_hosts.agent.accounting.reading import ActualTree
from slurmfab.on_hosts.agent.accounting.tree import Commands, difference
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES
from slurmfab.on_hosts.agent.core.resource import Context, Resource
from slurmfab.on_hosts.agent.files import firewall_rules
from slurmfab.on_hosts.agent.files.hostbased_logins import REFUSED_HERE
from slurmfab.on_hosts.agent.files.in_effect import reader
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.server_certificate import AUTHORITY_DAYS, DAYS
from slurmfab.on_hosts.agent.files.trusted_authority import FILE as TRUSTED
from slurmfab.on_hosts.agent.mounts.exports import EXPORTS, SETTINGS
from slurmfab.on_hosts.agent.packages.slurm_release import SOURCES
from slurmfab.on_hosts.agent.people import node_logins
from slurmfab.on_hosts.agent.people.directory_service import HOMES_FILE, HOMES_PROFILE
from slurmfab.on_hosts.agent.slurm.package_source import KEY

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.accounting.tree import AccountTree
    from slurmfab.on_hosts.agent.database.slurmdbd_conf import SlurmdbdConf
    from slurmfab.on_hosts.agent.database.storage import Storage
    from slurmfab.on_hosts.agent.files.block import Block
    from slurmfab.on_hosts.agent.files.directory import Directory
    from slurmfab.on_hosts.agent.files.file import Absent, File
    from slurmfab.on_hosts.agent.files.host_names import HostNames
    from slurmfab.on_hosts.agent.files.hostbased_logins import HostbasedLogins
    from slurmfab.on_hosts.agent.files.in_effect import InEffect
    from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
    from slurmfab.on_hosts.agent.files.packaged_rotation import PackagedRotation
    from slurmfab.on_hosts.agent.files.program import Program
    from slurmfab.on_hosts.agent.files.scripts import Scripts
    from slurmfab.on_hosts.agent.files.selinux_settings import SelinuxSettings
    from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate
    from slurmfab.on_hosts.agent.files.shared_names import SharedNames
    from slurmfab.on_hosts.agent.files.trusted_authority import TrustedAuthority
    from slurmfab.on_hosts.agent.identities.ssh_key import SshKey
    from slurmfab.on_hosts.agent.identities.user import Group, HostUser
    from slurmfab.on_hosts.agent.mounts.exports import ExportFiles
    from slurmfab.on_hosts.agent.mounts.mount_point import MountPoint
    from slurmfab.on_hosts.agent.mounts.quotas import UserQuotas
    from slurmfab.on_hosts.agent.munge.key import MungeKey
    from slurmfab.on_hosts.agent.packages.packages import InstalledPackages
    from slurmfab.on_hosts.agent.people.directory_service import DirectoryService
    from slurmfab.on_hosts.agent.people.group_members import GroupMembers
    from slurmfab.on_hosts.agent.people.node_logins import NodeLogins
    from slurmfab.on_hosts.agent.people.person import AuthorizedKeys, Person, PersonHome
    from slurmfab.on_hosts.agent.people.subordinate_ids import SubordinateIds
    from slurmfab.on_hosts.agent.people.user_directories import UserDirectories
    from slurmfab.on_hosts.agent.scratch.scratch_directory import ScratchDirectory
    from slurmfab.on_hosts.agent.services.listening import Listening
    from slurmfab.on_hosts.agent.services.service import Service
    from slurmfab.on_hosts.agent.services.units import Timer, UnitsLoaded
    from slurmfab.on_hosts.agent.slurm.files import SlurmFiles
    from slurmfab.on_hosts.agent.slurm.package_source import SlurmSource
    from slurmfab.on_hosts.agent.slurm.shared_files import SharedFiles
    from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles

WITHOUT_COMMANDS = frozenset(
    {
        *("connections", "freed-ports", "free-space", "lock-copy", "login-guard", "lost-jobs", "null-device"),
        *("cluster-id", "package-way", "registration", "root-log", "slurm-nodes", "slurm-state-access", "ssh-login"),
        *("earlier-directory", "earlier-files", "earlier-logins", "earlier-mounts", "exports-loaded", "nodes-awake"),
        *("released-mounts", "revived-unit"),
        *("carried-files", "fetched-files", "left-file", "mig", "spank-plugin", "munge-directories", "node-gate"),
        *("packages-former", "packages-gone", "storage-login"),
        *("dnf-packages-former", "dnf-packages-gone", "partition-drain", "node-trial", "node-drain", "node-resume"),
    }
)
"""Kinds that change nothing on a bare host: proofs, repairs, what is taken back, and what a unit does that is said."""

AFTER: dict[str, Callable[[Any], list[str]]] = {
    "apparmor-profiles": lambda wanted: [
        words("apparmor_parser", "--replace", path) for path in sorted(wanted.by_path())
    ],
    "directory-service": lambda wanted: [ask_sssd(wanted)],
    "firewall-rules": lambda _: [words("nft", "--check", "--file", FIREWALL_RULES), start(firewall_rules.UNIT)],
    "firewalld-zone": lambda _: ["firewall-cmd --quiet --check-config", "firewall-cmd --quiet --reload"],
    "owned-files": lambda wanted: ["systemctl daemon-reload"] if has_units(wanted) else [],
    "sshd-files": lambda _: ["load_sshd"],
    "user-slices": lambda _: ["systemctl daemon-reload"],
}
"""Kinds that are files of one capability: the commands that let these files count."""


def say(script: Script, resource: Resource) -> list[str]:
    """The commands for one resource; a kind of which none are known is noted in the script."""
    if resource.kind in WITHOUT_COMMANDS:
        return []
    speaker = SPEAKERS.get(resource.kind)
    if speaker is None:
        script.unsaid.append(resource.kind)
        return []
    return speaker(script, resource)


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
    return [words("make_home", f"{wanted.uid}:{wanted.gid}", wanted.home)]


def _authorized_keys(_: Script, wanted: AuthorizedKeys) -> list[str]:
    if not wanted.keys:
        return []
    text = "".join(f"{key}\n" for key in wanted.keys)
    return here(words("add_keys", f"{wanted.uid}:{wanted.gid}", wanted.home), text)


def _packages(script: Script, wanted: InstalledPackages) -> list[str]:
    """Slurm's own, with those that they have brought along, have the version of the cluster file if it has one."""
    versions = dict(text.split("=") for text in wanted.versions)
    if wanted.slurm_version:
        exact = wanted.slurm_version if wanted.slurm_version.endswith("*") else f"{wanted.slurm_version}-*"
        own = (name for name in wanted.slurm if name in script.packages or name in wanted.names)
        versions = {**dict.fromkeys(own, exact), **versions}
    names = sorted({*wanted.names, *versions})
    mark = "=" if wanted.kind == "packages" else "-"
    texts = {name: f"{name}{mark}{version}" for name, version in versions.items()} | dict(script.sent)
    return [words("install_packages", *(texts.get(name, name) for name in names))] if names else []


def _slurm_source(script: Script, wanted: SlurmSource) -> list[str]:
    if not wanted.suite and not wanted.uris:
        return []
    source = (
        [words("put_other_suite", wanted.suite, SOURCES)]
        if wanted.suite
        else script.put(SOURCES, wanted.text(Context()), ROOTS)
    )
    key = script.put(KEY, wanted.key, ROOTS) if wanted.key else []
    return [*source, *key, words("pin_slurm", wanted.suite, wanted.version, wanted.site, " ".join(wanted.names))]


def _ssh_key(_: Script, wanted: SshKey) -> list[str]:
    return [words("make_ssh_key", wanted.user, wanted.home)]


def _munge_key(_: Script, wanted: MungeKey) -> list[str]:
    return [words("make_key", wanted.path, f"{wanted.owner}:{wanted.owner}")]


def _file(script: Script, wanted: File) -> list[str]:
    text = wanted.data().decode("utf-8", "surrogateescape")
    return script.put(wanted.path, text, f"{wanted.owner}:{wanted.group} {wanted.mode:04o}", secret=wanted.secret)


def _absent(_: Script, wanted: Absent) -> list[str]:
    return [words("remove_file", wanted.path)]


def _owned_files(script: Script, wanted: OwnedFiles) -> list[str]:
    files = [OwnedFile(*one) for one in wanted.files]
    lines = [line for one in files for line in script.put(one.path, one.text, one.access, secret=one.secret)]
    return [*lines, *AFTER[wanted.kind](wanted)] if files else []


def has_units(wanted: OwnedFiles) -> bool:
    """Whether systemd reads some of the files."""
    return any("/systemd/" in OwnedFile(*one).path for one in wanted.files)


def ask_sssd(wanted: DirectoryService) -> str:
    """The command that has PAM and NSS ask SSSD."""
    return words("ask_sssd", *([HOMES_PROFILE] if HOMES_FILE in wanted.by_path() else []))


def _hostbased_logins(script: Script, wanted: HostbasedLogins) -> list[str]:
    """Each host adds those who are or may become root there."""
    lines = []
    for one in (OwnedFile(*file) for file in wanted.files):
        if REFUSED_HERE in one.text:
            lines += here(f"put_refusing {shlex.quote(one.path)} {one.access}", one.text)
        else:
            lines += script.put(one.path, one.text, one.access)
    return [*lines, "load_sshd"]


def _node_logins(script: Script, wanted: NodeLogins) -> list[str]:
    if not wanted.exempt:
        return []
    named = "".join(f"{name}\n" for name in sorted({"root", *wanted.exempt}))
    node = f" nodename={wanted.node}" if wanted.node else ""
    account = node_logins.ACCOUNT_TEXT.format(group="@GROUP@", node=node)
    return [
        *here(f"put_exempt {node_logins.EXEMPT} {ROOTS}", f"{named}{node_logins.DEPLOYERS}\n"),
        *script.put(node_logins.ACCOUNT, account, ROOTS),
        *here("close_sshd", node_logins.SYSTEMD_LINES.format(group="@GROUP@")),
    ]


def _selinux_settings(_: Script, wanted: SelinuxSettings) -> list[str]:
    types = [words("label_below", kind, re.escape(place) + "(/.*)?") for place, kind in wanted.types]
    return [*types, *([words("let_homes_be_on_nfs", *wanted.homes)] if wanted.homes else [])]


def _server_certificate(_: Script, wanted: ServerCertificate) -> list[str]:
    """Configurations of openssl for an authority and the server's certificate, of which the host makes the keys."""
    if not wanted.certified:
        return []
    return [
        *here(words("certify", wanted.authority, "root:root", "0600", AUTHORITY_DAYS), wanted.of_authority),
        f"openssl x509 -in {shlex.quote(wanted.authority)} | put {shlex.quote(wanted.ca)} {ROOTS}",
        *here(
            words("certify", wanted.certificate, f"root:{wanted.group}", "0640", DAYS, wanted.authority),
            wanted.of_server,
        ),
    ]


def _trusted_authority(script: Script, wanted: TrustedAuthority) -> list[str]:
    return [*script.put(TRUSTED, wanted.text, ROOTS), "update-ca-certificates"] if wanted.text else []


def _user_quotas(_: Script, wanted: UserQuotas) -> list[str]:
    return [words("limit_user", uid or user, soft, hard, wanted.path) for user, uid, soft, hard in wanted.limits]


def _shared_files(_: Script, wanted: SharedFiles) -> list[str]:
    return [words("link", f"{wanted.shared}/{name}", f"{wanted.directory}/{name}") for name, _ in wanted.files]


def _block(_: Script, wanted: Block) -> list[str]:
    if not wanted.content:
        return []
    text = wanted.content if wanted.content.endswith("\n") else wanted.content + "\n"
    target = f"block {shlex.quote(wanted.path)} {shlex.quote(wanted.block)} {wanted.access} {shlex.quote(wanted.first)}"
    said = here(target, text)
    return [f"if [ -e {shlex.quote(wanted.path)} ]; then", *said, "fi"] if wanted.is_found else said


def _host_names(_: Script, wanted: HostNames) -> list[str]:
    """Lines that give a host a loopback address get its own, as those of Debian's installer."""
    path = shlex.quote(wanted.path)
    change = "/localhost/!s/^(127\\.[0-9.]+|::1)(\\s(.*\\s)?{}(\\s|$))/{}\\2/"
    asked = ((re.sub(r"([{}])", r"\\\1", name), address) for name, address in wanted.addresses)
    return [f"[ ! -e {path} ] || sed -i -E '{change.format(name, address)}' {path}" for name, address in asked]


def _directory(_: Script, wanted: Directory) -> list[str]:
    alone = ("alone",) if wanted.alone or wanted.for_root else ()
    access = (f"{wanted.owner}:{wanted.group}", f"{wanted.mode:04o}")
    make = words("give_directory", wanted.path, *access, *alone)
    return [f"[ -d {shlex.quote(wanted.path)} ] || {make}" if wanted.kept else make]


def _shared_names(_: Script, wanted: SharedNames) -> list[str]:
    return [words("own_names", wanted.path, wanted.head.rstrip("\n"))]


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
        password = script.given("database_password")
        return here(f'with_password "$({password})" {access}', wanted.content)
    return here(f"with_password '' {access}", wanted.content)


def _storage(_: Script, wanted: Storage) -> list[str]:
    return [words("make_database", wanted.database, wanted.pattern, wanted.user)]


def _service(_: Script, wanted: Service) -> list[str]:
    if not wanted.running:
        return [f"systemctl disable --now {wanted.unit} 2>/dev/null || :"]
    waits = [f"until_done {words(*wanted.answers)}"] if wanted.answers else []
    return [start(wanted.unit) if wanted.enabled else words("systemctl", "restart", wanted.unit), *waits]


def start(unit: str) -> str:
    """The command that starts a unit with its present files, now and at boot."""
    return words("start", unit)


def _listening(_: Script, wanted: Listening) -> list[str]:
    return [words("until_done", "bash", "-c", f"</dev/tcp/localhost/{wanted.port}")]


def _scratch_directory(_: Script, wanted: ScratchDirectory) -> list[str]:
    return [words("give_directory", wanted.path, "root:root", "0755", "alone")] if wanted.path else []


def _user_directories(_: Script, wanted: UserDirectories) -> list[str]:
    place = shlex.quote(wanted.path)
    own = [f'give_directory {place}/"$(id -u {one})" {one}:"$(id -g {one})" 0700' for one in wanted.users]
    return [f"give_directory {place} root:root 0755 alone", *own]


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
    quoted = map(shlex.quote, wanted.directories)
    made = [f"[ -d {path} ] || give_directory {path} root:root 0755" for path in quoted]
    settings = script.put(SETTINGS, wanted.settings.rstrip("\n") + "\n", ROOTS) if wanted.settings else []
    return [*made, *script.put(EXPORTS, lines, ROOTS), *settings, "exportfs -ra"] if lines else []


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
    return [*script.put(CONF, wanted.conf, ROOTS), f"export SLURM_CONF={CONF}", *lines, f"rm {CONF}"]


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

ROOTS = "root:root 0644"  # owner, group and mode of most files

SPEAKERS: dict[str, Callable[[Script, Any], list[str]]] = {
    **dict.fromkeys(AFTER, _owned_files),
    "absent": _absent,
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
    "hostbased-logins": _hostbased_logins,
    "munge-key": _munge_key,
    "node-logins": _node_logins,
    "packaged-rotation": _packaged_rotation,
    "packages": _packages,
    "person": _person,
    "person-home": _person_home,
    "program": _program,
    "scripts": _scripts,
    "selinux-settings": _selinux_settings,
    "server-certificate": _server_certificate,
    "service": _service,
    "shared-files": _shared_files,
    "shared-names": _shared_names,
    "site-files": _site_files,
    "slurm-files": _slurm_files,
    "slurm-source": _slurm_source,
    "slurmdbd-conf": _slurmdbd_conf,
    "ssh-key": _ssh_key,
    "scratch-directory": _scratch_directory,
    "subordinate-ids": _subordinate_ids,
    "user-directories": _user_directories,
    "group-members": _group_members,
    "storage": _storage,
    "sudo-rules": _file,
    "timer": _timer,
    "trusted-authority": _trusted_authority,
    "units-loaded": _units_loaded,
    "user": lambda script, wanted: _user(script, wanted, "--system"),
    "user-quotas": _user_quotas,
}
