"""Logins that run no command, and hosts that let nobody log in."""

from __future__ import annotations

from breakage import Breakage, Told

SAVED = "cp -a /root/.bashrc /root/.bashrc.usual; "
BACK = "mv /root/.bashrc.usual /root/.bashrc"

ROWS = (
    Breakage(
        name="bashrc-ends-the-shell",
        what="root's `.bashrc` ends every shell",
        breaks=f"{SAVED} sed -i '1i echo maintenance; exit 0' /root/.bashrc",
        check=(
            "SSH login with the pinned host key works",
            "its login shell ends without running a command: maintenance",
        ),
        plan=("maintenance",),
        deploy=Told(words=("maintenance",), repair=BACK),
    ),
    Breakage(
        name="login-shell-lets-nobody-in",
        what="root's login shell is `/usr/sbin/nologin`",
        breaks="usermod --shell /usr/sbin/nologin root",
        check=("its login shell ends without running a command: This account is currently not available",),
        plan=("This account is currently not available",),
        deploy=Told(words=("This account is currently not available",), repair="usermod --shell /bin/bash root"),
    ),
)
