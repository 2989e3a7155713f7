"""The task that carries another one out on a twin of the cluster: rehearse."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from invoke.exceptions import ParseError
from invoke.parser.context import ParserContext
from invoke.parser.parser import Parser

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.collection import namespace
from slurmfab.cli.tasks.command import HOSTS_ELSEWHERE, command
from slurmfab.cli.tasks.options import ALL, CONTACT, Common, number
from slurmfab.cli.tasks.spelling import told

if TYPE_CHECKING:
    from slurmfab.commands.rehearse import rehearsing

REFUSED: Mapping[str, tuple[str, ...]] = {
    "deploy": ("plan", "only", "retry_failed", "wake", *CONTACT),
    "upgrade": ("back", "identity", "abandon_jobs", "plan"),
    "restore": ("database",),
    "rotate-munge-key": (),
    "remove-node": (),
    "import": (),
}  # fmt: skip
"""The tasks that can be rehearsed, each with the options that make no sense on a twin."""


class Inside(NamedTuple):
    """A command behind `--`."""

    name: str  # as it is typed, such as `deploy`
    given: Mapping[str, Any]  # the values on the command line, by the names of its parameters
    words: tuple[str, ...]  # its command line, without the options that most tasks share


@command(
    rest="command",
    command=f"the command, with its own words and options: {', '.join(REFUSED)}",
    kill="kill the command so many times in the middle of its work, each time after another while",
    power_cut="a host whose power is cut while the command works, and comes back",
    identity="file with the private key of age, or SSH private key, that decrypts the backups",
    keep="leave the twin up, to look around",
    with_programs="for an import: run the hosts' own programs on the twin, after showing them and asking",
)
def rehearse(
    common: Common,
    command: str,
    *,
    kill: str = "",
    power_cut: str = "",
    identity: str = "",
    keep: bool = False,
    with_programs: bool = False,
) -> int:
    """Carry a command out on a twin of the cluster.

    The twin has the cluster's controllers, database and login hosts, some nodes of each kind, and the state and the
    database of the newest backup. Its hosts are containers on this machine, which needs root and the packages that labs
    need. For an import, they are made by hand like the cluster's, and the deployment behind it is carried out as well.
    Jobs like last week's run there meanwhile. The cluster is asked, and nothing is changed on it. Options for the
    rehearsal stand in front of --. A word with blanks behind it is quoted twice, as for ssh(1). Exit codes: 0 all went
    well, 1 the change fails or does harm, or there can be no twin, 2 wrong input, 4 it went well, and something is to
    be looked at first.

    Examples:
        fab rehearse -- deploy
        fab rehearse --kill 3 -- upgrade --to 26.05
        fab rehearse -- import --hosts ctl
        fab rehearse --power-cut n2 --keep -- restore configs/cluster.backups/titanic-20261121T143200Z.tar
    """
    from slurmfab.commands.rehearse import rehearsing

    inside = read(shlex.split(command))
    refuse(inside)
    values = Common(**{one: inside.given.get(one) or getattr(common, one) for one in (*ALL, *CONTACT)})
    kills = number(kill, "--kill") or 0
    if inside.name == "import":
        if identity:
            raise InputError(f"{FAB} rehearse -- import reads no backup: leave out --identity. Nothing was started.")
        wanted = rehearsing.Wanted(("deploy",), "", kills, power_cut, keep, shown=shlex.join(inside.words))
        return takeover(values, inside, wanted, with_programs=with_programs)
    if with_programs:
        raise InputError(f"--with-programs is for {FAB} rehearse -- import alone. Nothing was started.")
    key = identity or inside.given.get("identity", "")
    wanted = rehearsing.Wanted(inside.words, inside.given.get("hosts", ""), kills, power_cut, keep, key)
    return rehearsing.rehearse(values.cluster, wanted, values.output)


def read(words: Sequence[str]) -> Inside:
    """The command behind `--`, read by Invoke's parser; InputError if there is none, or a word of it is wrong."""
    if not words:
        raise InputError(
            f"rehearse needs a command behind --: {FAB} rehearse -- deploy. These can be: {', '.join(REFUSED)}."
        )
    try:
        contexts = Parser(namespace.to_contexts(), ParserContext()).parse_argv([*words])[1:]
    except ParseError as error:
        raise InputError(told(error, namespace)) from None
    if len(contexts) != 1:
        raise InputError("Name one command behind --, with its words and options.")
    (read,) = contexts
    task = namespace[str(read.name)]
    given = {one.name: one.value for one in read.args.values() if one.got_value}
    line = [str(read.name), *(given[one.name] for one in task.words)]
    for one in task.parameters:
        values = given.get(one.name, [])
        if one.is_word or one.name in ALL:
            continue
        for value in values if isinstance(values, list) else [values]:
            line += (one.flags[0], value) if one.takes_value else one.flags[:1]
    return Inside(task.name, given, tuple(line))


def takeover(values: Common, command: Inside, wanted: rehearsing.Wanted, *, with_programs: bool) -> int:
    """Rehearse an import, and the deployment that follows it."""
    from slurmfab.cli.tasks import host_files
    from slurmfab.commands.import_cluster.importing import ADOPT, ImportOptions
    from slurmfab.commands.rehearse import takeover as rehearsal

    given = command.given
    hosts = given.get("hosts", "")
    if HOSTS_ELSEWHERE.search(hosts):
        hosts = host_files.resolved(values, hosts, newcomers=True)
    options = ImportOptions(given.get("adopt", ADOPT[0]), given.get("keep_files", False))
    source = rehearsal.Source(hosts, values.contact, options, with_programs)
    return rehearsal.rehearse(values.cluster, source, wanted, values.output)


def refuse(command: Inside) -> None:
    """Refuse, by InputError, a command that cannot be rehearsed, and options that make no sense there."""
    if command.name not in REFUSED:
        raise InputError(f"{command.name} cannot be rehearsed. These can: {', '.join(REFUSED)}. Nothing was started.")
    strange = [f"--{one.replace('_', '-')}" for one in REFUSED[command.name] if command.given.get(one)]
    if strange:
        raise InputError(f"{FAB} rehearse -- {command.name}: leave out {' and '.join(strange)}. Nothing was started.")
