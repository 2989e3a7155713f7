"""The key drift of a cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError


def test_drift_when_it_is_short_then_has_defaults_and_one_address() -> None:
    found = cluster(f"{THREE_HOSTS}drift: {{mail: ann@example.org}}\n").drift
    assert found is not None
    assert (found.when, found.calendar, found.mail, found.textfile) == ("daily", "daily", ("ann@example.org",), None)
    assert cluster().drift is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{when: sometimes}", "drift.when"),
        ("{mail: ann}", '"ann" is not a mail address'),
        ('{mail: ["a@b.org\\nBcc: c@d.org"]}', "is not a mail address"),
        ("{textfile: /var/lib/drift.txt}", "does not end in .prom"),
        ("{textfile: drift.prom}", "is not an absolute path"),
        ("{textfile: /a/../drift.prom}", "is not an absolute path"),
        ("{every: day}", "unknown key"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{THREE_HOSTS}drift: {text}\n")
    assert words in str(refused.value)
    assert f"cluster.yaml:{THREE_HOSTS.count(chr(10)) + 1}" in str(refused.value)
