"""Parse YAML text to nodes with their places in the text: PyYAML's parser with stricter rules.

PyYAML reads YAML 1.1, where `no` is false, `010` is 8 and the last of two equal keys is used. So this module uses only
its events and interprets them itself, with `reading`: scalars as in YAML 1.2's core schema, except that numbers remain
text; one document; and limits on depth and size, so that no file takes long or exhausts stack or memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
)
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from slurmfab.base import hostlist
from slurmfab.base.errors import ClusterFileError

if TYPE_CHECKING:
    from yaml.events import Event

BYTE_ORDER_MARK = "\ufeff"  # a character that some editors put before a text; places of nodes do not count it
TAG = "tag:yaml.org,2002:"  # the prefix of the tags that YAML itself defines
INSIDE_ITSELF = "inside itself"  # the tag for an alias inside its own anchor; no YAML text can contain it

NULLS = ("", "~", "null", "Null", "NULL")
TRUTHS = ("true", "True", "TRUE", "false", "False", "FALSE")
_WITH_MEANING = frozenset((*NULLS, *TRUTHS))

# libyaml's parser is written in C and many times faster. But it accepts some tabs that the Python parser refuses, and a
# file must be valid or invalid on all machines alike. So the Python parser reads texts with tabs.
_STRICT_ABOUT_TABS: Any = yaml.SafeLoader
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_WITH_TABS = 512 * 1024
"""The Python parser reads so many characters in some seconds; libyaml reads 16 MiB in that time."""

_DEEPEST = 64
_MOST_ALIASED = 250_000
_MOST_VALUES = 1_000_000
_VALUE_LENGTH = 1000  # a text counts as one more value for each so many characters, and a hostlist as its hosts

_LONG_NUMBER = re.compile(rf"[0-9]{{{_VALUE_LENGTH}}}")

# A blank that is none for YAML, at the beginning of a line: from a web page, or a word processor.
_NO_BLANK = re.compile("^[ \t]*(?=[\u00a0\u2000-\u200a\u202f\u3000])", re.MULTILINE)

# Control characters; and characters that end a line for PyYAML, or are invisible in editors, but are text in YAML 1.2.
_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff" + BYTE_ORDER_MARK + "]"
)


@dataclass(frozen=True)
class _Open:
    """A mapping or list whose end has not been read yet."""

    node: CollectionNode
    around: list[Node]  # the values of the mapping or list around it
    anchor: str  # its anchor; empty for none
    before: int  # number of values before it


def compose(text: str, where: str, advice: str = "") -> MappingNode:
    """Parse YAML to nodes with places after a byte order mark; ClusterFileError if it is no mapping, or empty."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    _check_characters(text, where)
    if "\t" in text and len(text) > _MOST_WITH_TABS:
        line = _line_after(text[: text.index("\t")])
        raise ClusterFileError((f"{where}:{line}: a tab; a file of more than {_MOST_WITH_TABS >> 10} KiB has none.",))
    try:
        loader = _STRICT_ABOUT_TABS if "\t" in text else _LOADER
        root = _Composer(where).root(yaml.parse(text, Loader=loader))
    except MarkedYAMLError as error:
        line, reason = _mistake(error, text)
        raise ClusterFileError((f"{where}:{line}: this is not valid YAML: {reason}",)) from error
    except YAMLError as error:
        raise ClusterFileError((f"{where}:1: this is not valid YAML: {' '.join(str(error).split())}",)) from error
    if root is None or root.tag == TAG + "null":
        raise ClusterFileError((f"{where}:1: the file is empty.{advice}",))
    if not isinstance(root, MappingNode):
        line = root.start_mark.line + 1
        raise ClusterFileError((f"{where}:{line}: the file must be a mapping, with lines such as `cluster: titanic`.",))
    return root


class _Composer:
    """Makes nodes from events without recursion, so that a deep file needs no deep stack.

    An alias becomes the node with the anchor. All values are counted, those of aliases and the hosts of hostlists, too,
    so that no short file expands to a huge one.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._values: list[Node] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._sizes: dict[str, int] = {}
        self._count = 0
        self._aliased = 0

    def root(self, events: Iterable[Event]) -> Node | None:
        """The root node of the document; `None` for an empty text."""
        for event in events:
            if isinstance(event, ScalarEvent):
                if len(event.value) >= _VALUE_LENGTH and _LONG_NUMBER.search(event.value):
                    raise self._refusal(event, f"a number of more than {_VALUE_LENGTH} digits.")
                self._add(event, _scalar(event), hostlist.count_names(event.value) + len(event.value) // _VALUE_LENGTH)
            elif isinstance(event, CollectionStartEvent):
                self._begin(event)
            elif isinstance(event, CollectionEndEvent):
                self._end(event)
            elif isinstance(event, AliasEvent):
                self._add_aliased(event)
            elif isinstance(event, DocumentStartEvent):
                self._check_document(event)
        return self._values[0] if self._values else None

    def _add(self, event: Any, node: Node, size: int = 1) -> None:
        """Add a node, which counts as so many values."""
        self._values.append(node)
        self._count += size
        if self._count > _MOST_VALUES:
            raise self._refusal(event, f"the file has more than {_MOST_VALUES} values and hosts up to here.")
        if event.anchor:
            self._anchors[event.anchor] = node
            self._sizes[event.anchor] = size

    def _begin(self, event: CollectionStartEvent) -> None:
        """Begin a mapping or a list."""
        if len(self._open) >= _DEEPEST:
            raise self._refusal(event, f"it is nested more than {_DEEPEST} levels deep.")
        node, before = _collection(event), self._count
        self._add(event, node)
        self._open.append(_Open(node, self._values, event.anchor or "", before))
        self._values = []

    def _end(self, event: CollectionEndEvent) -> None:
        """End the mapping or list that began last."""
        ended = self._open.pop()
        keys_and_values = zip(self._values[::2], self._values[1::2], strict=True)
        ended.node.value = list(keys_and_values) if isinstance(event, MappingEndEvent) else self._values
        ended.node.end_mark = event.end_mark
        self._values = ended.around
        if ended.anchor:
            self._sizes[ended.anchor] = self._count - ended.before

    def _add_aliased(self, event: AliasEvent) -> None:
        """Add the node that an alias refers to."""
        name, mark = event.anchor, _mark(event)
        if name not in self._anchors:
            raise MarkedYAMLError(None, None, f"the alias *{name} has no anchor &{name} before it", mark)
        node = self._anchors[name]
        if any(node is one.node for one in self._open):
            node = ScalarNode(INSIDE_ITSELF, name, mark, mark)
        self._values.append(node)
        self._count += self._sizes[name]
        self._aliased += self._sizes[name]
        if self._aliased > _MOST_ALIASED:
            raise self._refusal(event, f"its aliases stand for more than {_MOST_ALIASED} values.")

    def _check_document(self, event: DocumentStartEvent) -> None:
        """Refuse a second document, and a document for another YAML version."""
        if self._values:
            raise MarkedYAMLError(None, None, "a second document begins here", _mark(event))
        if event.version and tuple(event.version) != (1, 2):
            version = ".".join(map(str, event.version))
            raise self._refusal(event, f"the file is read as YAML 1.2. Delete the line %YAML {version}.")

    def _refusal(self, event: Event, reason: str) -> ClusterFileError:
        return ClusterFileError((f"{self._where}:{_mark(event).line + 1}: {reason}",))


def _mark(event: Event) -> Any:
    """Where an event begins; Any, as PyYAML has two classes of marks, but nodes and errors declare only one."""
    return event.start_mark


def _scalar(event: Any) -> ScalarNode:
    """A scalar node; without a tag it gets that of YAML 1.2's core schema, except that numbers are text."""
    tag = event.tag if event.tag != "!" else TAG + "str"
    if not tag:
        is_text = event.style or event.value not in _WITH_MEANING
        tag = TAG + ("str" if is_text else "null" if event.value in NULLS else "bool")
    return ScalarNode(tag, event.value, event.start_mark, event.end_mark, event.style)


def _collection(event: Any) -> CollectionNode:
    """The node of a mapping or a list, without values."""
    kind, name = (MappingNode, "map") if isinstance(event, MappingStartEvent) else (SequenceNode, "seq")
    tag = event.tag if event.tag not in (None, "!") else TAG + name
    return kind(tag, [], event.start_mark, None, event.flow_style)


def _check_characters(text: str, where: str) -> None:
    """Refuse characters that YAML does not allow, or that YAML 1.1 and 1.2 read differently."""
    found = _REFUSED.search(text)
    if found:
        line = _line_after(text[: found.start()])
        reason = f"this is not valid YAML: it holds the invisible character U+{ord(found[0]):04X}. Delete it."
        raise ClusterFileError((f"{where}:{line}: {reason}",))
    found = _NO_BLANK.search(text)
    if found:
        line, character = _line_after(text[: found.end()]), ord(text[found.end()])
        reason = f"this is not valid YAML: it begins with a blank that is none (U+{character:04X}); write spaces there."
        raise ClusterFileError((f"{where}:{line}: {reason}",))


def _line(error: MarkedYAMLError, text: str) -> int:
    """The line of a mistake; if the file ends too early, the line where the unfinished part begins."""
    for mark in (error.problem_mark, error.context_mark):
        if mark and text[mark.index :].strip():
            return mark.line + 1
    return _line_after(text.rstrip())


def _line_after(text: str) -> int:
    """The number of the line, from 1, at the end of a text."""
    return 1 + len(re.findall("\r\n|\r|\n", text))


_KEY_LINE = re.compile(r"(?P<before> *(?:- +)*)(?P<key>[\w.-]+|\"[^\"]*\"|'[^']*') *:(?= |$)")
_NO_COLON = re.compile(r"(?P<before> *(?:- +)*)(?P<key>[A-Za-z_]\w*) *(?:[:=] *| +)(?P<value>\S.*?) *")
_OF_INDENTATION = (
    "did not find expected '-' indicator",
    "did not find expected key",
    "<block end>",
    "not allowed in this",
)


def _mistake(error: MarkedYAMLError, text: str) -> tuple[int, str]:
    """The line of a mistake and what is wrong there, with what to write for the commonest ones."""
    problem, context = error.problem or "", error.context or ""
    reason = ", ".join(word for word in (context, problem) if word)
    mark, begin = error.problem_mark, error.context_mark
    character = text[mark.index : mark.index + 1] if mark else ""
    lines = re.split("\r\n|\r|\n", text)
    number = _line(error, text)
    line = lines[number - 1]
    if character == "\t":
        return number, f"{reason}. Indent with spaces, not with tabs"
    if character and character in "@`%" and "cannot start any token" in problem:
        return number, f"{reason}. A text that begins with {character} needs quotes"
    if "scanning an alias" in context:
        return (
            number,
            "* begins an alias here. For all nodes write ALL, and put other texts that begin with * in quotes",
        )
    if "flow" in context and begin:
        if character == "[":
            return number, f'{reason}. Inside {{ }} and [ ] a hostlist needs quotes: {{Nodes: "cn[01-04]"}}'
        if not mark or mark.line > begin.line:
            opened = text[begin.index : begin.index + 1]
            return (
                begin.line + 1,
                f"{opened} has no {']' if opened == '[' else '}'} that closes it; write both on this line",
            )
        return number, reason
    if "could not find expected ':'" in problem and begin:
        words = _NO_COLON.fullmatch(lines[begin.line])
        advice = f"; write {words['key']}: {words['value']}" if words else ""
        return begin.line + 1, f"a key needs a colon and a space behind it{advice}"
    if "block sequence entries" in problem:
        return number, "a list begins on a line of its own: write its first `- ` below its key"
    if mark and "mapping values" in problem and (own := _KEY_LINE.match(line)) and mark.column > own.end():
        return (
            number,
            f'a text with a colon and a space in it needs quotes: {own["key"]}: "{line[own.end() :].strip()}"',
        )
    if any(words in problem for words in _OF_INDENTATION):
        return number, _indentation(lines, number)
    return number, reason


def _indentation(lines: list[str], number: int) -> str:
    """Which columns the line with this number may begin in, by the keys above it."""
    column = len(lines[number - 1]) - len(lines[number - 1].lstrip(" ")) + 1
    above: dict[int, str] = {}
    for index in range(number - 2, -1, -1):
        found = _KEY_LINE.match(lines[index])
        place = found.end("before") + 1 if found else 0
        if found and place < min(above, default=place + 1):
            above[place] = f"{found['key']} (line {index + 1}) begins in column {place}"
    known = "; ".join(above.values())
    return f"it is indented to column {column}; keys that belong together begin in one column: {known}"
