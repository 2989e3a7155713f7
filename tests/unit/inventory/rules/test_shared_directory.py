"""The directory of Slurm's files that hosts share: which ones a cluster file may name, and with which other keys."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("etc", '"etc" is not an absolute path of letters'),
        ("/etc/slurm", '"/etc/slurm" is or contains /etc/slurm, which is used for something else'),
        ("/srv", '"/srv" is a directory of the system'),
        ("/shared/etc\nconfigless: true", "configless nodes fetch Slurm's files from slurmctld; remove one"),
        ("/shared/s/etc\nstate_directory: /shared/s", "contains or is inside /shared/s, which is state_directory"),
        ("/shared/etc\nprivate_tmp: {BasePath: /shared/etc/jobs}", "which is private_tmp"),
    ],
)
def test_a_shared_directory_when_it_cannot_be_roots_alone_then_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        cluster(f"{THREE_HOSTS}slurm_conf_directory: {text}\n")
    assert words in str(caught.value)


def test_a_shared_directory_when_it_is_one_of_its_own_then_is_read() -> None:
    assert (
        cluster(f"{THREE_HOSTS}slurm_conf_directory: /shared/slurm/etc\n").slurm_conf_directory == "/shared/slurm/etc"
    )
    assert cluster().slurm_conf_directory is None
