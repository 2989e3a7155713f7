"""The hosts of a twin made by hand, like those of a cluster that slurmfab has not made: by shell scripts alone.

They get the packages, users, files, owners, database and accounts that the cluster showed to its import. Secrets are
new ones. Programs are stand-ins (`programs`) unless the user wants those in Slurm's directory to run.
"""

from __future__ import annotations

import base64
import posixpath
import re
import secrets
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from slurmfab import lab as labs
from slurmfab.base.errors import HostError, LabError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import is_loopback
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import Hardware
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.import_cluster import database
from slurmfab.commands.import_cluster.found import FoundFile
from slurmfab.commands.rehearse import programs, real_cluster, real_files
from slurmfab.commands.rehearse.real_cluster import Real
from slurmfab.commands.rehearse.real_files import Changes
from slurmfab.commands.rehearse.stage import Stage
from slurmfab.commands.rehearse.twin import CONSTRAIN_DEVICES, Twin
from slurmfab.core.engine.requests import ask_facts
from slurmfab.core.plan.phases import accounts
from slurmfab.core.plan.plan_input import PlanInput, is_numeric
from slurmfab.core.status import snapshot
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.accounting.tree import AccountTree, RestOfAccounts
from slurmfab.on_hosts.agent.core.resource import Resource, as_request
from slurmfab.on_hosts.agent.files.owners import DIRECTORY, Owned
from slurmfab.on_hosts.agent.slurm.found_files import HIDDEN

UNITS = ("slurmdbd", "slurmctld", "slurmd")
LEFT_BEHIND = "/run/slurmfab*"  # what questions of slurmfab leave on a host
START_SECONDS = 60.0  # how long daemons may take until all nodes are in service
POLL_SECONDS = 0.5
MOST_LINES = 6  # lines of a daemon's log that are told

NO_START = (
    "does not start {unit} with the files that {host} of the cluster has. If {unit} runs on the cluster, then since "
    "before these files; mend them there before you import"
)
NOT_READY = "There can be no twin: with the files that the cluster has, {what}"

_REQUIRED = re.compile(r"(?m)^[ \t]*required(?=[ \t]+\S+\.so\b)")
"""How plugstack.conf demands a plugin: one that is no package's, and so not on the twin."""

_DEVICES = re.compile(rf"(?im)^[ \t]*{CONSTRAIN_DEVICES}[ \t]*=[ \t]*\S+")

_SOCKET = re.compile(r"(?i)\bsocket=([^\s,\"]+)")

MOVE = """\
move() {
    uid=$(id -u "$1") gid=$(id -g "$1")
    [ "$uid:$gid" != "$2:$3" ] || return 0
    groupmod -o -g "$3" "$(id -gn "$1")"
    usermod -o -u "$2" -g "$3" "$1"
    find /etc /run /var -xdev -uid "$uid" -exec chown -h "$2" {} +
    find /etc /run /var -xdev -gid "$gid" -exec chgrp -h "$3" {} +
}
"""
"""A function for sh: gives a system user, and its group, other numbers."""

SERVER = """\
systemctl enable --quiet --now mariadb
for i in $(seq 300); do mysqladmin ping >/dev/null 2>&1 </dev/null && break; sleep 0.1; done
mysql <<'END'
CREATE DATABASE `{name}`;
CREATE USER '{user}'@'localhost' IDENTIFIED BY '{password}';
GRANT ALL ON `{name}`.* TO '{user}'@'localhost';
END
"""


@dataclass(frozen=True)
class Secrets:
    """The secrets of a twin."""

    munge: bytes = field(default_factory=lambda: secrets.token_bytes(1024), repr=False)
    tokens: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)  # signs JSON web tokens
    password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)  # of slurmdbd in its database


@dataclass(frozen=True)
class Making:
    """The twin of a cluster that is being made by hand."""

    real: Real
    stage: Stage
    twin: Twin  # with its addresses
    with_programs: bool = False  # whether programs of the hosts run
    new: Secrets = field(default_factory=Secrets)

    @cached_property
    def addresses(self) -> dict[str, str]:
        """The addresses of the twin's hosts, by those that the real hosts have.

        What a host alone says of itself stands behind the addresses at which hosts were reached or that slurm.conf has.
        """
        found, pairs, told = self.real.old.found, dict[str, str](), dict[str, list[str]]()
        for host, address in self.twin.addresses.items():
            named = (found.addresses.get(host, ""), real_cluster.real_address(self.real.old, host))
            pairs.update((one, address) for one in named if is_numeric(one) and not is_loopback(one))
            for one in found.facts[host].addresses if host in found.facts else ():
                told.setdefault(one, []).append(address)
        own = {one: places[0] for one, places in told.items() if len(places) == 1 and not is_loopback(one)}
        return {**own, **pairs}

    def changes(self, hardware: Hardware) -> Changes:
        """What is other on the twin. `hardware`: of its hosts."""
        gone = frozenset(node for node in self.real.old.nodes if node not in self.twin.hosts)
        texts = [file.text for host in self.twin.hosts for file in self.real.files(host).files]
        room = real_files.room_for([self.real.old.text], hardware)
        return Changes(real_files.without_sets(texts, gone), self.addresses, room)


def make(making: Making) -> None:
    """Make all hosts, start Slurm, and wait for the nodes. Raises SlurmfabError if that fails."""
    real, cluster, controller = making.real, making.real.cluster, making.real.cluster.controller
    with making.stage.transport() as transport:
        facts = ask_facts(transport, controller, with_secrets=False)
        changes = making.changes(facts.hardware or Hardware(1, 1, 1, 1, 1, 1))
        for host in making.twin.hosts:
            on(making.stage, host, host_script(making, host, changes))
        if cluster.database_hosts:
            (there,) = cluster.database_hosts
            on(making.stage, there, database_script(making, there))
            start(making, there, "slurmdbd")
            accounting(real, transport, AccountTree)
        for host in cluster.controllers:
            start(making, host, "slurmctld")
        for host in cluster.compute_nodes:
            start(making, host, "slurmd")
        wait_for_nodes(making, transport)
        if cluster.database_hosts:
            accounting(real, transport, RestOfAccounts)
            start(making, controller, "slurmctld")  # at its first start it misses what changes in slurmdbd meanwhile
            wait_for_nodes(making, transport)
    for host in making.twin.hosts:
        on(making.stage, host, f"rm -rf {LEFT_BEHIND}\n")


def on(stage: Stage, host: str, script: str, what: str = "cannot be made by hand like that of the cluster") -> None:
    """Run a script as root on a host of the twin. Raises SlurmfabError if it fails; `what` says of what that speaks."""
    done = labs.run(stage.lab, stage.twin.hosts[host], ["sh", "-es"], text=script)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-MOST_LINES:]
        raise SlurmfabError("\n".join((f"There can be no twin: its {host} {what}:", *(f"  {line}" for line in said))))


def start(making: Making, host: str, unit: str) -> None:
    """Start a unit, if the host has it. Raises SlurmfabError, with what the daemon said, if it does not start."""
    if unit in real_cluster.units(making.real, host) and host in making.twin.hosts:
        said = f"journalctl --unit={unit} --since=@$now --output=cat | grep -E 'fatal|error' >&2"
        script = f"now=$(date +%s)\nsystemctl enable --quiet {unit}\n"
        script += f"systemctl restart {unit} 2>/dev/null || {{ {said}; exit 1; }}\n"
        on(making.stage, host, script, NO_START.format(unit=unit, host=host))


def host_script(making: Making, host: str, changes: Changes) -> str:
    """A script that gives a host its users, files and owners."""
    real = making.real
    # Programs come last, so that they are what their names lead to.
    files = sorted((file for _, file in real.files_of([host])), key=programs.is_program)
    stand_ins = real_cluster.stand_ins(real, host)
    executed = {*stand_ins, *(name for file in files if programs.is_program(file) for name in programs.names(file))}
    executed -= {name for file in files if not programs.is_program(file) for name in programs.names(file)}
    names = {one: " ".join(real_cluster.names_of(real.old, one)) for one in making.twin.hosts}
    named = "".join(f"{making.twin.addresses[one]} {text}\n" for one, text in names.items())
    keys, others = real_cluster.token_keys(real.old, host), {*UNITS} - {*real_cluster.units(real, host)}
    parts = [
        *user_lines(real, host),
        f"cat >>/etc/hosts <<'END'\n{named}END\n",
        *(file_lines(file, text) for file in files
          if (text := content(making, file, changes)) or not programs.is_unit(file)),
        *option_lines(real, host, changes),
        *map(stand_in_lines, stand_ins),
        *owner_lines(real.owned(host), executed),
        written("/etc/munge/munge.key", making.new.munge, 0o400, "munge:munge"),
        *(written(path, making.new.tokens, 0o600, real.cluster.slurm_user) for path in keys),
        "systemctl daemon-reload\nsystemctl enable --quiet munge\nsystemctl restart munge\n",
        *(f"systemctl disable --quiet --now {unit} 2>/dev/null || :\n" for unit in sorted(others)),
    ]  # fmt: skip
    return "".join(parts)


def user_lines(real: Real, host: str) -> Iterator[str]:
    """Yield the lines that make people and groups, and give Slurm's and munge's users their numbers."""
    yield MOVE
    known = real.old.found.facts[real.old.found.controller]
    facts = real.old.found.facts.get(host, known)
    for name, account in facts.accounts.items():
        if name in ("slurm", "munge"):
            yield f"! id {name} >/dev/null 2>&1 || move {name} {account.uid} {account.gid}\n"
    gids = {name: gid for gid, name in (*known.gids.items(), *facts.gids.items())}
    uids = {name: uid for uid, name in (*known.uids.items(), *facts.uids.items())}
    own = real.old.slurm_user
    if own not in ("slurm", "root"):
        number = f"--non-unique --uid {uids[own]} " if own in uids else ""
        yield f"id {shlex.quote(own)} >/dev/null 2>&1 || useradd --system {number}{shlex.quote(own)}\n"
    for name, uid in real.people.items():
        number = f"--non-unique --uid {uid} " if uid else ""
        yield f"id {shlex.quote(name)} >/dev/null 2>&1 || useradd --no-create-home {number}{shlex.quote(name)}\n"
    for group, members in real.groups.items():
        number = f"--non-unique --gid {gids[group]} " if group in gids else ""
        yield f"getent group {shlex.quote(group)} >/dev/null || groupadd {number}{shlex.quote(group)}\n"
        yield from (f"usermod -aG {shlex.quote(group)} {shlex.quote(one)}\n" for one in members)


def content(making: Making, file: FoundFile, changes: Changes) -> str:
    """A file as the twin has it, with the new password of the database, which is on the same host."""
    if programs.is_program(file) or programs.is_unit(file):
        return (file if making.with_programs else programs.harmless(file)).text
    text = file.text if file.path.endswith(".yaml") else real_files.changed(file.text, changes)
    text = _DEVICES.sub(rf"{CONSTRAIN_DEVICES}=no", _REQUIRED.sub("optional", text))
    if file.path.endswith(f"/{database.FILE}"):
        text = re.sub(r"(?im)^[ \t]*Storage(Host|Port|BackupHost|Parameters)[ \t]*=.*$", "", text)
        text = text.replace(HIDDEN, making.new.password)
    return text


def file_lines(file: FoundFile, text: str) -> str:
    """Lines that write a file, behind its link if it has one."""
    target = file.link or file.path
    mode = file.mode & (0o777 if programs.is_program(file) else 0o666)
    lines = written(target, text.encode("utf-8", "surrogateescape"), mode)
    if file.link:
        path = shlex.quote(file.path)
        lines += f"{folder_line(file.path)}ln -sfn {shlex.quote(target)} {path}\n"
    return lines


def written(path: str, content: bytes, mode: int, owner: str = "") -> str:
    """Lines that write a file."""
    place = shlex.quote(path)
    lines = f"{folder_line(path)}(umask 077; base64 -d >{place}) <<'END'\n{base64.encodebytes(content).decode()}END\n"
    return lines + (f"chown {owner} {place}\n" if owner else "") + f"chmod {mode:o} {place}\n"


def folder_line(path: str) -> str:
    """The line that makes the directory of a file."""
    return f"mkdir -p {shlex.quote(posixpath.dirname(path))}\n"


def stand_in_lines(path: str) -> str:
    """Lines that make a program which does nothing, unless there is one."""
    return f"[ -e {shlex.quote(path)} ] || {{\n{written(path, programs.STAND_IN.encode(), 0o755)}}}\n"


def option_lines(real: Real, host: str, changes: Changes) -> Iterator[str]:
    """Yield the lines for options of daemons: where slurmd fetches its files, and munged's socket."""
    facts = real.old.found.facts.get(host)
    if facts and re.fullmatch(r"[\w.:,-]+", facts.conf_server):
        server = real_files.at_addresses(facts.conf_server, changes.addresses)
        yield written("/etc/default/slurmd", f'SLURMD_OPTIONS="--conf-server {server}"\n'.encode(), 0o644)
    for socket in _SOCKET.findall(real.old.setting("AuthInfo"))[:1]:
        yield f"install -d -o munge -g munge {shlex.quote(posixpath.dirname(socket))}\n"
        yield written("/etc/default/munge", f'OPTIONS="--socket={socket}"\n'.encode(), 0o644)


def owner_lines(rows: Iterable[Owned], executed: Collection[str]) -> Iterator[str]:
    """Yield the lines that make directories and logs, and give all that is there its owner and permissions.

    A user or group that the twin lacks owns nothing there, nobody becomes another user by a file, and no file is
    executed but those with these paths.
    """
    for row in rows:
        of_file = 0o777 if row.path in executed else 0o666
        mode = row.mode & (0o3777 if row.kind == DIRECTORY else of_file)
        path, owner = shlex.quote(row.path), shlex.quote(f"{row.user}:{row.group}")
        make = f"[ -d {path} ] || mkdir {path}" if row.kind == DIRECTORY else f"[ -e {path} ] || : >{path}"
        yield f"{make}\nchown {owner} {path} 2>/dev/null || :\nchmod {mode:o} {path}\n"


def database_script(making: Making, host: str) -> str:
    """A script that makes slurmdbd's database on its host."""
    conf = parse(making.real.old.text_of(host, database.FILE)).settings
    name, user = conf.get("storageloc", database.DEFAULT_NAME), conf.get("storageuser", database.OUR_USER)
    if not re.fullmatch(r"[\w-]+", name) or not re.fullmatch(r"[\w.-]+", user):
        raise LabError(f"The twin cannot have the database {name!a} of {user!a}.")
    return SERVER.format(name=name, user=user, password=making.new.password)


def accounting(real: Real, transport: Transport, kind: type[AccountTree] | type[RestOfAccounts]) -> None:
    """Give the twin's slurmdbd the accounts, users and QOS that the import has read."""
    plan_input = PlanInput(real.cluster, real.known.lock, real.old.found.facts)
    fields = dict(accounts.tree(plan_input))
    associations = (real.old.found.accounts or {"associations": ()})["associations"]
    has_own = any(user == accounts.SLURM for _, user, _ in associations)
    fields["users"] = tuple(one for one in fields["users"] if has_own or one[0] != accounts.SLURM)
    wanted: Resource = kind(**fields)
    (host,) = real.cluster.database_hosts
    request = {"op": "apply", "dry_run": False, "who": f"{FAB} rehearse", "resources": [as_request(wanted)]}
    deadline = time.monotonic() + START_SECONDS  # slurmdbd makes its tables first
    while failed := [
        line["outcome"]["message"]
        for line in transport.call(host, request)
        if "outcome" in line and line["outcome"]["status"] == "failed"
    ]:
        if time.monotonic() > deadline:
            raise SlurmfabError(f"There can be no twin: its slurmdbd does not take the accounts: {failed[0]}")
        time.sleep(POLL_SECONDS)


def wait_for_nodes(making: Making, transport: Transport) -> None:
    """Wait until all nodes of the twin are in service. Raises SlurmfabError, with the daemons' errors, if not."""
    controller, deadline = making.real.cluster.controller, time.monotonic() + START_SECONDS
    missing = [host for host in making.real.cluster.compute_nodes if host in making.twin.hosts]
    while missing:
        try:
            nodes = snapshot.ask_up(transport, controller, ("nodes",)).nodes
            ready = {node.name for node in nodes if node.state.is_in_service and "UNKNOWN" not in node.state.flags}
            missing = [host for host in missing if host not in ready]
            why = ""
        except HostError as error:
            why = error.reason
        if missing and time.monotonic() > deadline:
            raise SlurmfabError(not_in_service(missing, why, transport, controller))
        time.sleep(POLL_SECONDS if missing else 0)


def not_in_service(missing: Sequence[str], why: str, transport: Transport, controller: str) -> str:
    """What to tell of nodes that do not come into service."""
    said = []
    for host, unit in ((controller, "slurmctld"), (missing[0], "slurmd")):
        errors = answer_value(host, transport.call(host, {"op": "daemon-errors", "unit": unit}), "daemon_errors")
        said += [f"{unit} of {host}: {one}" for one in errors["errors"]]
    what = why or f"{fold(missing)} did not come into service within {START_SECONDS:.0f} s."
    return "\n  ".join((NOT_READY.format(what=what), *said))
