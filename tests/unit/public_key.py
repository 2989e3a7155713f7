"""An OpenPGP key that has signed nothing."""

from __future__ import annotations

KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawSD/BYJKwYBBAHaRw8BAQdAkEA64sJ/ISGueNKNFSCreSrqFVcQfkZwqsRJ
nEUkH2C0I1Rlc3Qgb2Ygc2x1cm1mYWIgPHRlc3RAZXhhbXBsZS5vcmc+iJAEExYI
ADgWIQThGhvexzyY1CcC6TT4QloPq7gLNAUCawSD/AIbAwULCQgHAgYVCgkICwIE
FgIDAQIeAQIXgAAKCRD4QloPq7gLNMeuAP9UYo4HLRGVRHrdQVtNV57R7xeDllBK
N5BgPy8hhjLMowD+LKTLMrY5LZPS6akD0eHWszLt2IPeOeEyHEuHHF556g0=
=9fPX
-----END PGP PUBLIC KEY BLOCK-----
"""
"""A public key as `gpg --armor --export` prints it."""
