"""The answer to a shell that asks what fits: `slurmfab --complete SHELL …`, which the scripts in `shipped/` call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path, PurePath

from slurmfab.cli.completion.command_line import FILES, WORDS, Candidates, candidates, split, wanted
from slurmfab.cli.completion.takes import read_table

MOST_BYTES = 64 << 10

BASH, ZSH, FISH = "bash", "zsh", "fish"
SHELLS = (BASH, ZSH, FISH)


def answer(arguments: Sequence[str]) -> str:
    """The lines for a shell: what they are, then the words, or the beginning of a path that it completes itself.

    `arguments`: the shell and, for bash, the part of the word that it replaces and the line up to the cursor, for
    others the words up to there. `words_elsewhere`: makes the words of a kind in `takes.ELSEWHERE`.
    """
    shell, *rest = arguments
    part, line = rest if shell == BASH else ("", "")
    program, *words = split(line) if shell == BASH else rest
    fitting = offered(program, words)
    if fitting.kind != WORDS:
        shell = FISH  # the beginning of a path as it is
    lines = (format_word(shell, word, text, words, part) for word, text in fitting.words)
    return "".join(f"{one}\n" for one in (fitting.kind, *lines))


def offered(program: str, words: Sequence[str]) -> Candidates:
    """What fits; for `fab` in a directory with other tasks than ours, files."""
    if PurePath(program).name == "fab" and not has_our_fabfile(Path.cwd()):
        return Candidates(FILES, ((words[-1] if words else "", ""),))
    known = read_table()
    return candidates(wanted(words, known), known)


def has_our_fabfile(directory: Path) -> bool:
    """Whether `fab` finds our tasks here: Fabric takes the fabfile that is nearest above."""
    for place in (directory, *directory.parents):
        for path in (place / "fabfile.py", place / "fabfile" / "__init__.py"):
            if path.is_file():
                with path.open("rb") as file:
                    return b"slurmfab" in file.read(MOST_BYTES)
    return False


def format_word(shell: str, word: str, text: str, words: Sequence[str], part: str) -> str:
    """A word as the script of one of `SHELLS` reads it; for bash the `part` that it replaces, after `=`, `:` or `@`."""
    if shell == BASH:
        stays = len(words[-1]) - len(part) if words and words[-1].endswith(part) else 0
        return word[stays:]
    if shell == ZSH:
        name = word.replace("\\", "\\\\").replace(":", "\\:")
        return f"{name}:{text}" if text else name
    return f"{word}\t{text}" if text else word


def write(arguments: Sequence[str]) -> None:
    """Write the answer; a question that is none of a script of ours gets none."""
    shell, *rest = arguments or [""]
    if shell in SHELLS and (len(rest) == 2 if shell == BASH else rest):  # noqa: PLR2004 - see `answer`
        sys.stdout.write(answer(arguments))
