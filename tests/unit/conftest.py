"""What holds for all unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slurmfab.core.engine.session import Output


@pytest.fixture(scope="session", autouse=True)
def json_fits_its_schema() -> Iterator[None]:
    """Whatever a test has written by `--json` is what one of the schemas says."""
    # Not by a process that only hands tests to others: all that writes JSON takes a second to load.
    from json_shapes import assert_fits_one

    write = Output.write_json

    def checked(self: Output, output: object) -> None:
        if self.json:
            assert_fits_one(output)
        write(self, output)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Output, "write_json", checked)
        yield
