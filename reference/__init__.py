"""The reference of docs/reference and the manual pages, written from the code by `make reference`.

A page is a function that returns its text. Nothing is told here that is not in the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from reference import (
    cluster_file,
    cluster_file_manual,
    exit_codes,
    json_outputs,
    manual,
    platforms,
    supported,
    tasks,
)
from slurmfab.cluster.inventory import schema_file

PLACE = Path(__file__).parents[1] / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "tasks.md": tasks.page,
    "exit-codes.md": exit_codes.page,
    "cluster-file.md": cluster_file.page,
    "../supported.md": supported.page,
    "../../README.md": supported.readme,
    "../../configs/cluster.schema.json": lambda: schema_file.text(None),
    "json.md": json_outputs.page,
    **json_outputs.schemas(),
    "platforms.md": platforms.page,
    **{f"../../man/{name}": page for name, page in manual.pages().items()},
    "../../man/slurmfab-cluster-file.5": cluster_file_manual.page,
}
"""The text of each file that is written from the code, by its path from docs/reference on."""
