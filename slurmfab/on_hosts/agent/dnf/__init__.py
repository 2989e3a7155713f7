"""The second package manager: dnf(8) 4 and rpm(8), as Enterprise Linux 9 and 10 have them."""
