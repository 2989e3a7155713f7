"""People in a cluster file that people have edited: written into it and taken out of it, and no other byte changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slurmfab import inventory
from slurmfab.clusterfile import reading
from slurmfab.clusterfile.edits import Edits
from slurmfab.errors import ClusterFileError, InputError

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node

    from slurmfab.cluster import Cluster

_WHERE = "the cluster file"
Said = Mapping[str, str | Sequence[str]]
"""What is said of a user, by key of the cluster file."""


def with_user(text: str, name: str, said: Said) -> str:
    """The text of a cluster file with a further user.

    Args:
        text: the cluster file, line ends as they are.
        name: the login name, which no user has yet.
        said: what to say of the user.

    Raises:
        ClusterFileError: the text has mistakes, or what is said is some.
        InputError: the file is written in a way that cannot be extended safely.
    """
    old = inventory.parse(text, _WHERE)
    root = reading.compose(text, _WHERE)
    edits = Edits(text)
    entry = {"name": name, **said}
    sections = {key.value: (key, value) for key, value in root.value}
    if "users" in sections:
        edits.append_entry(sections["users"], entry, in_flow=bool(root.flow_style))
    else:
        edits.append_section(root, "users", entry)
    return _checked(edits.applied(), old, name, entry)


def with_more(text: str, name: str, said: Said) -> str:
    """The text of a cluster file that says more of a user: lists get longer, and keys are there that were not.

    Args:
        text: the cluster file, line ends as they are.
        name: a user's login name.
        said: what to add: lists what is new in them, texts only where the file has none.

    Raises:
        ClusterFileError: what is said is a mistake.
        InputError: the file is written in a way that cannot be extended safely.
    """
    old = inventory.parse(text, _WHERE)
    root = reading.compose(text, _WHERE)
    edits = Edits(text)
    mapping: Any = _entry(root, name)[1]
    in_flow = bool(root.flow_style or _value(root, "users").flow_style or mapping.flow_style)
    present = {key.value: value for key, value in mapping.value}
    new: dict[str, str | Sequence[str]] = {}
    for key, value in said.items():
        there: Any = present.get(key)
        if there is None or isinstance(value, str):
            new[key] = value
        elif there.id == "sequence" and there.value:
            edits.append_items(there, value, in_flow or bool(there.flow_style))
        elif there.id == "scalar" and there.value and edits.is_one_line(there):
            edits.replace_scalar(there, ", ".join([there.value, *value]), in_flow)
        else:
            raise _unsafe(name)
    if new:
        edits.append_pairs((mapping, mapping), new, in_flow)
    before = next(user for user in old.users if user.name == name).model_dump()
    more = {
        key: (*before[key], *value) if key in ("keys", "groups", "accounts") else value for key, value in said.items()
    }
    return _checked(edits.applied(), old, name, {**before, **more})


def without_user(text: str, name: str) -> str:
    """The text of a cluster file without a user.

    Args:
        text: the cluster file, line ends as they are.
        name: a user's login name.

    Raises:
        InputError: accounts have the user as a coordinator, or the file is written in a way that cannot be cut safely.
    """
    old = inventory.parse(text, _WHERE)
    accounts = [account.name for account in old.accounts if name in account.coordinators]
    if accounts:
        raise InputError(
            f"{name} is a coordinator of {', '.join(accounts)}. Take that out of the cluster file first. Nothing was "
            "changed."
        )
    root = reading.compose(text, _WHERE)
    users: Any = _value(root, "users")
    edits = Edits(text)
    edits.remove_item(users, _entry(root, name)[0])
    return _checked(edits.applied(), old, name, None)


def _value(mapping: MappingNode, key: str) -> Any:
    """The node of a key that is known to be there."""
    return next(value for name, value in mapping.value if name.value == key)


def _entry(root: MappingNode, name: str) -> tuple[int, Node]:
    """The entry of a user who is known to be there, with its number."""
    users: Any = _value(root, "users")
    for number, entry in enumerate(users.value):
        if any(key.value == "name" and value.value == name for key, value in entry.value):
            return number, entry
    raise _unsafe(name)


def _checked(text: str, old: Cluster, name: str, wanted: Mapping[str, Any] | None) -> str:
    """The new text, once it is known to say this of one user, and of all else what the old one said."""
    from slurmfab.clusterfile.accounting import User  # noqa: PLC0415 - pydantic is slow to import

    try:
        reading.compose(text, _WHERE)
    except ClusterFileError as error:
        raise _unsafe(name) from error
    new = inventory.parse(text, _WHERE)
    others = [user for user in old.users if user.name != name]
    found = [user.model_dump() for user in new.users if user.name == name]
    is_right = (
        found == ([User.model_validate(dict(wanted)).model_dump()] if wanted is not None else [])
        and [user.model_dump() for user in new.users if user.name != name] == [user.model_dump() for user in others]
        and new.model_dump(exclude={"users"}) == old.model_dump(exclude={"users"})
    )
    if not is_right:
        raise _unsafe(name)
    return text


def _unsafe(name: str) -> InputError:
    return InputError(
        f"{_WHERE} is written in a way that cannot be changed safely; nothing was changed. Change what it says of "
        f"{name} under users by hand, then run `fab deploy`."
    )
