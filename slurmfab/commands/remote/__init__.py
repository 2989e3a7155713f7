"""Commands and files for many hosts at once, and the words that name the hosts."""
