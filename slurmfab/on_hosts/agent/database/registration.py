"""That slurmdbd and slurmctld know each other: the cluster's ID in both, and slurmctld's address in slurmdbd.

A slurmdbd with a new database, such as after the loss of the former one, has neither: the running slurmctld's jobs come
on no record, and from Slurm 24.11 on the next slurmctld ends with CLUSTER ID MISMATCH.
"""

from __future__ import annotations

import time
from typing import ClassVar

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.database import mariadb
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH, password_in
from slurmfab.on_hosts.agent.services.service import Service, is_active

SETTLE_SECONDS = 5.0  # slurmctld that has just started is known within a second
ASK_SECONDS = 15.0  # a slurmdbd that does not answer is no reason to wait longer
POLL_SECONDS = 0.3

ID = "SELECT id FROM cluster_table WHERE name = %s AND deleted = 0"
HOLDER = "SELECT name FROM cluster_table WHERE id = %d AND name <> %s"
CHANGE = "UPDATE cluster_table SET id = %d WHERE name = %s"


class ClusterId(Resource):
    """The ID that slurmctld's state has for the cluster, in slurmdbd's database, too (Slurm 24.11 and later).

    From 26.05 on slurmctld hands a new database its ID by itself. Nothing else in the database refers to it.
    """

    kind: ClassVar[str] = "cluster-id"
    named_by: ClassVar[str] = "cluster"
    cluster: str
    number: int  # the ID
    host: str  # of the database; `localhost` for this one's
    port: int
    user: str
    database: str

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The ID."""
        return {"id": str(self.number)}

    def actual(self, context: Context) -> State:
        """The ID in the database; as wanted in a dry run that cannot ask it."""
        if context.dry_run and not mariadb.is_installed():
            return self.wanted(context)
        errno, error, found = self.ask(context, ID % mariadb.quoted(self.cluster))
        if errno and not context.dry_run:
            raise ResourceFailed("the ID of the cluster in slurmdbd's database is unknown: %s" % error)
        return self.wanted(context) if errno or not found else {"id": found}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Change it, unless another cluster has that ID."""
        name = mariadb.quoted(self.cluster)
        _, _, holder = self.ask(context, HOLDER % (self.number, name))
        if holder:
            text = "slurmdbd has the ID %d of %s for the cluster %s, too. Give %s another one: on its controller, %s"
            way = (
                "systemctl stop slurmctld, remove the file clustername in StateSaveLocation, systemctl start slurmctld"
            )
            raise ResourceFailed(text % (self.number, self.cluster, holder, self.cluster, way))
        errno, error, _ = self.ask(context, CHANGE % (self.number, name))
        if errno:
            raise ResourceFailed("slurmdbd's database refuses another ID for the cluster: %s" % error)

    def ask(self, context: Context, statement: str) -> tuple[int, str, str]:
        """What `mariadb.ask` returns, with slurmdbd's login."""
        password = password_in(replace.read(context.path(PATH)) or b"")
        return mariadb.ask(self.host, self.port, self.user, password, self.database, statement=statement)


class Registration(Resource):
    """A running slurmctld that slurmdbd has the address of; without that no job comes on record."""

    kind: ClassVar[str] = "registration"
    named_by: ClassVar[str] = "cluster"
    own_units: ClassVar[tuple[str, ...]] = ("slurmctld",)
    wanted_state: ClassVar[State] = {"slurmdbd": "knows slurmctld"}
    cluster: str

    def actual(self, context: Context) -> State:
        """Whether it has; as wanted while one of both does not answer, which others tell."""
        is_unknown = is_active(context, "slurmctld") and self.port(context) == "0"
        return {"slurmdbd": "does not know slurmctld"} if is_unknown else self.wanted(context)

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Restart slurmctld, unless it has only just started; ResourceFailed if that does not help."""
        if self.comes(context):
            return
        Service("slurmctld", answers=commands.PRIMARY_ANSWERS).start(context, "restart")
        if not self.comes(context):
            raise ResourceFailed(
                "slurmctld was restarted, and slurmdbd still does not know it, so no job comes on record; see "
                "/var/log/slurm/slurmctld.log"
            )

    def comes(self, context: Context) -> bool:
        """Whether slurmdbd knows it now or soon."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.port(context) == "0":
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def port(self, context: Context) -> str:
        """slurmctld's port according to slurmdbd: 0 if it knows none, empty if it does not answer."""
        argv = commands.accounts("cluster", ["controlport"], self.cluster)
        try:
            done = context.run(argv, seconds=ASK_SECONDS)
        except ResourceFailed:
            return ""
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
