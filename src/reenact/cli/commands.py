"""The commands there are, and what each is for. Loads nothing: ``reenact --help`` needs no more."""

from __future__ import annotations

from reenact.cli.command import Command
from reenact.cli.server_commands import SERVER_COMMANDS

__all__ = ["ABOUT", "COMMANDS", "Command", "overview"]

ABOUT = "Record everything that crosses the edge of a program, and re-enact it later."


COMMANDS = (
    Command(
        "run",
        "run:run",
        "run a program: record it, or re-enact it",
        "Runs a Python program, unchanged, with Reenact in it and in its Python children. Without "
        "a flag it is captured to a new folder under .reenact/runs/. In a replay unrecorded "
        "calls are refused, and a divergence ends with exit code 1; otherwise the exit code is the "
        "program's own.",
        "reenact run --capture runs/today -- python agent.py",
    ),
    Command(
        "fork",
        "fork:fork",
        "re-enact a run up to a call, then go on live",
        "Re-enacts a recorded run up to a call, exactly and without making any call; there it may "
        "change something, and then goes on live. All of it is a new recording, which knows its "
        "parent and replays by itself. What differs before the point is a divergence: exit code 1; "
        "otherwise the exit code is the program's own.",
        "reenact fork last --at last-llm --model gpt-5-mini -- python agent.py",
    ),
    Command(
        "show",
        "inspect:show",
        "look at the events of a recording",
        "Shows the events of a recording as a table, over time as a timeline, or one event whole. What "
        "was recorded is never trusted: control characters appear as escapes.",
        "reenact show runs/today --type tool_call --grep Bern",
    ),
    Command(
        "view",
        "view:view",
        "make one page of a recording, for a browser",
        "Writes a recording as one HTML file: lanes over time, conversations, HTTP, search, links. "
        "Nothing is loaded from elsewhere, and nothing that was recorded is obeyed.",
        "reenact view runs/today -o today.html",
    ),
    Command(
        "diff",
        "diff:diff",
        "what differs between two recordings",
        "Puts two recordings side by side, lane by lane and call by call: what was added, removed, "
        "moved and changed, with JSON paths, and texts word by word. Dates, ids and other things "
        "that are new in every run do not count, nor do readings of clock and chance. As text, as "
        "JSON, or as one page for a browser. Exit code 1 when they differ.",
        "reenact diff runs/monday last --ignore '$.request.body.user'",
    ),
    Command(
        "search",
        "search:search",
        "find calls in many recordings",
        "Finds the calls in which all words are: in messages, answers, arguments, results, bodies, "
        "URLs, errors. Newest recordings first, through an index in .reenact/cache that updates "
        "itself and may be deleted at any time.",
        "reenact search 'rate limit' --type llm --since 2d",
    ),
    Command(
        "explain",
        "explain:explain_divergence",
        "why a replay diverged, and what would settle it",
        "Shows a divergence in full, the calls around it in the recording and in the replay, its likely "
        "causes with what speaks for each, and the rule for the policy or the command that would settle "
        "it. A replay that diverges is kept until the next one of the same recording.",
        "reenact explain last",
    ),
    Command(
        "regress",
        "regress:regress",
        "re-enact many recordings against the code as it is now",
        "Re-enacts every recording under the folders, or on the server, several at a time: each with "
        "the program that it was recorded with, with the one after --, or in a function that is given "
        "the recorded input. Says what went wrong, grouped by cause. Exit code 1 when something "
        "diverged or failed that the baseline does not know.",
        "reenact regress .reenact/runs -j 4 --junit regress.xml",
    ),
    Command(
        "stats",
        "stats:stats",
        "sizes, counts, and what repetition saved",
        "Shows what a recording holds: its size on disk, events per type and lane, its biggest "
        "events, and how much storing repetition once has saved.",
        "reenact stats runs/today",
    ),
    Command(
        "verify",
        "check:verify",
        "check recordings down to the last byte",
        "Checks everything that can be checked: version, count, hashes, every line and field, every "
        "blob, and that nothing is there that does not belong. Names the first bad place.",
        "reenact verify runs/* --key release.key.pub",
    ),
    Command(
        "sign",
        "check:sign",
        "sign a recording, or make a key to sign with",
        "Signs a recording with Ed25519. A hash shows accidents; only a signature shows what "
        "somebody has edited.",
        "reenact sign runs/today --key release.key",
    ),
    Command(
        "recover",
        "mend:recover",
        "close a recording that its program never closed",
        "Closes a recording whose program was killed. Every whole event stays; what the kill tore is "
        "set aside, and the report says what that was.",
        "reenact recover runs/today",
    ),
    Command(
        "migrate",
        "mend:migrate",
        "rewrite a recording of an earlier format version",
        "Writes a recording of an earlier format version anew in the present one. The old one stays "
        "as it is.",
        "reenact migrate runs/old runs/new",
    ),
    Command(
        "redact",
        "mend:redact",
        "copy a recording with more taken out of it",
        "Copies a recording with more taken out: same events, same order, new hashes. Says which "
        "rule removed how much and where, never what. The original stays as it is.",
        "reenact redact runs/today shareable --profile strict --value-from customers.txt",
    ),
    Command(
        "pack",
        "portable:pack",
        "make one portable file of a recording",
        "Writes a recording into one compressed file, verified before and after. Sealed values stay "
        "at home.",
        "reenact pack runs/today today.reenact",
    ),
    Command(
        "unpack",
        "portable:unpack",
        "get a recording back out of its portable file",
        "Extracts a packed recording and verifies it.",
        "reenact unpack today.reenact runs/received",
    ),
    Command(
        "import",
        "foreign:import_",
        "make recordings out of those of other tools",
        "Reads recordings of other tools (vcrpy and pytest-recording, HAR, X07, Boruna, mitmproxy) "
        "and writes a tape for each, beside it and with the same name, or elsewhere. A folder is "
        "gone through as a whole. Secrets are taken out, originals stay as they are, and what "
        'cannot be kept is said on stderr. Replay them with match="lookup".',
        "reenact import --vcr tests/cassettes",
    ),
    Command(
        "export",
        "foreign:export",
        "write a recording in the format of another tool",
        "Writes the HTTP calls of a recording, or the entries of a cassette, in a format that other "
        "tools read, and says on stderr what that format has no place for. Sealed values are never "
        "exported.",
        "reenact export runs/today today.har",
    ),
    Command(
        "policy",
        "",
        "write, import, check, show and pin the policies of a project",
        "The policies of a project lie in its folder .reenact: what its programs may do, how calls "
        "are compared, what is secret. The index pins their contents.",
        "reenact policy check",
        under=(
            Command(
                "init",
                "policy:init",
                "write a first, working set of files",
                "Writes an index, a policy and a sanitizer into the folder .reenact. What is there "
                "already stays as it is, and is an error.",
                "reenact policy init",
            ),
            Command(
                "import",
                "policy:import_x07",
                "take over the policies of an X07 project",
                "Writes the policies and sanitizers of an X07 folder arch/rr as ours, pinned, beside "
                "those that are there, and says what became of each setting. All or nothing: an id "
                "or a file that is taken is an error. Salts are never copied.",
                "reenact policy import arch/rr",
            ),
            Command(
                "check",
                "policy:check",
                "find everything that is wrong in the files",
                "Reads every file and says everything that is wrong: unknown fields, values that "
                "make no sense, contradictions, and contents that are not the pinned ones.",
                "reenact policy check --json",
            ),
            Command(
                "show",
                "policy:show",
                "say what is in force, and where each value comes from",
                "Shows every setting of a policy as it holds here and now: in the policy's file, its "
                "sanitizer, the index, or by default.",
                "reenact policy show default",
            ),
            Command(
                "pin",
                "policy:pin",
                "accept the files as they are now",
                "Writes the digests of the files as they are now into the index, of one policy or of "
                "all, and says which have changed. Do this after an edit that was meant. A policy that "
                "the index does not name yet gets an entry, if its file is policies/ID.policy.json.",
                "reenact policy pin default",
            ),
        ),
    ),
    Command(
        "cassettes",
        "",
        "list, check and tidy up the cassettes of a test tree",
        "Cassettes are tapes that tests replay. These commands look at all of them below a folder: "
        "what is there, what no test asks for, what is out of date, and whether they may be shared.",
        "reenact cassettes ls tests",
        under=(
            Command(
                "ls",
                "cassettes:ls",
                "a table of the cassettes",
                "Lists every cassette with its events, calls, size and age, whether its policy is the "
                "pinned one, and whether it can be replayed.",
                "reenact cassettes ls tests --json",
            ),
            Command(
                "unused",
                "cassettes:unused",
                "cassettes that no test asks for",
                "Lists the cassettes that no test asks for, by what pytest collects. Exit code 1 if "
                "there are any.",
                "reenact cassettes unused tests",
            ),
            Command(
                "stale",
                "cassettes:stale",
                "cassettes that should be recorded again",
                "Lists the cassettes that should be recorded again, and why: an older form, another "
                "policy, a weaker redaction than now, never finished. Exit code 1 if there are any.",
                "reenact cassettes stale tests",
            ),
            Command(
                "prune",
                "cassettes:prune",
                "remove the cassettes that no test asks for",
                "Lists the cassettes that no test asks for and, with --yes, removes them and what "
                "belongs to them. Without it nothing is touched.",
                "reenact cassettes prune tests --yes",
            ),
            Command(
                "check",
                "hook:check",
                "refuse cassettes that must not be shared",
                "Checks cassettes before they are committed: every hash, that they are finished, and "
                "that nothing in them looks like a secret. Of vcrpy's YAML files the text is looked "
                "at. What is found is not shown. Exit code 4 for a secret, 3 for damage.",
                "reenact cassettes check tests",
            ),
        ),
    ),
    *SERVER_COMMANDS,
    Command(
        "capabilities",
        "capabilities:capabilities",
        "list what a program can do at its edge",
        "Lists the capabilities that policies allow or deny, the version of each one's contract, and "
        "the hash of the whole set that recordings carry.",
        "reenact capabilities --json",
    ),
    Command(
        "completion",
        "completion:completion",
        "print the completion script for a shell",
        "Prints a script that completes the commands and options of reenact in your shell.",
        'eval "$(reenact completion bash)"',
    ),
)


def overview() -> str:
    """What ``reenact --help`` says."""
    commands = "\n".join(f"  {command.name:<13} {command.summary}" for command in COMMANDS)
    return f"""\
usage: reenact [-h] [-V] COMMAND ...

{ABOUT}

commands:
{commands}

options:
  -h, --help     show this help and exit; after a command, the help of that command
  -V, --version  print the version and exit

exit codes: 0 fine, 1 diverged, 2 misuse, 3 damaged or unreadable, 4 refused by policy

example: {COMMANDS[0].example}
"""
