"""Record and replay engine: serves, makes and records, or refuses each call.

A boundary describes a call as data (``call``). The gateway (``execution``) passes it to the
machine (``decision``), which decides without touching the world, and carries the decision out.
``recording`` writes events, ``scheduling`` keeps the order in which results reach threads and
tasks, ``divergence`` explains differences, and ``patches`` holds everything that depends on
private details of the interpreter and the standard library.
"""
