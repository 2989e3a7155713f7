"""Whether a password is a user's, asked of PAM (pam(3)), whose library the standard library does not know."""

from __future__ import annotations

import ctypes
from typing import Any

from slurmfab.on_hosts.programs.jupyter.places import PAM_SERVICE

HIDDEN, SUCCESS, BUFFER_ERROR, FAILED = 1, 0, 5, 19
"""PAM_PROMPT_ECHO_OFF, PAM_SUCCESS, PAM_BUF_ERR and PAM_CONV_ERR of <security/_pam_types.h>."""


class Message(ctypes.Structure):
    """A question of PAM's: `struct pam_message`."""

    _fields_ = (("style", ctypes.c_int), ("text", ctypes.c_char_p))


class Response(ctypes.Structure):
    """The answer: `struct pam_response`. The text is malloc's, and PAM's to free."""

    _fields_ = (("text", ctypes.c_void_p), ("code", ctypes.c_int))


Messages, Place = ctypes.POINTER(ctypes.POINTER(Message)), ctypes.POINTER(ctypes.c_void_p)
CONVERSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, Messages, Place, ctypes.c_void_p)


class Conversation(ctypes.Structure):
    """Who answers: `struct pam_conv`."""

    _fields_ = (("converse", CONVERSE), ("data", ctypes.c_void_p))


def is_password_of(user: str, password: str) -> bool:
    """Whether a password is a user's, and the account may be used now. Raises OSError if PAM cannot be asked."""
    if not password or "\0" in user + password:
        return False  # pam_unix of Debian would let in who has an empty password (nullok)
    pam, libc = ctypes.CDLL("libpam.so.0"), ctypes.CDLL(None)
    libc.calloc.restype = libc.strdup.restype = ctypes.c_void_p
    libc.calloc.argtypes, libc.strdup.argtypes = (ctypes.c_size_t, ctypes.c_size_t), (ctypes.c_char_p,)

    def answer(count: int, messages: Any, found: Any, _data: Any) -> int:
        """Give the password to each hidden question, and nothing to others."""
        place = libc.calloc(count, ctypes.sizeof(Response))
        if not place:
            return BUFFER_ERROR
        responses = ctypes.cast(place, ctypes.POINTER(Response))
        for number in range(count):
            if messages[number].contents.style == HIDDEN:
                responses[number].text = libc.strdup(password.encode())
        found[0] = place
        return SUCCESS

    conversation = Conversation(CONVERSE(answer), None)
    handle = ctypes.c_void_p()
    if pam.pam_start(PAM_SERVICE.encode(), user.encode(), ctypes.byref(conversation), ctypes.byref(handle)) != SUCCESS:
        raise OSError("PAM does not start")
    status = FAILED
    try:
        status = pam.pam_authenticate(handle, 0)
        status = pam.pam_acct_mgmt(handle, 0) if status == SUCCESS else status
    finally:
        pam.pam_end(handle, status)
    return bool(status == SUCCESS)
