"""Rules between `mail` and the rest of a cluster file."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place


def a_login_is_whole_and_encrypted(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A login has a name and a password, which is never sent in the clear."""
    mail = cluster.mail
    if mail is None:
        return
    if mail.user is not None and mail.password_file is None:
        yield ("mail", "user"), "a login needs password_file as well"
    if mail.password_file is not None and mail.user is None:
        yield ("mail", "password_file"), "a password needs user as well"
    if mail.user is not None and mail.tls == "off":
        yield ("mail", "tls"), "a password is sent over TLS only: write starttls or on"


RULES = (a_login_is_whole_and_encrypted,)
