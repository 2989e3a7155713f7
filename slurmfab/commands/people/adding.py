"""`fab add-user`: adds a user to the cluster file, to all hosts and to accounts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits import people
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.public_keys import in_text, key_of, mistake
from slurmfab.commands.people import changing
from slurmfab.core.engine import session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.accounting import User

STDIN = "-"
MAX_KEY_FILE_CHARACTERS = 1 << 20  # at most this many characters are read from a file of public keys


@dataclass(frozen=True)
class AddUserOptions:
    """The options of `fab add-user`."""

    key_files: tuple[str, ...] = ()  # files of public SSH keys, `-` for standard input
    accounts: tuple[str, ...] = ()  # names of accounts, the default account first
    groups: tuple[str, ...] = ()  # names of supplementary groups
    uid: int | None = None  # the UID; `None` if slurmfab chooses it
    comment: str = ""
    sudo: bool = False  # whether the user may become root on controllers and login hosts


def add_user(cluster: str, name: str, options: AddUserOptions, output: Output) -> int:
    """Add a user, or new options, to the cluster file, and deploy its users to hosts and accounts.

    Nothing is written before all hosts have told whether name and UID are free (else IdConflict). Returns 3 if a host
    could not be reached. Raises InputError without public keys, or if the file would be invalid.
    """
    known = loading.load_named(cluster)
    if STDIN in options.key_files and output.ask_password:
        raise InputError("--key - and --ask-sudo-password both read standard input; give the keys in a file.")
    keys = read_keys(options.key_files, sys.stdin)
    text = grown_text(known, name, options, keys)
    if text == loading.read_text(known.path):
        print(f"{known.path} has all of this for {name} already.", file=sys.stderr)  # noqa: T201
    grown = replace(known, cluster=loading.parse(text, str(known.path)))
    run = session.start(grown, "", output, RunOptions("add-user"))
    return session.perform(run, output, lambda begun: carry_out(begun, name, text))


def carry_out(run: Run, name: str, text: str) -> None:
    """Ask all hosts for conflicts, write the files, and deploy the users.

    `run`: a run over the cluster with the user; the file is not written yet. Raises SlurmfabError if there is a
    conflict, or the controller does not answer; the files are unchanged.
    """
    plan_input, _ = changing.survey(run, changing.ON_HOSTS)
    changing.write(run, text)
    if not plan_input.controller_facts.slurm_conf:
        run.progress.line(f"{run.inventory.path}: added {name}. The cluster is not deployed yet: {FAB} deploy.")
        return
    changing.deploy_users(run)
    uid = run.inventory.lock.ids.get(f"{name}.uid")
    run.progress.line(f"{run.inventory.path}: added {name}{f', with UID {uid}' if uid else ''}.")


def grown_text(known: Inventory, name: str, options: AddUserOptions, keys: Sequence[str]) -> str:
    """The file's text with the user; InputError for missing accounts, or another UID, comment or sudo."""
    refuse_unknown_accounts(known, options.accounts)
    text = loading.read_text(known.path)
    old = next((user for user in known.cluster.users if user.name == name), None)
    if old is None:
        properties = {
            "uid": str(options.uid or ""),
            "comment": options.comment,
            "groups": options.groups,
            "accounts": options.accounts,
            "sudo": "yes" if options.sudo else "",
            "keys": tuple(dict.fromkeys(keys)),
        }
        return people.with_user(text, name, {key: value for key, value in properties.items() if value})
    refuse_other_properties(known, old, options)
    more = {
        "comment": options.comment if not old.comment else "",
        "groups": new_in(options.groups, old.groups),
        "accounts": new_in(options.accounts, old.accounts),
        "sudo": "yes" if options.sudo and not old.sudo else "",
        "keys": new_keys(keys, old.keys),
        "uid": str(options.uid or "") if old.uid is None else "",
    }
    added = {key: value for key, value in more.items() if value}
    return people.with_more(text, name, added) if added else text


def new_in(wanted: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """The wanted names that are not present yet, each once."""
    return tuple(dict.fromkeys(one for one in wanted if one not in present))


def new_keys(keys: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """The public keys that are not present yet, each once; comments of keys do not count."""
    known = {key_of(key) for key in present}
    return tuple({key_of(key): key for key in keys if key_of(key) not in known}.values())


def refuse_other_properties(known: Inventory, old: User, options: AddUserOptions) -> None:
    """Refuse, by one InputError, all options that would change the user in the file, and not only add to it."""
    pinned = known.lock.ids.get(f"{old.name}.uid")
    found = [
        f"--{key} {new}: {known.path} has {before}."
        for key, new, before in (("uid", options.uid, old.uid or pinned), ("comment", options.comment, old.comment))
        if new and before and new != before
    ]
    if old.sudo is False and options.sudo and "sudo" in old.model_fields_set:
        found.append(f"--sudo: {known.path} has sudo: no.")
    if found:
        raise InputError("\n".join((*found, f"{old.name} exists already; change that by hand. Nothing was changed.")))


def refuse_unknown_accounts(known: Inventory, accounts: Sequence[str]) -> None:
    """Refuse accounts that the cluster file does not have.

    Raises InputError if there are such accounts; the message has the known ones.
    """
    names = [account.name for account in known.cluster.accounts]
    unknown = [account for account in accounts if account not in names]
    if unknown:
        raise InputError(
            f"--account {','.join(unknown)}: no such account in {known.path} (known: {', '.join(names) or 'none'}). "
            "Nothing was changed."
        )


def read_keys(files: Sequence[str], stdin: TextIO) -> tuple[str, ...]:
    """Read the public keys in files.

    `files`: paths of the files; `-` for standard input. Raises InputError if a file cannot be read, has no key, or has
    something other than public keys. The message does not show its content, which may be a private key.
    """
    keys: list[str] = []
    for file in files:
        lines = in_text(read_text(file, stdin))
        reasons = [reason for line in lines if (reason := mistake(line))]
        if reasons:
            raise InputError(f"--key {file}: {reasons[0]}. Nothing was changed.")
        if not lines:
            raise InputError(f"--key {file}: it has no key. Nothing was changed.")
        keys += lines
    return tuple(keys)


def read_text(file: str, stdin: TextIO) -> str:
    """The text of a file, or of standard input for `-`.

    Raises InputError if it cannot be read, or is not UTF-8 text.
    """
    try:
        if file == STDIN:
            return stdin.read(MAX_KEY_FILE_CHARACTERS)
        with Path(file).expanduser().open(encoding="utf-8") as opened:
            return opened.read(MAX_KEY_FILE_CHARACTERS)
    except OSError as error:
        raise InputError(f"--key {file}: it cannot be read: {error.strerror}. Nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--key {file}: this is not text, so not a public key. Nothing was changed.") from error
