"""The switches of a cluster file replaced by others."""

from __future__ import annotations

from collections.abc import Sequence

from yaml.nodes import SequenceNode

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Switch
from slurmfab.cluster.inventory.edits.yaml_text import Edits
from slurmfab.cluster.inventory.yaml_nodes import compose

KEY = "topology"
_WHERE = "The edited cluster file"


def with_topology(text: str, switches: Sequence[Switch]) -> str:
    """The text of a cluster file with these switches, which are at its end; nothing else changes.

    Raises InputError if the text cannot be edited safely, or the switches do not fit the nodes.
    """
    old, edits, root = loading.parse(text, _WHERE), Edits(text), compose(text, _WHERE)
    places = [number for number, (key, _) in enumerate(root.value) if key.value == KEY]
    if places:
        edits.remove_pair(root, places[0])
        text = edits.applied().rstrip() + "\n"
    for number, switch in enumerate(switches):
        pairs = {"SwitchName": switch.name}
        pairs |= {"Nodes": fold(switch.nodes)} if switch.nodes else {"Switches": fold(switch.switches)}
        edits, root = Edits(text), compose(text, _WHERE)
        if number:
            section = next(value for key, value in root.value if key.value == KEY)
            assert isinstance(section, SequenceNode)
            edits.append_mapping(section, pairs, bool(root.flow_style))
        else:
            edits.append_section(root, KEY, pairs)
        text = edits.applied()
    new = loading.parse(text, _WHERE)
    if new.model_dump(exclude={KEY}) != old.model_dump(exclude={KEY}) or len(new.topology) != len(switches):
        raise InputError("This cluster file cannot be edited safely; write the switches into it by hand.")
    return text
