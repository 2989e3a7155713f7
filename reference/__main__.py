"""Write all pages."""

from __future__ import annotations

from reference import PAGES, PLACE


def main() -> None:
    """Write the pages that differ, and say which."""
    for name, page in PAGES.items():
        path, text = PLACE / name, page()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"written: {path}")  # noqa: T201 - what the program is for


main()
