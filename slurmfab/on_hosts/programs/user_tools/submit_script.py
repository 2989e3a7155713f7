"""A submit script as sbatch reads it (src/sbatch/opt.c), not run: directives, options, and lookalikes."""

from __future__ import annotations

import re
from typing import AbstractSet, Iterator, List, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.programs.user_tools import sbatch_options
from slurmfab.on_hosts.programs.user_tools.findings import Finding, error, warning
from slurmfab.on_hosts.programs.user_tools.job_script import quoted

MOST_BYTES = 4 << 20  # what slurmctld takes unless its administrator says otherwise (slurm.conf(5), max_script_size)

MAGIC = "#SBATCH"
BOM = b"\xef\xbb\xbf"
SPACE = " \t\n\v\f\r"
HETEROGENEOUS = ("hetjob", "packjob")
_HEREDOC = re.compile(r"""(?<![<\d])<<-?\s*(["']?)(\w+)\1""")
_LIKE = re.compile(r"\s*#[ \t]*([A-Za-z]{4,9})[ \t]+(-\S.*)")
SBATCH = "SBATCH"
ALIKE = 0.8  # how alike a word has to be for a misspelling of SBATCH (difflib); SEARCH is none


class Setting(NamedTuple):
    """An option in a directive."""

    name: str  # the long name; empty for a word that is no option
    value: Optional[str]  # its value; `None` if it has none
    line: int
    word: str  # as it is written


class Script(NamedTuple):
    """A submit script."""

    lines: Tuple[str, ...]  # its lines, without line ends
    jobs: Tuple[Tuple[Setting, ...], ...]  # the options of each component; only heterogeneous jobs have several
    body: int  # number of the first line with a command; 0 if there is none
    findings: Tuple[Finding, ...]  # what is wrong with its form


class Word(NamedTuple):
    """A word of a directive."""

    text: str  # without quotes
    line: int


def read(content: bytes, more: AbstractSet[str] = frozenset()) -> Script:
    """Read the first MOST_BYTES of a submit script; `more`: further options of sbatch, as of plugins."""
    found = list(form(content))
    text = content[:MOST_BYTES]
    text = (text[len(BOM) :] if text.startswith(BOM) else text).replace(b"\r\n", b"\n")
    lines = tuple(text.decode("utf-8", "replace").split("\n"))
    body = first_command(lines)
    jobs: List[List[Word]] = [[]]
    for number, line in enumerate(lines[: body - 1 if body else None], 1):
        if not line.startswith(MAGIC):
            continue
        try:
            words = split(line[len(MAGIC) :])
        except ValueError as problem:
            found.append(error(number, "quotes", "%s, so sbatch refuses the script" % problem))
            continue
        if words and words[0].lower() in HETEROGENEOUS:
            jobs.append([])
            words = words[1:]
        jobs[-1] += [Word(word, number) for word in words]
    found += look_alikes(lines, body)
    components = [tuple(settings(words, more, found)) for words in jobs]
    return Script(lines, tuple(components), body, tuple(found))


def form(content: bytes) -> Iterator[Finding]:
    """Yield what is wrong with the bytes of a script."""
    if len(content) > MOST_BYTES:
        yield error(0, "size", "it is larger than 4 MiB, which Slurm refuses; put data into files of its own")
    if not content.strip():
        yield error(0, "empty", "it is empty")
    if content.startswith(BOM):
        text = "it begins with a byte order mark, so that its first line does not begin with #!"
        yield error(1, "bom", text, "the same without it: sed -i '1s/^\\xef\\xbb\\xbf//' FILE")
    if b"\r\n" in content:
        number = content[: content.index(b"\r\n")].count(b"\n") + 1
        text = "lines end as on Windows (CR LF), and sbatch refuses that"
        yield error(number, "crlf", text, "the same with line ends of Linux: sed -i 's/\\r$//' FILE")
    if b"\0" in content:
        number = content[: content.index(b"\0")].count(b"\n") + 1
        yield error(number, "nul", "it holds a NUL byte, and sbatch refuses that")


def first_command(lines: Tuple[str, ...]) -> int:
    """The number of the first line that is neither empty nor a comment; 0 if there is none."""
    for number, line in enumerate(lines, 1):
        stripped = line.lstrip(SPACE)
        if stripped and not stripped.startswith("#"):
            return number
    return 0


def split(line: str) -> List[str]:
    """The words of a directive.

    >>> split(' --job-name="my job" -n 2 # two')
    ['--job-name=my job', '-n', '2']

    Raises:
        ValueError: a quote is not closed, or a word begins with a colon.
    """
    words: List[str] = []
    word: Optional[str] = None
    quote, place = "", 0
    while place < len(line):
        letter = line[place]
        place += 1
        if letter == "\\" and place < len(line):
            word = (word or "") + line[place]
            place += 1
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, (word or "") + letter)
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter == "#":
            break
        elif letter in SPACE:
            words += [word] if word is not None else []
            word = None
        elif letter == ":" and word is None:
            raise ValueError("a word begins with a colon")
        else:
            word = (word or "") + letter
    if quote:
        raise ValueError("the quote %s is not closed" % quote)
    return words + ([word] if word is not None else [])


def settings(words: List[Word], more: AbstractSet[str], found: List[Finding]) -> Iterator[Setting]:
    """Yield the options of all directives of one job, and note wrong words in `found`; `more` as for `read`."""
    place = 0
    while place < len(words):
        word = words[place]
        # sbatch would take its value from the next directive; that is never meant.
        follows = place + 1 < len(words) and words[place + 1].line == word.line
        value = words[place + 1].text if follows else None
        place += 1
        if word.text.startswith("--") and len(word.text) > len("--"):
            setting, used = long_option(word, value, more, found)
        elif word.text.startswith("-") and word.text not in ("-", "--"):
            setting, used = short_option(word, value, found)
        else:
            text = '"%s" is no option, and sbatch refuses it' % word.text
            found.append(error(word.line, "word", text + "; put a value that holds spaces in quotes"))
            setting, used = (), 0
        place += used
        yield from setting


def long_option(
    word: Word, following: Optional[str], more: AbstractSet[str], found: List[Finding]
) -> Tuple[Tuple[Setting, ...], int]:
    """The option of a word that begins with two dashes, and how many of the following words are its value."""
    written, equals, value = word.text[2:].partition("=")
    known = sbatch_options.resolve(written, more)
    name = known.name
    if not name:
        found.append(unknown(word, written, value if equals else None, known.candidates))
        # What has no dash is its value, and no mistake of its own.
        return (), int(not equals and following is not None and not following.startswith("-"))
    if name in sbatch_options.WITHOUT_VALUE and equals:
        found.append(error(word.line, "value", "--%s has no value" % name, "%s --%s" % (MAGIC, name)))
        value, equals = "", ""
    if equals or name not in sbatch_options.WITH_VALUE:
        if equals and not value and name in sbatch_options.WITH_VALUE:
            found.append(error(word.line, "value", "--%s has an empty value" % name))
            return (), 0
        return (Setting(name, value if equals else None, word.line, word.text),), 0
    if following is None or following.startswith("="):
        text = "--%s needs a value" % name
        if following is not None:
            text = "no spaces around the equals sign of --%s: sbatch takes the sign as the value" % name
        found.append(error(word.line, "value", text, "%s --%s=VALUE" % (MAGIC, name)))
        return (), 0 if following is None else 2 if following == "=" else 1
    return (Setting(name, following, word.line, "%s %s" % (word.text, following)),), 1


def unknown(word: Word, written: str, value: Optional[str], candidates: Tuple[str, ...]) -> Finding:
    """A finding for an option that sbatch does not have."""
    if candidates:
        text = "--%s may be any of --%s" % (written, ", --".join(candidates[:5]))
        return error(word.line, "option", text)
    if written in sbatch_options.OF_SRUN:
        text = "--%s is an option of srun, and sbatch refuses it" % written
        return error(word.line, "option", text, "srun --%s ... in the command" % written)
    return error(
        word.line, "option", "sbatch has no option --%s, and refuses the script" % written, near(written, value)
    )


def near(written: str, value: Optional[str]) -> str:
    """The directive that was probably meant; empty if none is like it."""
    name = sbatch_options.nearest(written, sbatch_options.ALL)
    if not name:
        return ""
    return "%s --%s%s" % (MAGIC, name, "" if value is None else "=" + quoted(value))


def short_option(word: Word, following: Optional[str], found: List[Finding]) -> Tuple[Tuple[Setting, ...], int]:
    """The options of a word that begins with one dash, and how many of the following words are their value."""
    settings_of_word: List[Setting] = []
    letters = word.text[1:]
    name, equals, value = letters.partition("=")
    if len(name) > 2 and name in sbatch_options.ALL:  # noqa: PLR2004 - -px is no name
        text = "with one dash sbatch reads %s as -%s %s" % (word.text, letters[0], letters[1:])
        found.append(error(word.line, "option", text, near(name, value if equals else following)))
        return (), int(not equals and following is not None and not following.startswith("-"))
    for place, letter in enumerate(letters, 1):
        name, rest = sbatch_options.LETTERS.get(letter, ""), letters[place:]
        if not name or name in sbatch_options.WITH_VALUE:
            if not name:
                found.append(unknown_letter(word, letter))
                return tuple(settings_of_word), 0
            setting, used = valued(word, name, rest, following, found)
            return (*settings_of_word, *setting), used
        has_rest = name in sbatch_options.MAY_HAVE_VALUE
        settings_of_word.append(Setting(name, rest or None if has_rest else None, word.line, word.text))
        if has_rest:
            break
    return tuple(settings_of_word), 0


def valued(
    word: Word, name: str, rest: str, following: Optional[str], found: List[Finding]
) -> Tuple[Tuple[Setting, ...], int]:
    """A one-letter option with its value, and how many following words are that; `found` notes what is wrong."""
    value, used = rest or following, int(not rest and following is not None)
    if value is None or value.startswith("="):
        text = "needs a value" if value is None else "takes its value without an equals sign"
        instead = "%s --%s=%s" % (MAGIC, name, quoted((value or "").lstrip("=") or "VALUE"))
        found.append(error(word.line, "value", "%s %s" % (word.text.partition("=")[0], text), instead))
        return (), used
    return (Setting(name, value, word.line, word.text if rest else "%s %s" % (word.text, value)),), used


def unknown_letter(word: Word, letter: str) -> Finding:
    """A finding for a letter that is no option, or for a long option with one dash."""
    name, equals, value = word.text[1:].partition("=")
    instead = near(name, value if equals else None) if len(name) > 2 else ""  # noqa: PLR2004 - -px is no name
    return error(word.line, "option", "sbatch has no option -%s, and refuses the script" % letter, instead)


def look_alikes(lines: Tuple[str, ...], body: int) -> Iterator[Finding]:
    """Yield lines that look like directives and are none: after the first command, or misspelt."""
    end = ""
    for number, line in enumerate(lines, 1):
        if end:
            end = "" if line.strip() == end else end
            continue
        heredoc = None if line.lstrip().startswith("#") else _HEREDOC.search(line)
        end = heredoc[2] if heredoc else ""
        if line.startswith(MAGIC):
            if body and number > body and line[len(MAGIC) :].lstrip(SPACE).startswith("-"):
                text = "sbatch ignores this: directives count only before the first command, which is in line %d" % body
                yield error(number, "late", text, "the same line above line %d" % body)
            continue
        like = _LIKE.match(line)
        if not like or sbatch_options.nearest(like[1], {SBATCH}, ALIKE) != SBATCH:
            continue
        if like[1] == SBATCH:
            text = "a comment, which sbatch does not read: a directive begins with #SBATCH, without spaces before it"
            yield warning(number, "comment", text, "%s %s" % (MAGIC, like[2]))
        else:
            text = "a comment, which sbatch does not read: a directive begins with #SBATCH in capitals"
            yield error(number, "misspelt", text, "%s %s" % (MAGIC, like[2]))
