"""How Sphinx builds the site from README.md, CHANGELOG.md and docs/: `make docs`, into build/site.

The source directory is the repository, so links between files mean the same in a git host and on the site.
"""

from __future__ import annotations

import json
import posixpath
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

import slurmfab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "slurmfab"
version = release = slurmfab.__version__
html_title = f"slurmfab {release}"

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = INDEX = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "slurmfab", "tests", "benchmarks", "configs"]
# unlisted_pages() complains of the former, with what to do; blocks of a console hold files with apostrophes, too.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]

myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False  # Options such as --hosts stay as they are written.

html_theme = "furo"
html_static_path = ["theme"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_additional_pages = {"index": "first-page.html"}
templates_path = ["theme"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight-bash pre, div.highlight-yaml pre"

TOP = Path(__file__).parents[1]
HEADING = re.compile(r"^##+ (.+)$", re.M)
LISTED = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", re.M)
COMMAND = re.compile(
    r"(?:#.*|(?:sudo |[A-Z_]+=\S+ )*(?:fab|slurmfab|apt|git|make|pipx?|python3|ssh|srun|sbatch|s[a-z]+) .*)?$"
)
MESSAGES = "message|reason, or error|.* says|deploy"
"""Headings of columns with messages, as code."""
log = logging.getLogger(__name__)


def navigation(text: str) -> str:
    """The lists of links of docs/index.md as Sphinx wants them: one table of contents for each heading."""
    parts = HEADING.split(text)
    tables = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])
        for caption, part in zip(parts[1::2], parts[2::2], strict=True)
        if (pages := LISTED.findall(part))
    ]
    return "\n".join([text, *tables])


def read_source(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give the first page its navigation."""
    if page == INDEX:
        source[0] = navigation(source[0])


def unlisted_pages(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Complain of each page that no list of docs/index.md has."""
    listed = {page for pages in env.toctree_includes.values() for page in pages}
    for page in sorted(env.found_docs - listed - {INDEX}):
        log.warning("%s.md is in no list of docs/index.md: add a line '- [Title](page.md): what it is about'", page)
    return []


def block_language(text: str) -> str:
    """In which colours a block without a language is shown: as YAML, as commands, or in none."""
    if all(COMMAND.match(line) for line in text.splitlines()):
        return "bash"
    try:
        return "yaml" if isinstance(yaml.safe_load(text), dict) else "none"
    except yaml.YAMLError:
        return "none"


def colour_blocks(_app: Sphinx, document: nodes.document) -> None:
    """Give indented blocks, which cannot say their language, the one that they look like."""
    for block in document.findall(nodes.literal_block):
        if block.get("language", "none") == "none":
            block["language"] = block_language(block.astext())


def yaml_files() -> list[Path]:
    """The YAML files that pages refer to, each of which is a page of its own."""
    return sorted([*TOP.glob("configs/example-*.yaml"), *TOP.glob("docs/recipes/*.yml")])


def file_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each YAML file, and one with a list of the examples."""
    listed = []
    for path in yaml_files():
        name, text = path.relative_to(TOP).as_posix(), path.read_text()
        shown = app.builder.highlighter.highlight_block(text, "yaml")  # type: ignore[attr-defined]
        yield name.rpartition(".")[0], {"title": name, "body": f"<h1>{name}</h1>{shown}"}, "page.html"
        if name.startswith("configs/"):
            about = text.partition("\n")[0].lstrip("# ")
            listed.append(f'<li><a href="{path.stem}.html">{path.name}</a>: {escape(about)}</li>')
    title = "Examples of cluster files"
    yield "configs/index", {"title": title, "body": f"<h1>{title}</h1><ul>{''.join(listed)}</ul>"}, "page.html"


def link_files(app: Sphinx, document: nodes.document) -> None:
    """Lead links to YAML files to their pages; MyST offers them for download, and knows no directories."""
    here = posixpath.dirname(app.env.docname)
    pages = {
        path.relative_to(TOP).as_posix(): path.relative_to(TOP).with_suffix(".html").as_posix() for path in yaml_files()
    }
    pages["configs"] = "configs/index.html"
    for link in [*document.findall(addnodes.download_reference), *document.findall(addnodes.pending_xref)]:
        page = pages.get(posixpath.normpath(posixpath.join(here, link["reftarget"])))
        if page:
            text = nodes.inline("", link.astext(), classes=["doc"])
            link.replace_self(nodes.reference("", "", text, internal=True, refuri=posixpath.relpath(page, here or ".")))


def message_rows(app: Sphinx) -> Iterator[dict[str, Any]]:
    """Yield the rows of tables that explain messages, for the search by a message as it was printed."""
    for page in sorted(app.env.found_docs):
        for table in app.env.get_doctree(page).findall(nodes.table):
            head, *rows = table.findall(nodes.row)
            columns = [place for place, cell in enumerate(head) if re.fullmatch(MESSAGES, cell.astext())]
            section = table.parent["ids"][0] if isinstance(table.parent, nodes.section) else ""
            for row in rows if columns else ():
                spans = [one.astext() for place in columns for one in row[place].findall(nodes.literal)]
                if found := [one for one in spans if " " in one]:
                    yield {"page": f"{page}.html#{section}", "messages": found, "cells": [one.astext() for one in row]}


def write_messages(app: Sphinx, _failed: object) -> None:
    """Write what the search page searches for messages."""
    rows = json.dumps(list(message_rows(app)), ensure_ascii=False)
    (Path(app.outdir) / "_static/message-rows.js").write_text(f"const MESSAGE_ROWS = {rows};\n")


def search_messages(app: Sphinx, page: str, *_rest: object) -> None:
    """Have the search page load what it needs for that."""
    if page == "search":
        app.add_js_file("message-rows.js")
        app.add_js_file("messages.js")


def setup(app: Sphinx) -> None:
    """Connect what this file adds."""
    app.connect("source-read", read_source)
    app.connect("doctree-read", link_files)
    app.connect("html-collect-pages", file_pages)
    app.connect("doctree-read", colour_blocks)
    app.connect("env-check-consistency", unlisted_pages)
    app.connect("html-page-context", search_messages)
    app.connect("build-finished", write_messages)
