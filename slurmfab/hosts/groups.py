"""Fabric's connections and groups of them, which reach hosts exactly as slurmfab does."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, SupportsIndex

import fabric
import fabric.runners
import paramiko
from fabric.exceptions import GroupException
from fabric.group import GroupResult
from invoke.exceptions import Exit, Failure, ResponseNotAccepted
from invoke.watchers import StreamWatcher

from slurmfab.base.errors import HostError, InputError, SudoPasswordNeeded, SudoPasswordWrong
from slurmfab.base.exit_codes import FAILURE, WRONG_INPUT
from slurmfab.base.folding import fold_lines
from slurmfab.hosts.connection import is_open, transport_of
from slurmfab.hosts.fan_out import FAN_OUT, on_each
from slurmfab.hosts.login_shells import quoted
from slurmfab.hosts.session import SUDO, SUDO_PROMPT
from slurmfab.hosts.sudo_password import WRONG
from slurmfab.hosts.transport import SshTransport

ASKS = "sudo asks for a password; give it with --prompt-for-sudo-password in front of the task."


class Refused(InputError, Exit):
    """Words that name no hosts, or a cluster file that is wrong: Invoke prints the text and ends with exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message, self._code = message, WRONG_INPUT


class HostDown(HostError, Exit):
    """A host that cannot be reached, or does not let us become root; Invoke prints why and ends with exit code 1."""

    def __init__(self, error: HostError) -> None:
        super().__init__(error.host, error.reason)
        self.message, self._code = str(error), FAILURE


class HostsFailed(GroupException, Exit):  # type: ignore[misc]
    """What a group raises where hosts failed, as Fabric's does: `result` has all, `result.failed` those.

    Where a task does not catch it, Invoke prints which hosts failed and why, and ends with exit code 1.
    """

    def __init__(self, result: GroupResult) -> None:
        super().__init__(result)
        pairs = ((one.original_host, why_failed(error)) for one, error in result.failed.items())
        self.message, self._code = "\n".join(fold_lines(pairs)), FAILURE

    def __str__(self) -> str:
        return str(self.message)


def why_failed(error: BaseException) -> str:
    """Why something failed on a host, in one sentence without the host."""
    if isinstance(error, HostError):
        return error.reason
    if isinstance(error, Failure) and error.result is not None:
        words = (error.result.stderr.strip() or error.result.stdout.strip()).splitlines()[-1:]
        why = f"`{error.result.command}` failed with exit code {error.result.exited}"
        return f"{why}: {words[0]}" if words else why
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@cache
def settings() -> fabric.Config:
    """Fabric's settings for all connections of a group: the user's own, without ssh_config, which `Route` has read.

    No connection reads standard input, which all hosts would share.
    """
    return fabric.Config(ssh_config=paramiko.SSHConfig(), overrides={"run": {"in_stream": False}})


class Remote(fabric.runners.Remote):  # type: ignore[misc]
    """Fabric's runner, which shows no question of sudo's, and for which unread input is no error."""

    def read_our_stdin(self, input_: Any) -> Any:
        """The next character for the command; none once it has ended, however many are left."""
        return None if self.process_is_finished else super().read_our_stdin(input_)

    def _write_proc_stdin(self, data: bytes) -> None:
        with suppress(OSError):  # where the connection was lost, those who read the output say so
            super()._write_proc_stdin(data)

    def write_our_output(self, stream: Any, string: str) -> None:
        """Show some output."""
        super().write_our_output(stream, string.replace(SUDO_PROMPT, ""))

    def generate_result(self, **kwargs: Any) -> Any:
        """The result of the command."""
        said = {name: kwargs[name].replace(SUDO_PROMPT, "") for name in ("stdout", "stderr")}
        return super().generate_result(**{**kwargs, **said})


class Connection(fabric.Connection):  # type: ignore[misc]
    """Fabric's connection to a host of the cluster, over slurmfab's own way there.

    User, port, jump host, relays, proxy command, pinned host keys and time limits are those of `deploy`; `sudo` has its
    password. Everything else is Fabric's: `run`, `sudo`, `put`, `get`, `forward_local`.

    >>> from slurmfab import hosts
    >>> with hosts("n1")[0] as c:  # doctest: +SKIP
    ...     print(c.run("uptime", hide=True).stdout)
    """

    # Fabric takes attributes that the class does not have for settings, which all connections share; of its own it has
    # forgotten one, so that threads that make connections would change the settings of each other.
    inline_ssh_env: Any = None
    ssh: Any = None
    opening: Any = None

    def __init__(self, host: str, ssh: SshTransport, config: fabric.Config | None = None) -> None:
        route = ssh.routes[host]
        super().__init__(host, route.user, route.port, config or settings(), gateway=False, connect_kwargs={})
        self.host = host  # whatever ssh_config calls it
        self.client.set_missing_host_key_policy(paramiko.RejectPolicy())  # of the client that `open` replaces
        self.ssh, self.opening = ssh, threading.Lock()

    def open(self) -> None:
        """Connect, unless it is connected; raises HostDown."""
        with self.opening:  # Fabric's own is for one thread
            if self.is_connected:
                return
            name = self.original_host
            if name in self.ssh.connections and not is_open(self.ssh.connections[name]):
                self.ssh.forget(name)
            try:
                self.client = self.ssh.connection(name)
            except HostError as error:
                raise HostDown(error) from error
            except InputError as error:
                raise Refused(str(error)) from error
            self.transport = transport_of(self.client)

    def _remote_runner(self) -> Remote:
        return Remote(context=self, inline_env=self.inline_ssh_env)

    def sudo(self, command: str, **kwargs: Any) -> Any:
        """Run a command as root, or as `user`, with the password of `deploy`, which is asked for when sudo wants it.

        Raises HostDown if sudo refuses; otherwise as Fabric's.
        """
        self.open()
        user, known = kwargs.pop("user", None), kwargs.pop("password", None) or self.config.sudo.password
        line = self._prefix_commands(command)
        if user is None and self.user == "root":
            return self._remote_runner().run(line, **kwargs)
        keeps = f" --preserve-env={','.join(kwargs['env'])}" if kwargs.get("env") else ""
        becomes = f" -H -u {quoted(user)}" if user else ""
        line = f"{SUDO}{keeps}{becomes} {line}"
        watchers = [*kwargs.pop("watchers", self.config.run.watchers)]

        def attempt(password: str) -> tuple[Any, bool]:
            asked = SudoAsks(password)
            try:
                return self._remote_runner().run(line, watchers=[*watchers, asked], **kwargs), asked.times > 0
            except Failure as error:
                if not isinstance(error.reason, ResponseNotAccepted):
                    raise
                wrong = SudoPasswordWrong if password else SudoPasswordNeeded
                raise wrong(self.host, WRONG if password else ASKS) from None

        if known:
            try:
                return attempt(known)[0]
            except (SudoPasswordNeeded, SudoPasswordWrong) as error:
                raise HostDown(error) from error
        try:
            return self.ssh.sudo.log_in(attempt)
        except HostError as error:
            raise HostDown(error) from error


class SudoAsks(StreamWatcher):
    """Answers sudo's question once, or not at all without a password, so that no failed attempt is counted there."""

    def __init__(self, password: str) -> None:
        super().__init__()
        self.password = password
        self.times = 0

    def submit(self, stream: str) -> Iterable[str]:
        """The answers to what has come so far."""
        asked = len(re.findall(re.escape(SUDO_PROMPT), stream))
        if asked > self.times:
            self.times = asked
            if asked > 1 or not self.password:
                raise ResponseNotAccepted("sudo did not accept it")
            return [f"{self.password}\n"]
        return []


class Group(fabric.ThreadingGroup):  # type: ignore[misc]
    """Fabric's group of connections, whose members are found when it is first used, and of which so many work at once.

    `run`, `sudo`, `put` and `get` return a `GroupResult`, by connection; where hosts failed they raise `HostsFailed`,
    whose `result` has the others, too. `width`: how many hosts work at the same time.

    >>> from slurmfab import hosts
    >>> for c, done in hosts("compute").run("uname -r", hide=True).items():  # doctest: +SKIP
    ...     print(c.host, done.stdout.strip())
    """

    def __init__(self, find: Callable[[], Iterable[Connection]] = tuple, width: int = FAN_OUT) -> None:
        super().__init__()
        self.find: Callable[[], Iterable[Connection]] | None = find
        self.width = width

    def found(self) -> Group:
        """The group, with its members. Raises Refused if there are none."""
        if self.find is not None:
            find, self.find = self.find, None
            try:
                self.extend(find())
            except BaseException:
                self.find = find
                raise
        return self

    def __deepcopy__(self, memo: object) -> Group:
        """The group itself: Invoke copies the tasks of a fabfile with all they have, and looks no hosts up for that."""
        del memo
        return self

    def __iter__(self) -> Iterator[Connection]:
        return list.__iter__(self.found())

    def __len__(self) -> int:
        return list.__len__(self.found())

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        return list.__getitem__(self.found(), key)

    def __repr__(self) -> str:
        return "<Group of hosts>" if self.find else f"<Group of {list.__len__(self)} hosts>"

    def _do(self, method: str, *args: Any, **kwargs: Any) -> GroupResult:
        members = {one.original_host: one for one in self}

        def act(host: str) -> Any:
            try:
                return getattr(members[host], method)(*args, **kwargs)
            except Exception as error:
                return error

        found: dict[str, Any] = {}
        try:
            for host, outcome in on_each(members, act, self.width):
                found[host] = outcome
        except BaseException:
            self.close()  # the commands on the hosts are left, and the threads that read them end
            raise
        results = GroupResult({members[host]: found[host] for host in members})
        if results.failed:
            raise HostsFailed(results)
        return results
