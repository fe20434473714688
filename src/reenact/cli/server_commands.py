"""The commands that are a server, or ask one, and what each is for. Loads nothing."""

from __future__ import annotations

from reenact.cli.command import Command

__all__ = ["SERVER_COMMANDS"]

_EXCHANGE = (
    Command(
        "ls",
        "exchange:ls",
        "find exchanges",
        "Lists exchanges, newest first: requests, jobs and messages that went through a route.",
        "reenact exchange ls --app shop --status failed --since 2h",
    ),
    Command(
        "show",
        "exchange:show",
        "look at one exchange",
        "Shows what came in, the processors as a tree with their durations and what each changed, "
        "the calls that were made, and what came out.",
        "reenact exchange show last --calls",
    ),
    Command(
        "replay",
        "replaying:replay",
        "run one again, with another payload if you like",
        "Has the app run an exchange again through its route, waits for it, and shows what differs. "
        "Recorded calls get their recorded responses, and calls without a counterpart in the recording "
        "are refused, unless --boundaries specifies otherwise. The app declares how drivers and files "
        "are treated. Exit code 0 for identical, equivalent and fixed, 1 for regressed and diverged, 4 when "
        "it was refused, 3 when it could not be run.",
        "reenact exchange replay last --set body.amount=5 --reason rounding",
    ),
    Command(
        "replays",
        "exchange:replays",
        "find replays",
        "Lists replays, newest first: of what, where, by whom, how far each is, and its verdict.",
        "reenact exchange replays --app shop --verdict regressed --since 1d",
    ),
    Command(
        "diff",
        "exchange:diff",
        "what differs between two exchanges",
        "Puts two exchanges side by side: start, processors, calls, result, timing. With one that is a "
        "replay, it and its source. Exit code 1 when they differ by more than noise.",
        "reenact exchange diff ex_01a1 ex_01a2",
    ),
    Command(
        "cancel",
        "exchange:cancel",
        "end a replay",
        "Ends a replay that has not ended by itself.",
        "reenact exchange cancel rpl_01J",
    ),
    Command(
        "learn",
        "exchange:learn",
        "learn what differs by itself",
        "Replays an exchange twice, unchanged. What differs between the two is noise, and does not "
        "count from now on in comparisons of this route.",
        "reenact exchange learn ex_01a1",
    ),
    Command(
        "prove",
        "exchange:prove",
        "write the proof of a replay",
        "Writes a file that shows, to whoever has the log's verifier key, which payload was replayed "
        "and what came of it: both audit records with their proofs, and the values behind their "
        "digests.",
        "reenact exchange prove last -o replay.json",
    ),
)

_BATCH = (
    Command(
        "ls",
        "batch:ls",
        "a table of the batches",
        "Lists batches, newest first.",
        "reenact batch ls",
    ),
    Command(
        "plan",
        "batch:plan",
        "count what a batch would replay",
        "Finds exchanges, says how many there are, where they would run, what would be refused and what "
        "would go out into the world. Nothing runs.",
        "reenact batch plan --app shop --status failed --since 1d",
    ),
    Command(
        "run",
        "batch:run",
        "run a batch that was planned",
        "Confirms a batch, and follows it to its end. Each exchange is replayed at most once, by the same "
        "rules as a single one. Exit code 0 when every replay is identical, equivalent or fixed, else 1.",
        "reenact batch run bat_01J",
    ),
    Command(
        "show",
        "batch:show",
        "how far a batch is, and what came of it",
        "Shows what was planned, how far it is, and the verdicts.",
        "reenact batch show bat_01J --items --verdict regressed",
    ),
    Command(
        "cancel",
        "batch:cancel",
        "end a batch",
        "What waits is not tried any more, and replays under way are told to end.",
        "reenact batch cancel bat_01J",
    ),
)

_AUDIT = (
    Command(
        "ls",
        "audit:ls",
        "find records",
        "Lists the records of the audit log: who did what, when, where, and how it ended.",
        "reenact audit ls --action replay.requested --since 7d",
    ),
    Command(
        "head",
        "audit:head",
        "the newest signed head",
        "Prints the newest head of the log, as text. Whoever keeps one can tell later whether the log "
        "still begins with what it had then.",
        "reenact audit head -o head",
    ),
    Command(
        "key",
        "audit:key",
        "the verifier keys of the log",
        "Prints the keys that verify the heads of the log. Compare them once with what you were told "
        "in another way, and keep them.",
        "reenact audit key -o key.pub",
    ),
    Command(
        "export",
        "audit:export",
        "write the whole log to a file",
        "Writes the log with every signed head, to be verified offline; or its records as a list.",
        "reenact audit export -o audit.tar",
    ),
    Command(
        "verify",
        "audit_verify:verify",
        "find out whether the log is what was signed",
        "Recomputes everything, offline: an export, a .tlog-proof, or what exchange prove wrote; without "
        "a file it fetches the server's log, and does not believe it either. The last head that you "
        "have seen of a log is kept for you: from then on it has to grow from it. Says what is proven "
        "and what is not. Exit code 3 when something is wrong.",
        "reenact audit verify audit.tar --key key.pub",
    ),
    Command(
        "prove",
        "audit:prove",
        "write the proof of a record",
        "Writes a file that shows, to whoever has the log's verifier key, that the log has a record.",
        "reenact audit prove 17 -o 17.tlog-proof",
    ),
)

_TENANT = (
    Command(
        "ls",
        "administration:ls_tenants",
        "a table of the tenants",
        "Lists the tenants of this server, with their tiers.",
        "reenact tenant ls",
    ),
    Command(
        "add",
        "administration:add_tenant",
        "make a tenant",
        "Makes a tenant, and prints the link for its first administrator. Exchange replay is there for the tiers high and business on dedicated machines.",
        "reenact tenant add acme --admin ann@acme.example --tier business --dedicated",
    ),
    Command(
        "set",
        "administration:set_tenant",
        "change a tenant",
        "Changes the tier of a tenant, or whether its machines are its own.",
        "reenact tenant set acme --tier high",
    ),
)

_USER = (
    Command(
        "ls",
        "administration:ls_users",
        "a table of the users",
        "Lists the users of your tenant, with what they are granted.",
        "reenact user ls --json",
    ),
    Command(
        "add",
        "administration:add_user",
        "invite somebody",
        "Makes a user and prints a link, for this person alone and once, with which to set the password.",
        "reenact user add ann@acme.example --role viewer",
    ),
    Command(
        "invite",
        "administration:invite",
        "another link for the password",
        "Prints another link to set the password with. The password so far, and all sessions, end.",
        "reenact user invite ann@acme.example",
    ),
    Command(
        "rm",
        "administration:remove_user",
        "remove a user",
        "Removes a user; sessions and keys of theirs end at once.",
        "reenact user rm ann@acme.example",
    ),
    Command(
        "grant",
        "administration:grant",
        "let a user do something",
        "Grants a role or a permission, everywhere or for one environment or app. No role has all "
        "permissions.",
        "reenact user grant ann@acme.example replayer --environment staging",
    ),
    Command(
        "revoke",
        "administration:revoke",
        "take a grant back",
        "Takes a grant back. It holds no longer, at once.",
        "reenact user revoke ann@acme.example grt_01J",
    ),
)

_KEY = (
    Command(
        "ls",
        "administration:ls_keys",
        "a table of the keys",
        "Lists the keys of your tenant, never the secrets in them.",
        "reenact key ls",
    ),
    Command(
        "add",
        "administration:add_key",
        "make a key for an app or a program",
        "Makes a key, and prints it: now and never again.",
        "reenact key add shop-staging --app shop --environment staging",
    ),
    Command(
        "rm",
        "administration:remove_key",
        "revoke a key",
        "Revokes a key, at once.",
        "reenact key rm key_01J",
    ),
)

_ENVIRONMENT = (
    Command(
        "ls",
        "administration:ls_environments",
        "a table of the environments",
        "Lists the environments. One that is not listed counts as production.",
        "reenact environment ls",
    ),
    Command(
        "set",
        "administration:set_environment",
        "say what an environment is",
        "Says whether an environment is production.",
        "reenact environment set staging non-production",
    ),
)

_RETENTION = (
    Command(
        "show",
        "retention:show",
        "how long what is kept",
        "Shows how many days exchanges, recordings and captures are kept.",
        "reenact retention show",
    ),
    Command(
        "set",
        "retention:set_days",
        "say how long what is kept",
        "Says how many days something is kept; what is not named stays as it is. What is older is erased "
        "within the hour, for good. The audit log stays, and its proofs hold.",
        "reenact retention set --exchanges 90 --recordings 30",
    ),
)

SERVER_COMMANDS = (
    Command(
        "serve",
        "serving:serve",
        "run a server for exchanges of apps",
        "Runs a server on SQLite and a folder: no configuration. The first start prints a link with "
        "which to make the first account. Several servers can share a PostgreSQL database.",
        "reenact serve --port 8321 --data reenact-server",
    ),
    Command(
        "login",
        "login:login",
        "sign in to a server",
        "Signs in with e-mail address and password, and keeps a key of your own for the command line "
        "in a file that only you can read. A link for the first account, or an invitation, sets the "
        "password first. REENACT_SERVER and REENACT_API_KEY come before the file.",
        "reenact login https://reenact.example --email ann@acme.example",
    ),
    Command(
        "logout",
        "login:logout",
        "sign out of the server",
        "Revokes the key that login made, and forgets it.",
        "reenact logout --json",
    ),
    Command(
        "exchange",
        "",
        "look at exchanges of apps, replay and compare them",
        "An exchange is one request, job or message that went through a route of an app. The app "
        "records it; the server keeps it; and the app can run it again, with another payload.",
        "reenact exchange replay ex_01a1 --set body.amount=5",
        under=_EXCHANGE,
    ),
    Command(
        "batch",
        "",
        "replay many exchanges, counted first",
        "A batch is planned, which counts; run, which somebody has to say; and summed up by verdict. The "
        "server goes on with it whoever listens.",
        "reenact batch plan --saved yesterday",
        under=_BATCH,
    ),
    Command(
        "agents",
        "agents:agents",
        "which apps are connected",
        "Lists the agents of apps, with their environments, and how much waits in their spools. Those that "
        "were not heard for a day are gone, and left out unless you ask for them.",
        "reenact agents --state online",
    ),
    Command(
        "audit",
        "",
        "read, export, verify and prove the audit log",
        "Everything that people do on a server is in a log that can be shown not to have been changed. "
        "These commands read it, and verify it without believing the server.",
        "reenact audit verify",
        under=_AUDIT,
    ),
    Command(
        "tenant",
        "",
        "manage the tenants of a server",
        "Tenants share nothing but the server. For platform administrators.",
        "reenact tenant ls",
        under=_TENANT,
    ),
    Command(
        "user",
        "",
        "manage the people of a tenant",
        "Who there is, and what they are granted. For tenant administrators.",
        "reenact user ls",
        under=_USER,
    ),
    Command(
        "key",
        "",
        "manage the keys of apps and programs",
        "Keys of agents are for one app and environment; keys of programs have grants.",
        "reenact key ls",
        under=_KEY,
    ),
    Command(
        "environment",
        "",
        "say which environments are production",
        "Replays in production need a permission of their own and a reason.",
        "reenact environment ls",
        under=_ENVIRONMENT,
    ),
    Command(
        "retention",
        "",
        "say how long a tenant keeps what",
        "Exchanges, recordings and captures are kept for ever unless somebody says otherwise. For tenant "
        "administrators.",
        "reenact retention show",
        under=_RETENTION,
    ),
    Command(
        "push",
        "pushing:push",
        "send a recording of a run to a server",
        "Packs a recording and sends it; the server verifies it.",
        "reenact push last",
    ),
    Command(
        "pull",
        "pushing:pull",
        "get a recording of a run from a server",
        "Gets a packed recording, unpacks and verifies it.",
        "reenact pull cap_01J -o runs/received",
    ),
)
