"""Other names: consistent, in folded lists as well, and nothing else is touched."""

from __future__ import annotations

import pytest

from slurmfab.support_bundle.pseudonyms import Pseudonyms


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ann on n2: /home/ann/job.out", "user1 on host3: /home/user1/job.out"),
        ("NodeName=n[1-2] State=UNKNOWN", "NodeName=host[2-3] State=UNKNOWN"),
        ("Nodes=ctl,n[1,9]", "Nodes=host1,host2,other-host1"),
        ("Nodes=x[1-3] channel anna n10", "Nodes=x[1-3] channel anna n10"),
        ("slurmd-n1.log n1.lab.example.org", "slurmd-host2.log host2.domain1"),
        ("10.0.0.1:6817, 10.0.0.2, 10.0.0.1, 127.0.0.1", "address1:6817, address2, address1, 127.0.0.1"),
        ("NodeAddr=10.0.0.[11-12]", "NodeAddr=addresses1"),
        ("fd83::11 12:34:56 ::1 aa:bb:cc:dd:ee:ff", "address1 12:34:56 ::1 mac1"),
        ("mail to bob@example.org by user@1000.service", "mail to mail1 by user@1000.service"),
        ("ssh-ed25519 AAAAC3Nz ann@laptop", "public-key1"),
        ("b.smith_2 root slurm", "user2_2 root slurm"),
    ],
)
def test_names_are_replaced_and_other_words_stay(text: str, shown: str) -> None:
    names = Pseudonyms(("ctl", "n1", "n2"), ("ann", "b.smith", "root", "slurm"), ("lab.example.org",))
    assert names.text(text) == shown


def test_a_name_is_the_same_in_all_texts() -> None:
    names = Pseudonyms(("n1",), ("ann",), ())
    assert names.text("10.0.0.7") == names.text("10.0.0.7") == "address1"
    assert names.text("hosts/n1/facts.json") == "hosts/host1/facts.json"
