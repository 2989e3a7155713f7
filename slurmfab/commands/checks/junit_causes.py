"""The JUnit file of the checks: failures that follow from another one name it there, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slurmfab.base.terminal import harmless
from slurmfab.commands.checks.results import Result


def add(path: Path, results: Mapping[str, Result]) -> None:
    """Add `Because of: …` to the failures in a file that pytest has written; no file is no work.

    Args:
        results: by pytest's id of the test.
    """
    from xml.etree import ElementTree

    because = {name_of(test): one.because for test, one in results.items() if one.because}
    if not because or not path.exists():
        return
    tree = ElementTree.parse(path)  # noqa: S314 - as above
    for case in tree.iter("testcase"):
        cause = because.get((str(case.get("classname")).rpartition(".")[2], str(case.get("name"))))
        for failure in case.iter("failure") if cause else ():
            failure.set("message", f"{failure.get('message')} Because of: {harmless(str(cause))}")
    tree.write(path, encoding="utf-8", xml_declaration=True)


def name_of(test: str) -> tuple[str, str]:
    """Module and name of a test by pytest's id, such as `test_jobs` and `test_job_runs[n1]`."""
    file, _, name = test.partition("::")
    return Path(file).stem, name
