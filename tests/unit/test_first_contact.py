"""First contact: what is said of hosts that nobody knows yet, and what stops it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import THREE_HOSTS

from slurmfab import deploying, first_contact
from slurmfab.consent import Wish
from slurmfab.contact import Contact
from slurmfab.errors import InputError, SlurmfabError, Unreachable
from slurmfab.operations import Output


@pytest.mark.parametrize(("word", "become"), [("", "sudo"), ("sudo", "sudo"), ("none", None)])
def test_become_is_sudo_or_none(word: str, become: str | None) -> None:
    assert Contact(user="admin", become=word).ssh("n1").become == become


def test_another_word_for_become_is_refused() -> None:
    with pytest.raises(InputError, match="--become su: it is either sudo or none"):
        Contact(become="su").ssh("n1")


def test_only_accepting_host_keys_is_for_later_contact_too() -> None:
    assert not Contact(accept_new=True).said
    assert Contact(user="admin").said
    assert Contact(port=22).said


def test_options_for_first_contact_are_refused_where_a_cluster_file_says_it(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(THREE_HOSTS)
    with pytest.raises(InputError, match="change its ssh section"):
        deploying.deploy(str(tmp_path / "lab.yaml"), Wish(), Contact(user="admin"), Output())


def test_first_contact_ends_when_the_controller_to_be_is_lost_and_goes_on_without_another() -> None:
    lost = {"root@c1": Unreachable("root@c1", "off.")}
    with pytest.raises(SlurmfabError, match=r"root@c1: off\.\nroot@c1 would be the controller"):
        first_contact.refuse_without_controller("root@c1,n1", lost)
    first_contact.refuse_without_controller("n1,root@c1", lost)


def test_nodes_join_all_together_or_not_at_all() -> None:
    with pytest.raises(SlurmfabError, match=r"n3: off\.\nNothing was changed\."):
        first_contact.refuse_incomplete({"n3": Unreachable("n3", "off.")})
    first_contact.refuse_incomplete({})
