"""Patches of the interpreter and the standard library, with all private details they rely on.

Importing these modules patches nothing. The first session that opens installs the patches, and
the last one that closes removes them. A process under ``reenact run`` keeps them until it ends."""
