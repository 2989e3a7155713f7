"""Add users to a cluster file, change them, or remove them; no other byte changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.yaml_text import Edits
from slurmfab.cluster.inventory.yaml_nodes import compose

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

    from slurmfab.cluster.inventory.cluster import Cluster

_WHERE = "the cluster file"
UserValues = Mapping[str, str | Sequence[str]]  # values of a user, by key of the cluster file


def with_user(text: str, name: str, values: UserValues) -> str:
    """Add a new user to the file's text; ClusterFileError for mistakes, InputError if it cannot be done safely."""
    old = loading.parse(text, _WHERE)
    root = compose(text, _WHERE)
    edits = Edits(text)
    entry = {"name": name, **values}
    sections = {key.value: (key, value) for key, value in root.value}
    if "users" in sections:
        edits.append_entry(sections["users"], entry, in_flow=bool(root.flow_style))
    else:
        edits.append_section(root, "users", entry)
    return _checked(edits.applied(), old, name, entry)


def with_more(text: str, name: str, values: UserValues) -> str:
    """Add values to a user in the text of a cluster file: further entries of lists, and missing keys.

    `values`: what to add: the new entries of lists; texts only for keys that are missing. Raises ClusterFileError if
    the values have mistakes. Raises InputError if the file is written in a way that cannot be extended safely.
    """
    old = loading.parse(text, _WHERE)
    root = compose(text, _WHERE)
    edits = Edits(text)
    mapping: Any = _entry(root, name)[1]
    in_flow = bool(root.flow_style or _value(root, "users").flow_style or mapping.flow_style)
    present = {key.value: value for key, value in mapping.value}
    new: dict[str, str | Sequence[str]] = {}
    for key, value in values.items():
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
        key: (*before[key], *value) if key in ("keys", "groups", "accounts") else value for key, value in values.items()
    }
    return _checked(edits.applied(), old, name, {**before, **more})


def without_user(text: str, name: str) -> str:
    """Remove a user from a cluster file's text; InputError for a coordinator, or if the text is too special."""
    old = loading.parse(text, _WHERE)
    accounts = [account.name for account in old.accounts if name in account.coordinators]
    if accounts:
        raise InputError(
            f"{name} is a coordinator of {', '.join(accounts)}. Remove that from the cluster file first. Nothing was "
            "changed."
        )
    root = compose(text, _WHERE)
    users: Any = _value(root, "users")
    edits = Edits(text)
    edits.remove_item(users, _entry(root, name)[0])
    return _checked(edits.applied(), old, name, None)


def _value(mapping: MappingNode, key: str) -> Any:
    """The value of a key that exists."""
    return next(value for name, value in mapping.value if name.value == key)


def _entry(root: MappingNode, name: str) -> tuple[int, Node]:
    """The number and the entry of a user that exists."""
    users: Any = _value(root, "users")
    for number, entry in enumerate(users.value):
        if any(key.value == "name" and value.value == name for key, value in entry.value):
            return number, entry
    raise _unsafe(name)


def _checked(text: str, old: Cluster, name: str, wanted: Mapping[str, Any] | None) -> str:
    """Check that the new text has these values of one user and is otherwise equal to the old one, and return it."""
    from slurmfab.cluster.inventory.accounting import User  # pydantic is slow to import

    try:
        compose(text, _WHERE)
    except ClusterFileError as error:
        raise _unsafe(name) from error
    new = loading.parse(text, _WHERE)
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
        f"{_WHERE} is written in a way that cannot be changed safely; nothing was changed. Change the entry of "
        f"{name} under users by hand, then run `{FAB} deploy`."
    )
