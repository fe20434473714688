"""Table of all commands. Importing it loads nothing else, so ``reenact --help`` is fast."""

from __future__ import annotations

__all__ = ["ABOUT", "TABLE", "overview"]

ABOUT = "Record everything that crosses the edge of a program, and re-enact it later."

TABLE: tuple[tuple[str, str, str], ...] = (
    ("run", "record.run", "run a program: record it, or re-enact it"),
    ("fork", "record.fork", "re-enact a run up to a call, then continue live"),
    ("show", "inspect.show", "look at the events of a recording"),
    ("view", "inspect.view", "make one page of a recording, for a browser"),
    ("diff", "inspect.diff", "what differs between two recordings"),
    ("search", "inspect.search", "find calls in many recordings"),
    ("explain", "inspect.explain", "explain why a replay diverged, and how to fix it"),
    ("regress", "record.regress", "re-enact many recordings against the current code"),
    ("stats", "inspect.stats", "sizes, counts, and what repetition saved"),
    ("verify", "manage.verify", "check recordings down to the last byte"),
    ("sign", "manage.verify", "sign a recording, or make a key to sign with"),
    ("recover", "manage.rewrite", "close a recording that its program never closed"),
    ("migrate", "manage.rewrite", "rewrite a recording of an earlier format version"),
    ("redact", "manage.rewrite", "copy a recording and redact more of it"),
    ("pack", "manage.pack", "make one portable file of a recording"),
    ("unpack", "manage.pack", "get a recording back out of its portable file"),
    ("import", "manage.convert", "convert recordings of other tools"),
    ("export", "manage.convert", "write a recording in the format of another tool"),
    ("policy", "manage.policy", "write, import, check, show and pin the policies of a project"),
    ("cassettes", "manage.cassettes", "list, check and tidy up the cassettes of a test tree"),
    ("serve", "server.serve", "run a server for exchanges of apps"),
    ("login", "server.login", "sign in to a server"),
    ("logout", "server.login", "sign out of the server"),
    ("exchange", "server.exchange", "look at exchanges of apps, replay and compare them"),
    ("batch", "server.batch", "replay many exchanges, counted first"),
    ("agents", "server.agents", "which apps are connected"),
    ("audit", "server.audit", "read, export, verify and prove the audit log"),
    ("tenant", "server.admin", "manage the tenants of a server"),
    ("user", "server.admin", "manage the people of a tenant"),
    ("key", "server.admin", "manage the keys of apps and programs"),
    ("environment", "server.admin", "say which environments are production"),
    ("retention", "server.admin", "say how long a tenant keeps what"),
    ("push", "server.push", "send a recording of a run to a server"),
    ("pull", "server.push", "get a recording of a run from a server"),
    ("capabilities", "manage.policy", "list what a program can do at its edge"),
    ("completion", "manage.completion", "print the completion script for a shell"),
)
"""Name, module below ``reenact.cli``, and one-line summary of each command, in the order of the help."""


def overview() -> str:
    """Return the text of ``reenact --help``."""
    commands = "\n".join(f"  {name:<13} {summary}" for name, _, summary in TABLE)
    return f"""\
usage: reenact [-h] [-V] COMMAND ...

{ABOUT}

commands:
{commands}

options:
  -h, --help     show this help and exit; after a command, the help of that command
  -V, --version  print the version and exit

exit codes: 0 fine, 1 diverged, 2 misuse, 3 damaged or unreadable, 4 refused by policy

example: reenact run --capture runs/today -- python agent.py
"""
