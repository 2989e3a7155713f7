"""`python -m slurmfab`, where the program is not on the search path."""

from slurmfab.cli.main import main

main()
