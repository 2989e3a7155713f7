"""The one place where text becomes HTML: Jinja2 with autoescape, so that no text of a host is taken as markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["Markup", "fill", "joined", "policy", "source"]

_TEMPLATES = tuple(Path(__file__).parents[1] / "templates" / pages for pages in ("report", "guide"))
"""No two pages have files of the same name."""


def fill(template: str, /, **values: Any) -> Markup:
    """Fill in a template of `templates/report/` or `templates/guide/`.

    The page's Content-Security-Policy allows neither attributes `style` nor attributes `on…`: use classes of the style
    sheet, presentation attributes of SVG (`fill`, `width`), and `data-` attributes that the page's script reads.
    `template`: its file name, such as `checks.html.j2`. `values`: what it names; texts are escaped, `Markup` is not.
    """
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704 - the environment escapes


def source(name: str) -> str:
    """The text of a style sheet or script in one of these directories (such as `page.css`), which is no template."""
    path = next(path for directory in _TEMPLATES if (path := directory / name).exists())
    return path.read_text(encoding="utf-8")


def joined(names: Iterable[str]) -> str:
    """The text of several style sheets or scripts, with the line breaks around it that are between the tags."""
    return "\n" + "\n".join(source(name) for name in names)


def policy(style: str, script: str = "") -> str:
    """The Content-Security-Policy: nothing is loaded, and only this style sheet and this script count.

    Args:
        style: the text between the tags of the style sheet.
        script: the text between the tags of the script; empty for a page without one.
    """
    return "; ".join((
        "default-src 'none'",
        f"style-src {digest(style)}",
        *((f"script-src {digest(script)}",) if script else ()),
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip


def digest(text: str) -> str:
    """The hash of an inline style sheet or script as a source of a policy, such as `'sha256-…'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    """The Jinja2 environment: everything is escaped, undefined names are errors."""
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
