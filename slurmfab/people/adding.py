"""`fab add-user`: a person goes into the cluster file, onto all hosts, and into the accounts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slurmfab import inventory, operations
from slurmfab.clusterfile import people_edits
from slurmfab.errors import InputError
from slurmfab.inventory import Inventory
from slurmfab.operations import Output
from slurmfab.people import changing
from slurmfab.people.public_keys import in_text, key_of, mistake
from slurmfab.run import Run

if TYPE_CHECKING:
    from slurmfab.clusterfile.accounting import User

STDIN = "-"
LARGEST = 1 << 20
"""Characters of a file of keys; whatever is larger is none."""


@dataclass(frozen=True)
class Wish:
    """What somebody is to have.

    Args:
        key_files: files of public keys, `-` for standard input.
        accounts: names of accounts, the default first.
        groups: names of further groups.
        uid: the number; `None` for the one that slurmfab chooses.
        comment: the name in full.
        sudo: whether to become root where users log in.
    """

    key_files: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    uid: int | None = None
    comment: str = ""
    sudo: bool = False


def add_user(cluster: str, name: str, wish: Wish, output: Output) -> int:
    """Write somebody into the cluster file, and make the hosts and accounts what it says of people.

    Of somebody who is in it already, what is new is added. Nothing is written before all hosts have been asked whether
    the numbers are free.

    Returns:
        The exit code: 3 when a host could not be reached; the next deployment sees to it.

    Raises:
        InputError: a key is none, or the cluster file would have a mistake.
        IdConflict: a name or number is somebody else's on some host; nothing was changed.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    if STDIN in wish.key_files and output.ask_password:
        raise InputError("--key - and --ask-sudo-password both read standard input; give the keys in a file.")
    keys = read_keys(wish.key_files, sys.stdin)
    text = grown_text(known, name, wish, keys)
    if text == inventory.read_text(known.path):
        print(f"{known.path} says all of that of {name} already.", file=sys.stderr)  # noqa: T201
    grown = replace(known, cluster=inventory.parse(text, str(known.path)))
    run = operations.start(grown, "", output, command="add-user")
    return operations.perform(run, output, lambda begun: carry_out(begun, name, text))


def carry_out(run: Run, name: str, text: str) -> None:
    """Ask all hosts, write the files, and make it so.

    Args:
        run: over the cluster with the user in it, of which the file says nothing yet.
        name: the user.
        text: the new cluster file.

    Raises:
        SlurmfabError: there is a conflict, or the controller does not answer; the files are as before.
    """
    situation, _ = changing.survey(run, changing.ON_HOSTS)
    changing.write(run, text)
    if not situation.controller_facts.slurm_conf:
        run.progress.line(f"{run.inventory.path}: {name} is in it now. Nothing was deployed yet: fab deploy.")
        return
    changing.settle(run)
    uid = run.inventory.lock.ids.get(f"{name}.uid")
    run.progress.line(f"{run.inventory.path}: {name} is in it now{f', with UID {uid}' if uid else ''}.")


def grown_text(known: Inventory, name: str, wish: Wish, keys: Sequence[str]) -> str:
    """The text of the cluster file with what is wished.

    Raises:
        InputError: it cannot be had.
    """
    refuse_unknown_accounts(known, wish.accounts)
    text = inventory.read_text(known.path)
    old = next((user for user in known.cluster.users if user.name == name), None)
    if old is None:
        said = {
            "uid": str(wish.uid or ""),
            "comment": wish.comment,
            "groups": wish.groups,
            "accounts": wish.accounts,
            "sudo": "yes" if wish.sudo else "",
            "keys": tuple(dict.fromkeys(keys)),
        }
        return people_edits.with_user(text, name, {key: value for key, value in said.items() if value})
    refuse_other_properties(known, old, wish)
    more = {
        "comment": wish.comment if not old.comment else "",
        "groups": new_in(wish.groups, old.groups),
        "accounts": new_in(wish.accounts, old.accounts),
        "sudo": "yes" if wish.sudo and not old.sudo else "",
        "keys": new_keys(keys, old.keys),
        "uid": str(wish.uid or "") if old.uid is None else "",
    }
    said_more = {key: value for key, value in more.items() if value}
    return people_edits.with_more(text, name, said_more) if said_more else text


def new_in(wanted: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """Those that are not there yet, each once."""
    return tuple(dict.fromkeys(one for one in wanted if one not in there))


def new_keys(keys: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """The same for keys, whatever their comments."""
    known = {key_of(key) for key in there}
    return tuple({key_of(key): key for key in keys if key_of(key) not in known}.values())


def refuse_other_properties(known: Inventory, old: User, wish: Wish) -> None:
    """Refuse to change what the cluster file says of somebody, rather than to add to it.

    Raises:
        InputError: with all that differs.
    """
    pinned = known.lock.ids.get(f"{old.name}.uid")
    found = [
        f"--{key} {new}: {known.path} says {before}."
        for key, new, before in (
            ("uid", wish.uid, old.uid or pinned),
            ("comment", wish.comment, old.comment),
        )
        if new and before and new != before
    ]
    if old.sudo is False and wish.sudo and "sudo" in old.model_fields_set:
        found.append(f"--sudo: {known.path} says sudo: no.")
    if found:
        raise InputError("\n".join((*found, f"{old.name} is there already; change that by hand. Nothing was changed.")))


def refuse_unknown_accounts(known: Inventory, accounts: Sequence[str]) -> None:
    """Refuse accounts that the cluster file does not have.

    Raises:
        InputError: with those that it has.
    """
    names = [account.name for account in known.cluster.accounts]
    strangers = [account for account in accounts if account not in names]
    if strangers:
        raise InputError(
            f"--account {','.join(strangers)}: no account in {known.path} (known: {', '.join(names) or 'none'}). "
            "Nothing was changed."
        )


def read_keys(files: Sequence[str], stdin: TextIO) -> tuple[str, ...]:
    """The public keys in files.

    Raises:
        InputError: one cannot be read, holds no key, or something else than public ones; no part of it is shown.
    """
    keys: list[str] = []
    for file in files:
        lines = in_text(read_text(file, stdin))
        reasons = [reason for line in lines if (reason := mistake(line))]
        if reasons:
            raise InputError(f"--key {file}: {reasons[0]}. Nothing was changed.")
        if not lines:
            raise InputError(f"--key {file}: there is no key in it. Nothing was changed.")
        keys += lines
    return tuple(keys)


def read_text(file: str, stdin: TextIO) -> str:
    """The text of a file, or of standard input.

    Raises:
        InputError: it cannot be read, or is no text.
    """
    try:
        if file == STDIN:
            return stdin.read(LARGEST)
        with Path(file).expanduser().open(encoding="utf-8") as opened:
            return opened.read(LARGEST)
    except OSError as error:
        raise InputError(f"--key {file}: it cannot be read: {error.strerror}. Nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--key {file}: this is no text, so no public key. Nothing was changed.") from error
