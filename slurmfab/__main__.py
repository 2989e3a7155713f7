"""`python -m slurmfab`, where the program is not on the search path."""

from slurmfab.cli import main

main()
