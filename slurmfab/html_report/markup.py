"""The one place where text becomes HTML: Jinja2 with autoescape, so that no text of a host is taken as markup."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["Markup", "fill", "source"]

_PACKAGE = Path(__file__).parents[1]
_TEMPLATES = (_PACKAGE / "templates/report", _PACKAGE.parent / "templates/report")
"""In a wheel, and in the source tree."""


def fill(template: str, /, **values: Any) -> Markup:
    """Fill in a template of `templates/report/`.

    The page's Content-Security-Policy allows neither attributes `style` nor attributes `on…`: use classes of the style
    sheet, presentation attributes of SVG (`fill`, `width`), and `data-` attributes that the page's script reads.

    Args:
        template: its file name, such as `checks.html.j2`.
        values: what it names; texts are escaped, `Markup` is not.
    """
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704 - the environment escapes


def source(name: str) -> str:
    """The text of a style sheet or script of `templates/report/`, which is no template.

    Args:
        name: its file name, such as `page.css`.
    """
    path = next(path for directory in _TEMPLATES if (path := directory / name).exists())
    return path.read_text(encoding="utf-8")


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
