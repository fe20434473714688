"""Files under declared roots: reads and writes of the program there are part of a recording."""
