"""Output for people: lines wrapped between words, tables, colours, and a status line while they wait.

Only a terminal gets any of that. A file or a pipe gets whole lines without colours, for grep.

All text leaves the program through one filter, because hosts, users and files write parts of it: characters that steer
a terminal, or that turn the direction of text, are written out, as `\\x1b`. Our own colours carry a mark until then,
which nobody else can know, so that they pass and the colours of others do not.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"
"""Colours and weights, as terminals number them (ECMA-48, SGR)."""

DEFAULT_COLUMNS = 80  # the width of a terminal that does not tell it
HANGING_INDENT = "    "  # how much further than its first line the rest of a wrapped line begins
COLUMN_GAP = 2  # spaces between the columns of a table
REDRAW_SECONDS = 1.0  # how often the status line is drawn while nothing else happens, so that its seconds go on

FASTEST_DRAW_SECONDS = 0.05
"""The time between two changes of the status line that are both shown; ten thousand hosts make many."""

_MARK = os.urandom(8).hex()
"""What tells our own colours from the escape sequences of others; random for each process, and never printed."""

_ESCAPE = re.compile(rf"\x1b(?:{_MARK})?\[[0-9;]*[A-Za-z]")
_OWN_COLOUR = re.compile(rf"\x1b{_MARK}(?=\[[0-9;]*m)")
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters (C0 and C1), but for tabs and newlines

_UNSEEN = "\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Characters that are invisible, that end a line, or that turn the direction of text."""

_SURROGATES = "\ud800-\udfff"  # what no encoding has; Python puts them in place of bytes that are no UTF-8

_STEERING = re.compile(rf"[{_CONTROLS}{_UNSEEN}{_SURROGATES}](?!(?<=\x1b){_MARK}\[[0-9;]*m)")
_WORD = re.compile(r"\s*\S+")
_AFTER_COMMA = re.compile(r"(?<=,)")


class Cell(NamedTuple):
    """A table's cell: its text, and its colour if it has one."""

    text: str
    colour: str = ""


class Paint:
    """Colours text for one stream, but not without a terminal, with NO_COLOR or TERM=dumb; `width` 0: no limit."""

    def __init__(self, out: TextIO) -> None:
        self.width = columns(out)
        self.is_on = is_terminal(out) and not os.environ.get("NO_COLOR")

    def __call__(self, text: str, colour: str) -> str:
        """The text in a colour, one of the constants above; only what this module prints shows it."""
        return f"\x1b{_MARK}[{colour}m{text}\x1b{_MARK}[0m" if self.is_on and text and colour else text


class Guarded:
    """A stream that filters all that is written, by libraries too, and discards it after its reader has left."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text without what could steer a terminal."""
        with self.while_read():
            self.stream.write(_with_colours(harmless(text)))
        return len(text)

    def flush(self) -> None:
        """Write what is still in memory."""
        with self.while_read():
            self.stream.flush()

    @contextmanager
    def while_read(self) -> Iterator[None]:
        """Discard all further text once its reader has left."""
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts, see `write`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def guard_output() -> None:
    """Put the filter in front of standard output and standard error, for the rest of the program."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Guarded):
            setattr(sys, name, Guarded(stream))


def unguarded(out: TextIO) -> TextIO:
    """The stream behind the filter, for text that has passed it."""
    return out.stream if isinstance(out, Guarded) else out


def harmless(text: str) -> str:
    """A text with the characters that steer terminals or turn the direction of text written out.

    >>> print(harmless("job \\x1b[2J"))
    job \\x1b[2J
    """
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def in_one_line(text: str) -> str:
    """A harmless text with newlines and tabs written out as well, for cells and names."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def hang(text: str) -> str:
    """A text from elsewhere, indented from its second line on, so that none of its lines looks like one of ours.

    >>> hang("one\\ntwo")
    'one\\n    two'
    """
    return re.sub(rf"\n(?!{HANGING_INDENT}|\n|\Z)", f"\n{HANGING_INDENT}", text)


def _with_colours(text: str) -> str:
    """A harmless text whose marked colours have become escape sequences."""
    return _OWN_COLOUR.sub("\x1b", text)


def is_terminal(out: TextIO) -> bool:
    """Whether a stream is a terminal that understands control sequences."""
    return out.isatty() and os.environ.get("TERM") != "dumb"


def columns(out: TextIO) -> int:
    """How many characters fit into a line of a stream: COLUMNS, or what the terminal tells; 0 if it is not one."""
    if not out.isatty():
        return 0
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(out.fileno()).columns or DEFAULT_COLUMNS
    except (OSError, ValueError):
        return DEFAULT_COLUMNS


def write(text: str, out: TextIO) -> None:
    """Print lines, each wrapped to the stream's width, through the filter."""
    print(_with_colours(fit(text, out)), file=unguarded(out), flush=True)


def fit(text: str, out: TextIO) -> str:
    """Harmless lines wrapped to a stream's width."""
    return "\n".join(wrap(harmless(text), columns(out)))


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most so many characters; breaks are between words, and after commas in words that do not fit.

    A longer word, such as a path, stays whole. Lines that fit are returned as they are. The rest of a line that does
    not fit is indented further than its beginning.

    >>> wrap("  n1: no space is left", 12)
    ['  n1: no', '      space', '      is', '      left']

    Args:
        text: one line or several; colours in it count as nothing.
    """
    return [piece for line in text.split("\n") for piece in _wrap_line(line, width, HANGING_INDENT)]


def table(rows: Sequence[Sequence[str | Cell]], width: int, paint: Paint | None = None) -> list[str]:
    """Rows as lines, with their cells below each other.

    Cells of a table that is too wide are wrapped between words. Where even single words are too wide, each row becomes
    a paragraph, in which each cell is behind the name of its column. `rows`: the header first; all with the same number
    of cells. `paint`: colours; none when left out.
    """
    cells = [
        [
            cell._replace(text=in_one_line(cell.text)) if isinstance(cell, Cell) else Cell(in_one_line(cell))
            for cell in row
        ]
        for row in rows
    ]
    widths = _column_widths(cells, width)
    if not widths:
        header = [cell.text for cell in cells[0]]
        return [line for row in cells[1:] for line in _paragraph(header, row, width, paint)]
    return [line for row in cells for line in _row_lines(row, widths, paint)]


class StatusLine:
    """The last line of a terminal, which says what goes on and for how long."""

    current: StatusLine | None = None  # the one that is shown, for questions to the user that interrupt it

    def __init__(self, out: TextIO) -> None:
        self.out = unguarded(out)
        self.text = ""
        self.since = time.monotonic()
        self.drawn = 0.0
        self.is_hidden = False
        self.lock = threading.RLock()
        self.ended = threading.Event()
        threading.Thread(target=self.keep_drawing, name="status line", daemon=True).start()
        StatusLine.current = self

    def show(self, text: str, since: float) -> None:
        """Change the text, which is cut off at the line's end; `since`, of `time.monotonic`, is when its work began."""
        with self.lock:
            self.text, self.since = in_one_line(text), since
            if time.monotonic() - self.drawn >= FASTEST_DRAW_SECONDS:
                self.draw()

    def print(self, text: str) -> None:
        """Print lines above it."""
        with self.lock:
            self.erase()
            write(text, self.out)
            self.draw()

    def end(self) -> None:
        """Take it away."""
        with self.lock:
            if not self.ended.is_set():
                self.ended.set()
                self.erase()
        if StatusLine.current is self:
            StatusLine.current = None

    def hide(self, is_hidden: bool) -> None:
        """Leave its line empty until it is shown again."""
        with self.lock:
            self.is_hidden = is_hidden
            if is_hidden:
                self.erase()
            else:
                self.draw()

    def draw(self) -> None:
        """Draw it where it was."""
        if self.ended.is_set() or self.is_hidden or not self.text:
            return
        self.drawn = time.monotonic()
        text = shorten(f"{self.drawn - self.since:3.0f} s  {self.text}", columns(self.out) - 1)
        self.out.write(f"\r{text}\x1b[K")
        self.out.flush()

    def erase(self) -> None:
        """Leave an empty line, with the cursor at its beginning."""
        self.out.write("\r\x1b[K")
        self.out.flush()

    def keep_drawing(self) -> None:
        """Draw it again and again until it ends, since its seconds go on."""
        while not self.ended.wait(REDRAW_SECONDS):
            with self.lock:
                self.draw()


@contextmanager
def without_status_line() -> Iterator[None]:
    """Hide the status line while the user is asked something; other threads may go on meanwhile."""
    status = StatusLine.current
    if status:
        status.hide(True)
    try:
        yield
    finally:
        if status:
            status.hide(False)


def can_ask() -> bool:
    """Whether a user is there to answer: standard input and standard error are a terminal."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def agrees(question: str) -> bool:
    """Whether the user answers yes; no answer is no. `question`: text before the input, with the possible answers."""
    with without_status_line():
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def shorten(text: str, width: int) -> str:
    """A text of at most so many characters; one that is longer ends with … after its last word that fits.

    >>> shorten("asking: n1,n2,n10", 15)
    'asking: n1,n2,…'
    """
    if len(text) <= width:
        return text
    cut = text[: max(width - 1, 0)]
    ends = [match.end() for match in re.finditer(r",|(?=\s)", text[:width]) if match.end() <= len(cut)]
    return (cut[: ends[-1]] if ends and ends[-1] else cut) + "…"


def without_middle(text: str, most: int) -> str:
    """A text of at most so many characters: of a longer one the beginning and the end, which say most.

    >>> without_middle("abcdefghij", 7)
    'abc…hij'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _length(text: str) -> int:
    """How many characters of a text are shown."""
    return len(_ESCAPE.sub("", text))


def _wrap_line(line: str, width: int, hanging: str) -> list[str]:
    """The lines that one line becomes, see `wrap`."""
    if not width or _length(line) <= width:
        return [line]
    text = line.lstrip()
    lead = line[: min(len(line) - len(text), width // 2)]
    rest = lead + hanging if len(lead + hanging) <= width // 2 else lead
    lines, now = [], lead
    for number, word in enumerate(_WORD.findall(text)):
        pieces = [word] if number else [word.lstrip()]
        if _length(rest) + _length(word.lstrip()) > width:
            pieces = _AFTER_COMMA.split(pieces[0])
        for piece in pieces:
            if _length(now) + _length(piece) > width and now.strip():
                lines.append(now)
                now = rest + piece.lstrip()
            else:
                now += piece
    return [*lines, now]


def _column_widths(rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """The width of each column so that the table fits; empty if it cannot fit."""
    by_column = list(zip(*rows, strict=True))
    widths = [max(len(cell.text) for cell in column) for column in by_column]
    if not width:
        return widths
    least = [max(_longest_piece(cell.text) for cell in column) for column in by_column]
    available = width - COLUMN_GAP * (len(widths) - 1)
    if sum(least) > available:
        return []
    while sum(widths) > available:
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _longest_piece(text: str) -> int:
    """The length of the longest part of a text that is never broken: of a word, or between two commas."""
    lead = len(text) - len(text.lstrip())
    return lead + max((len(piece) for word in text.split() for piece in _AFTER_COMMA.split(word)), default=0)


def _row_lines(row: Sequence[Cell], widths: Sequence[int], paint: Paint | None) -> list[str]:
    """A row's lines: one, or more where a cell is wrapped."""
    wrapped = [_wrap_line(cell.text, width, "") for cell, width in zip(row, widths, strict=True)]
    lines = []
    for number in range(max(map(len, wrapped))):
        texts = [cell[number] if number < len(cell) else "" for cell in wrapped]
        last = max((at for at, text in enumerate(texts) if text), default=0)
        painted = [
            (paint(text, row[at].colour) if paint else text) + " " * (0 if at == last else widths[at] - len(text))
            for at, text in enumerate(texts[: last + 1])
        ]
        lines.append((" " * COLUMN_GAP).join(painted))
    return lines


def _paragraph(header: Sequence[str], row: Sequence[Cell], width: int, paint: Paint | None) -> list[str]:
    """A row as a paragraph: each cell behind the name of its column, the first one on a line of its own."""
    named = [f"{name} {cell.text.strip()}" for name, cell in zip(header, row, strict=True) if cell.text]
    if not named[1:]:
        return [paint(cell.text, cell.colour) if paint else cell.text for cell in row if cell.text]
    lines = _wrap_line(named.pop(0), width, HANGING_INDENT) if row[0].text else []
    now = ""
    for text in named:
        if now and len(HANGING_INDENT) + len(now) + COLUMN_GAP + len(text) > width:
            lines += _wrap_line(HANGING_INDENT + now, width, HANGING_INDENT)
            now = ""
        now += " " * COLUMN_GAP * bool(now) + text
    lines += _wrap_line(HANGING_INDENT + now, width, HANGING_INDENT)
    return [paint(line, row[0].colour) for line in lines] if paint else lines
