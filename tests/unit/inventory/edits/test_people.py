"""People written into cluster files and taken out again: just the lines that must change."""

from __future__ import annotations

from itertools import product

import pytest
from edited_files import LINE_ENDS, STYLES, difference

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.people import with_more, with_user, without_user

SAID = {"comment": "Ann Example", "groups": ("ml",), "sudo": "yes"}
SECTIONS = {
    "none": "",
    "empty": "users: []\n",
    "nothing": "users:   # nobody yet\n",
    "block": "users:\n- name: bob   # first\n  groups: [ml]\n\n# the end\n",
    "flow": "users: [{name: bob, groups: [ml]}]\n",
    "indented": "users:\n    -   name: bob\n        groups:\n          - ml   # machine learning\n",
}


@pytest.mark.parametrize(("style", "ends"), list(product(STYLES, LINE_ENDS)))
def test_a_user_in_a_file_of_any_style_is_written_and_taken_out_again(style: str, ends: str) -> None:
    text = STYLES[style].replace("\n", LINE_ENDS[ends])
    grown = with_user(text, "ann", SAID)
    (ann,) = loading.parse(grown, "c.yaml").users
    assert (ann.name, ann.comment, ann.groups, ann.sudo) == ("ann", "Ann Example", ("ml",), True)
    assert not [line for line in difference(text, grown) if line.startswith("-")] or style == "flow"
    if ends == "dos":
        assert "\n" not in grown.replace("\r\n", "")
    assert loading.parse(without_user(grown, "ann"), "c.yaml") == loading.parse(text, "c.yaml").model_copy(
        update={"users": ()}
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_a_user_joins_whatever_list_is_there(section: str) -> None:
    text = STYLES["block"] + SECTIONS[section]
    grown = with_user(text, "ann", SAID)
    assert [user.name for user in loading.parse(grown, "c.yaml").users][-1] == "ann"
    more = with_more(grown, "ann", {"groups": ("dev", "ops"), "uid": "2000"})
    ann = loading.parse(more, "c.yaml").users[-1]
    assert (ann.groups, ann.uid, ann.comment) == (("ml", "dev", "ops"), 2000, "Ann Example")
    others = list(loading.parse(text, "c.yaml").users)
    assert list(loading.parse(without_user(more, "ann"), "c.yaml").users) == others


def test_just_the_lines_of_the_user_differ() -> None:
    text = STYLES["block"] + SECTIONS["block"]
    grown = with_user(text, "ann", SAID)
    assert difference(text, grown) == [
        "+ - name: ann",
        '+   comment: "Ann Example"',
        "+   groups: [ml]",
        "+   sudo: yes",
    ]
    assert without_user(grown, "ann") == text


def test_a_list_of_names_in_one_text_gets_longer() -> None:
    text = STYLES["block"] + "users:\n  - {name: ann, groups: 'ml, dev'}\n"
    assert "groups: 'ml, dev, ops'" in with_more(text, "ann", {"groups": ("ops",)})


def test_a_user_with_a_mistake_is_refused_with_what_it_is() -> None:
    with pytest.raises(ClusterFileError, match='"root" is a system user'):
        with_user(STYLES["block"], "root", {})


def test_a_coordinator_is_not_taken_out_behind_the_accounts_back() -> None:
    text = STYLES["block"] + (
        "database: mn01\naccounts:\n  - {name: physics, coordinators: [ann]}\nusers:\n"
        "  - {name: ann, accounts: [physics]}\n"
    )
    with pytest.raises(InputError, match="ann is a coordinator of physics"):
        without_user(text, "ann")


def test_a_list_with_an_alias_is_left_to_people() -> None:
    text = STYLES["block"] + "users:\n  - {name: bob, groups: &all [ml]}\n  - {name: ann, groups: *all}\n"
    with pytest.raises(InputError, match=r"cannot be changed safely|alias"):
        with_more(text, "ann", {"groups": ("dev",)})
