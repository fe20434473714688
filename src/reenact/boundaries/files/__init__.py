"""Files under declared roots: what the program reads and writes there is part of a recording."""
