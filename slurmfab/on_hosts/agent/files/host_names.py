"""Names of the cluster in lines of others in /etc/hosts, such as `127.0.1.1 n1` of an installer or cloud-init."""

from __future__ import annotations

from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.files.block import join_lines, split_lines

LOOPBACK = ("127.", "::1")  # beginnings of addresses that lead to the host itself
OURS = "# by slurmfab, was "  # the comment behind an address that was changed, before the address that was there


class HostNames(Resource):
    """Lines of /etc/hosts outside of slurmfab's block do not give loopback addresses to these names.

    All lines of a name count, and a loopback address is preferred (getaddrinfo(3), RFC 6724). A program that asks for
    its own host's address, such as PyTorch's rendezvous, would tell other hosts to connect to themselves. The names get
    the host's address in place, so that the first name of the line stays the host's full name (hostname(1)).
    """

    kind: ClassVar[str] = "host-names"
    named_by: ClassVar[str] = "path"
    wanted_state: ClassVar[State] = {"lines": None}
    file_in: ClassVar[str] = "path"
    path: str  # absolute path of the file
    # Pairs of a name and its IP address; names with these and a domain belong to the same host.
    addresses: Tuple[Tuple[str, str], ...]

    def actual(self, context: Context) -> State:
        """The lines that give other addresses to the names, as they are."""
        lines = split_lines(replace.read(context.path(self.path)) or b"")
        wrong = [" ".join(line.split()) for line in lines if self.corrected(line) != [line]]
        return {"lines": "; ".join(wrong) or None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Give the names their addresses, and leave everything else as it is."""
        path = context.path(self.path)
        found = replace.find(path)
        if found:
            status, content = found
            lines = [new for line in split_lines(content) for new in self.corrected(line)]
            replace.put(path, join_lines(lines), status.st_uid, status.st_gid, status.st_mode & 0o777)

    def corrected(self, line: str) -> List[str]:
        """The lines in place of a line of the file: the same, or others with the names' addresses."""
        text, _, comment = line.partition("#")
        address, *names = text.split() or [""]
        is_ours = ("#" + comment).startswith(OURS)
        if not is_ours and not address.startswith(LOOPBACK):
            return [line]
        owned: Dict[str, List[str]] = {}
        for name in names:
            owned.setdefault(self.address_of(name), []).append(name)
        rest = owned.pop("", [])
        if not owned or list(owned) == [address]:
            return [line]
        was = comment[len(OURS) - 1 :].strip() if is_ours else address
        kept = ["%s %s%s\n" % (address, " ".join(rest), " #" + comment.rstrip("\n") if comment else "")] if rest else []
        return [*kept, *("%s %s %s%s\n" % (new, " ".join(mine), OURS, was) for new, mine in owned.items())]

    def address_of(self, name: str) -> str:
        """The address of a name, with or without a domain; empty for a name of nobody here."""
        return dict(self.addresses).get(name.partition(".")[0], dict(self.addresses).get(name, ""))
