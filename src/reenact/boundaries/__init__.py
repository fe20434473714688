"""Where the calls of a program cross its edge: one file per client library, all of one shape."""
