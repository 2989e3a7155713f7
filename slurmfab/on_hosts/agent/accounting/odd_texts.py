"""Names and texts in slurmdbd with line breaks and the like, and who set them: coordinators of accounts can.

They do no harm, as `Sacctmgr.records` reads them. They are told, because other programs may misread them.
"""

from __future__ import annotations

from typing import FrozenSet, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.agent.accounting.sacctmgr import NAME_BYTES, Sacctmgr
from slurmfab.on_hosts.agent.core.differences import one_line
from slurmfab.on_hosts.agent.core.resource import ResourceFailed

MOST_NAMED = 5
TRANSACTIONS = {"action": 40, "actor": NAME_BYTES, "where": NAME_BYTES}

REMARK = (
    "slurmdbd has names or texts with line breaks or control characters, which other programs may misread: %s. Ask who "
    "set them, and change or delete them with sacctmgr"
)
"""The remark on a comparison of accounts that found some."""


class OddText(NamedTuple):
    """A name or a text."""

    words: str  # what it is, and of what
    account: str  # the account that it is about
    subject: str  # what the transaction that set it names: an account, or `id_assoc=7`
    actions: Tuple[str, ...]


def described(
    sacctmgr: Sacctmgr, places: Mapping[str, Sequence[str]], texts: Mapping[str, Tuple[str, str, FrozenSet[str]]]
) -> Tuple[str, ...]:
    """The first of them in words, each with the user who set it, if slurmdbd still knows that.

    `sacctmgr`: asks who. `places`: account, user, partition and parent of associations by ID. `texts`: description,
    organization and coordinators by account.
    """
    odd = list(odd_texts(places, texts))
    told = ["%s, set by %s" % (one.words, author(sacctmgr, one) or "an unknown user") for one in odd[:MOST_NAMED]]
    return (*told, *(["%d more" % (len(odd) - MOST_NAMED)] if len(odd) > MOST_NAMED else []))


def odd_texts(
    places: Mapping[str, Sequence[str]], texts: Mapping[str, Tuple[str, str, FrozenSet[str]]]
) -> Iterator[OddText]:
    """Each odd text of associations and accounts; the arguments are those of `described`."""
    actions = ("Add Associations", "Modify Associations")
    for number, (account, user, partition, _) in places.items():
        subject = "id_assoc=" + number
        if not user and not account.isprintable():
            yield OddText("the name of account %s" % one_line(account), account, subject, actions)
        if not user.isprintable():
            yield OddText("the name of user %s in account %s" % (one_line(user), one_line(account)),
                          account, subject, actions)  # fmt: skip
        if not partition.isprintable():
            yield OddText("the partition of user %s in account %s" % (one_line(user), one_line(account)),
                          account, subject, actions)  # fmt: skip
    for account, (description, organization, _) in texts.items():
        for field, text in (("description", description), ("organization", organization)):
            # An account without a description has its name.
            if not text.isprintable() and text != account:
                words = "the %s of account %s" % (field, one_line(account))
                yield OddText(words, account, account, ("Add Accounts", "Modify Accounts"))


def author(sacctmgr: Sacctmgr, odd: OddText) -> str:
    """The user of the last transaction that may have set it; empty if there is none any more."""
    try:
        rows: List[List[str]] = sacctmgr.records(TRANSACTIONS, "transactions", "where", "accounts=" + odd.account)
    except ResourceFailed:
        return ""
    actors = [row[1] for row in rows if row[0] in odd.actions and odd.subject in row[2]]
    return one_line(actors[-1]) if actors else ""
