"""Change YAML text at given places; comments, order, quotes and indents elsewhere stay unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from slurmfab.cluster.inventory.yaml_nodes import BYTE_ORDER_MARK

# Text that needs no quotes: a colon before text has no meaning in YAML; commas and brackets have one in { } and [ ].
_PLAIN = re.compile(r"[A-Za-z0-9/._~](?:[A-Za-z0-9/._~@+%=()-]|:(?=[A-Za-z0-9/]))*")
_PLAIN_IN_BLOCK = re.compile(r"[A-Za-z0-9/._~](?:[A-Za-z0-9/._~@+%=()\[\],-]|:(?=[A-Za-z0-9/\[]))*")
# The values of a new mapping: texts, lists of texts, or mappings of texts.
Pairs = Mapping[str, str | Sequence[str] | Mapping[str, str]]
_SHORT_LIST = 60
_WORDS_WITH_MEANING = ("null", "~", "true", "false")


def yaml_text(text: str, in_flow: bool = False) -> str:
    """A text as a YAML scalar, quoted only where it must be.

    >>> yaml_text("cn[01-04]"), yaml_text("cn[01-04]", in_flow=True)
    ('cn[01-04]', '"cn[01-04]"')

    Args:
        in_flow: whether it is inside `{ }` or `[ ]`.
    """
    plain = _PLAIN if in_flow else _PLAIN_IN_BLOCK
    if plain.fullmatch(text) and text.lower() not in _WORDS_WITH_MEANING:
        return text
    return json.dumps(text, ensure_ascii=False)


class Edits:
    """Collects changes to a text at original places; `in_flow`: inside `{ }` or `[ ]`, where more is quoted."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix(BYTE_ORDER_MARK)
        self._before = text[: len(text) - len(self._text)]
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._changes: list[tuple[int, int, str]] = []

    def applied(self) -> str:
        """The text with all changes made."""
        text = self._text
        # From the end, so that places remain valid; two changes at one place keep their order.
        in_order = sorted(enumerate(self._changes), key=lambda numbered: (numbered[1][0], numbered[0]))
        for _, (start, end, new) in reversed(in_order):
            text = text[:start] + new + text[end:]
        return self._before + text

    def is_one_line(self, scalar: ScalarNode) -> bool:
        """Whether a scalar is on one line."""
        return scalar.style not in ("|", ">") and scalar.start_mark.line == scalar.end_mark.line

    def replace_scalar(self, scalar: ScalarNode, text: str, in_flow: bool) -> None:
        """Replace the text of a scalar, inside its quotes."""
        quoted = f"{scalar.style}{text}{scalar.style}" if scalar.style else yaml_text(text, in_flow)
        self._changes.append((scalar.start_mark.index, scalar.end_mark.index, quoted))

    def replace_value(self, node: Node, value: str | Mapping[str, str], in_flow: bool) -> bool:
        """Replace the value of a pair where it is, if old and new are of one kind and on one line; whether they are."""
        if isinstance(node, ScalarNode) and isinstance(value, str) and node.value and self.is_one_line(node):
            self.replace_scalar(node, value, in_flow)
            return True
        if isinstance(node, MappingNode) and isinstance(value, Mapping) and node.flow_style:
            self._changes.append((node.start_mark.index, self._end(node), _flow(value)))
            return True
        return False

    def replace_text(self, scalar: ScalarNode, text: str, in_flow: bool) -> None:
        """Replace the text of a scalar of any kind; one over several lines becomes one line."""
        if self.is_one_line(scalar):
            self.replace_scalar(scalar, text, in_flow)
        else:
            self._changes.append((scalar.start_mark.index, self._end(scalar), yaml_text(text, in_flow)))

    def replace_list(self, scalar: ScalarNode) -> None:
        """Replace a scalar by an empty list."""
        self._changes.append((scalar.start_mark.index, self._end(scalar), "[]"))

    def fill_list(self, items: SequenceNode, text: str) -> None:
        """Add one entry to an empty list."""
        self._changes.append((items.start_mark.index, items.end_mark.index, f"[{yaml_text(text, True)}]"))

    def remove_item(self, items: SequenceNode, number: int) -> None:
        """Remove an entry from a list; the last one leaves `[]`."""
        spans = [(item.start_mark.index, self._end(item)) for item in items.value]
        if not items.flow_style and len(spans) == 1:
            self._empty(self._dash_before(spans[0][0]), spans[0][1], "[]")
        elif items.flow_style:
            self._cut_from_flow(spans, number)
        else:
            self._cut_lines(self._dash_before(spans[number][0]), spans[number][1])

    def remove_pair(self, mapping: MappingNode, number: int) -> None:
        """Remove a pair from a mapping; the last one leaves `{}`."""
        spans = [(key.start_mark.index, self._end(value)) for key, value in mapping.value]
        if not mapping.flow_style and len(spans) == 1:
            self._empty(*spans[0], "{}")
        elif mapping.flow_style:
            self._cut_from_flow(spans, number)
        else:
            self._cut_lines(*spans[number])

    def append_items(self, items: SequenceNode, texts: Sequence[str], in_flow: bool) -> None:
        """Add scalars at the end of a list that is not empty."""
        if items.flow_style:
            self._insert(self._end(items.value[-1]), "".join(f", {yaml_text(text, in_flow)}" for text in texts))
        else:
            self._insert_lines(items.value[-1], [self._dash(items) + yaml_text(text) for text in texts])

    def append_mapping(self, items: SequenceNode, pairs: Pairs, in_flow: bool) -> None:
        """Add a mapping at the end of a list that is not empty."""
        if in_flow:
            self._insert(self._end(items.value[-1]), f", {_flow(pairs)}")
            return
        dash = self._dash(items)
        lines = _block(pairs, len(dash))
        lines[0] = dash + lines[0].lstrip()
        self._insert_lines(items.value[-1], lines)

    def append_entry(self, section: tuple[Node, Node], pairs: Pairs, in_flow: bool) -> None:
        """Add a mapping at the end of a list of mappings, empty or missing after its key, inside `{ }` or not."""
        key, value = section
        if isinstance(value, SequenceNode) and value.value:
            self.append_mapping(value, pairs, in_flow or bool(value.flow_style))
        elif in_flow:
            self._changes.append((value.start_mark.index, value.end_mark.index, f"[{_flow(pairs)}]"))
        else:
            behind_key = len(self._text[: value.start_mark.index].rstrip(" "))
            self._changes.append((behind_key, value.end_mark.index, ""))
            self._insert_lines(value, _entry(pairs, key.start_mark.column + 2))

    def append_section(self, root: MappingNode, key: str, pairs: Pairs) -> None:
        """Add a key at the end of the file, with a list of one mapping."""
        if root.flow_style:
            self._insert(self._end(root.value[-1][1]), f", {key}: [{_flow(pairs)}]")
            return
        column = root.value[0][0].start_mark.column
        lines = ["", f"{' ' * column}{key}:", *_entry(pairs, column + 2)]
        self._insert(len(self._text.rstrip()), "".join(self._line_end + line for line in lines))

    def append_pairs(self, section: tuple[Node, Node], pairs: Pairs, in_flow: bool) -> None:
        """Add pairs at the end of a mapping, which may be empty. `in_flow`: whether the section is inside `{ }`."""
        key, value = section
        if isinstance(value, MappingNode) and value.value:
            last = value.value[-1][1]
            if value.flow_style:
                self._insert(self._end(last), f", {_flow(pairs)[1:-1]}")
            else:
                self._insert_lines(last, _block(pairs, value.value[0][0].start_mark.column))
        elif in_flow or isinstance(value, MappingNode):
            self._changes.append((value.start_mark.index, value.end_mark.index, _flow(pairs)))
        else:
            self._changes.append((value.start_mark.index, value.end_mark.index, ""))
            self._insert_lines(value, _block(pairs, key.start_mark.column + 2))

    def insert_section(self, root: MappingNode, after: str, key: str, pairs: Pairs) -> None:
        """Add a key with a mapping after an existing key."""
        value = next(value for name, value in root.value if name.value == after)
        if root.flow_style:
            self._insert(self._end(value), f", {key}: {_flow(pairs)}")
        else:
            column = root.value[0][0].start_mark.column
            self._insert_lines(value, [f"{' ' * column}{key}:", *_block(pairs, column + 2)])

    def _cut_from_flow(self, spans: Sequence[tuple[int, int]], number: int) -> None:
        """Remove the text between two commas, and one of the commas; comments around it stay."""
        start, end = spans[number]
        comma = re.compile(r"\s*,").match(self._text, end)
        if comma:
            rest = self._text[comma.end() :]
            self._cut_line_part(start, comma.end() + len(rest) - len(rest.lstrip(" \t")))
            return
        before = re.compile(r"\s*,").match(self._text, spans[number - 1][1]) if number else None
        if before:
            self._changes.append((before.end() - 1, before.end(), ""))
        self._cut_line_part(len(self._text[:start].rstrip(" \t")), end)

    def _cut_line_part(self, start: int, end: int) -> None:
        """Remove a part of a line, or the whole line if it has nothing else."""
        line = self._text.rfind("\n", 0, start) + 1
        following = self._text.find("\n", end)
        is_alone = not self._text[line:start].strip() and following >= 0 and not self._text[end:following].strip()
        self._changes.append((line, following + 1, "") if is_alone else (start, end, ""))

    def _cut_lines(self, start: int, end: int) -> None:
        """Remove whole lines, with a comment after the last one."""
        first = self._text.rfind("\n", 0, start) + 1
        following = self._text.find("\n", end)
        if following >= 0:
            self._changes.append((first, following + 1, ""))
        else:
            self._changes.append((len(self._text[:first].rstrip("\r\n")), len(self._text), ""))

    def _empty(self, start: int, end: int, text: str) -> None:
        """Replace the whole value of a key by brackets: after its colon, unless a comment follows there."""
        colon = len(self._text[:start].rstrip())
        if self._text[:colon].endswith(":"):
            self._changes.append((colon, end, f" {text}"))
        else:
            self._changes.append((start, end, f"  {text}"))

    def _dash_before(self, place: int) -> int:
        """The place of the dash before an entry of a list."""
        return self._text.rindex("-", 0, place)

    def _insert(self, place: int, text: str) -> None:
        self._changes.append((place, place, text))

    def _insert_lines(self, after: Node, lines: Sequence[str]) -> None:
        """Insert lines below the line on which a node ends, after a comment there."""
        end = self._text.find("\n", self._end(after))
        place = len(self._text) if end < 0 else end - (self._text[end - 1] == "\r")
        self._insert(place, "".join(self._line_end + line for line in lines))

    def _end(self, node: Node) -> int:
        """The place after a node's last character; PyYAML's end mark is where the next token begins."""
        if isinstance(node, MappingNode | SequenceNode) and node.value and not node.flow_style:
            last = node.value[-1]
            return self._end(last[1] if isinstance(node, MappingNode) else last)
        return len(self._text[: node.end_mark.index].rstrip())

    def _dash(self, items: SequenceNode) -> str:
        """The text before the last entry of a list, such as two spaces, a dash and a space."""
        start = items.value[-1].start_mark
        before = self._text[start.index - start.column : start.index]
        return before if before.strip() == "-" else " " * int(items.start_mark.column) + "- "


def _block(pairs: Pairs, column: int) -> list[str]:
    """Pairs in lines that begin at a column; a long list has a line for each of its texts."""
    lines: list[str] = []
    for key, value in pairs.items():
        line = f"{' ' * column}{yaml_text(key)}: {_value(value, False)}"
        if isinstance(value, str | Mapping) or len(line) <= _SHORT_LIST:
            lines.append(line)
        else:
            lines += [f"{' ' * column}{yaml_text(key)}:", *(f"{' ' * column}  - {yaml_text(text)}" for text in value)]
    return lines


def _entry(pairs: Pairs, column: int) -> list[str]:
    """Pairs as an entry of a list whose dashes are at a column."""
    first, *more = _block(pairs, column + 2)
    return [f"{' ' * column}- {first.lstrip()}", *more]


def _flow(pairs: Pairs) -> str:
    """Pairs in braces."""
    return "{" + ", ".join(f"{yaml_text(key, True)}: {_value(value, True)}" for key, value in pairs.items()) + "}"


def _value(value: str | Sequence[str] | Mapping[str, str], in_flow: bool) -> str:
    """A text, a list in brackets, or a mapping in braces."""
    if isinstance(value, Mapping):
        return _flow(value)
    return (
        yaml_text(value, in_flow) if isinstance(value, str) else f"[{', '.join(yaml_text(one, True) for one in value)}]"
    )
