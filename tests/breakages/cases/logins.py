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
    Breakage(
        name="roots-password-expired",
        what="root's password has to be changed (`chage --lastday 0`), and sshd lets root in to do only that",
        breaks="chage --lastday 0 root",
        check=("the password or the account of the login user has expired there", "chage --maxdays -1"),
        plan=("the password or the account of the login user has expired there",),
        deploy=Told(
            words=("the password or the account of the login user has expired there", "passwd USER"),
            repair="chage --lastday $(date +%F) root",
        ),
    ),
    Breakage(
        name="root-may-open-no-files",
        what="a limit leaves root's logins no file descriptors (`nofile` in /etc/security/limits.conf)",
        breaks="cp -a /etc/security/limits.conf /root/limits.conf; echo 'root - nofile 3' >>/etc/security/limits.conf",
        check=("sshd there took the login and then closed the connection", "/etc/security/limits.conf"),
        plan=("sshd there took the login and then closed the connection",),
        deploy=Told(
            words=("a limit of the login user is too low (nofile, nproc",),
            repair="mv /root/limits.conf /etc/security/limits.conf",
        ),
    ),
)
