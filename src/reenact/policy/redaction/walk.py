"""The exact pass over a value: names decide over what stands under them, texts are searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reenact.errors import ValueRefused
from reenact.format.json_path import Path, join
from reenact.policy.redaction.command_lines import argument_credentials
from reenact.policy.redaction.grammar import Finding, cookies
from reenact.policy.redaction.known_values import KnownValues
from reenact.policy.redaction.names import (
    Names,
    is_always_sent,
    is_authorization_code,
    is_cookie,
    is_harmless,
    normalise,
)
from reenact.policy.redaction.placeholder import is_mark, pseudonym
from reenact.policy.redaction.strict import is_allowed_header, is_protocol_id, number_rule
from reenact.policy.redaction.structure import (
    CHUNKS,
    SCHEMA_VALUES,
    Leaf,
    if_changed,
    is_argument,
    is_pair,
    is_piece_of_text,
    is_schema,
    leaf_text,
    like,
    pair_name,
    payload_key,
    pieces,
    rejoin,
    replace_wide,
    wide_forms,
)
from reenact.policy.redaction.text import TextScanner, replace

__all__ = ["Walk"]

_DEEPEST = 200
_NAME_KEYS = ("name", "key", "header", "field")
_HEADERS = ("headers", "trailers")
_KNOWN = ("declared", "env")
_LONGEST_CLEAN_KEY = 64
_SHORTEST_TOKEN = 12
_MOST_CLEAN_KEYS = 4_096
_BESIDE_CODE = frozenset(
    "grant_type grantType redirect_uri redirectUri redirectURI code_verifier codeVerifier".split()
)


class Walk:
    """One exact pass. ``changes`` collects (path, rule, original leaf) for each replaced leaf.

    ``gate`` decides whether an encoded text needs a search; None means always. ``compared`` are the
    headers, in lower case, that ``strict`` leaves unchanged.
    """

    def __init__(
        self,
        names: Names,
        known: KnownValues,
        texts: TextScanner,
        salt: bytes | None,
        *,
        gate: Callable[[bytes], bool] | None,
        compared: frozenset[str] = frozenset(),
    ) -> None:
        self._names = names
        self._known = known
        self._texts = texts
        self._salt = salt
        self._gate = gate
        self._compared = compared
        self.changes: list[tuple[str, str, Leaf | dict[Any, Any]]] = []

    def value(self, value: Any, path: Path = ()) -> Any:
        """``value`` without its secrets; the same object when it has none."""
        if isinstance(value, (str, bytes)):
            return self._text(value, path)
        if isinstance(value, dict):
            return self._object(value, path)
        if isinstance(value, (list, tuple)):
            return self._array(value, path)
        if isinstance(value, int) and not isinstance(value, bool):
            rule = self._known.is_number(value)
            if rule is None and self._texts.strict and not (path and is_protocol_id(str(path[-1]))):
                rule = number_rule(value)
            return self._cover(value, path, "", rule) if rule else value
        return value

    def _text(self, value: str | bytes, path: Path, *, opaque: bool = False) -> Any:
        text, encoding = leaf_text(value)
        opaque = opaque or (self._texts.strict and bool(path) and is_protocol_id(str(path[-1])))
        found = self._search(text, opaque=opaque)
        new = replace(text, found, self._salt) if found else text
        rule = found[0].rule if found else ""
        if "\0" in text:
            clean, rule = self._without_wide(new, encoding, rule, opaque=opaque)
            return self._noted(value, clean, path, rule)
        if not found:
            return value
        return self._noted(value, new.encode(encoding) if encoding else new, path, rule)

    def _without_wide(
        self, text: str, encoding: str, rule: str, *, opaque: bool
    ) -> tuple[str | bytes, str]:
        """``text``, a leaf in ``encoding``, without the secrets that UTF-16 or UTF-32 in it has."""
        raw = text.encode(encoding) if encoding else text.encode("utf-8", "surrogatepass")
        new, wide_rule = replace_wide(
            raw,
            lambda wide: self._search(wide, opaque=opaque),
            lambda secret: pseudonym(self._salt, secret),
        )
        rule = rule or wide_rule
        if encoding:
            return new, rule
        return (new.decode("utf-8", "replace") if wide_rule else text), rule

    def _object(self, value: dict[Any, Any], path: Path) -> dict[Any, Any]:
        _check_depth(path)
        named = self._secret_of_named(value)
        renamed = self._renamed(value)
        before = len(self.changes)
        new = {
            key: self._cover(item, (*path, str(key)), named)
            if named and key == "value"
            else self._member(value, key, item, path)
            for key, item in value.items()
        }
        if not renamed:
            return if_changed(value, new)
        return self._with_keys(value, new, renamed, path, before)

    def _renamed(self, value: dict[Any, Any]) -> dict[Any, tuple[str, str]]:
        """The keys that have a secret in them: without it, and the rule. Known values are left for
        the last scan, which then refuses the payload."""
        renamed: dict[Any, tuple[str, str]] = {}
        clean = self._texts.clean_keys
        for key in value:
            if key not in clean and isinstance(key, str):
                every = self._search(key, opaque=True)
                found = [one for one in every if one.rule not in _KNOWN]
                if found:
                    renamed[key] = (replace(key, found, self._salt), found[0].rule)
                elif not every and len(key) <= _LONGEST_CLEAN_KEY and len(clean) < _MOST_CLEAN_KEYS:
                    clean.add(key)
        return renamed

    def _with_keys(
        self,
        old: dict[Any, Any],
        new: dict[Any, Any],
        renamed: dict[Any, tuple[str, str]],
        path: Path,
        before: int,
    ) -> dict[Any, Any]:
        """``new`` under other keys. One change stands for all in it: what is sealed is the whole."""
        fresh: dict[Any, Any] = {}
        for key, item in new.items():
            name = base = renamed[key][0] if key in renamed else key
            number = 1
            while name in fresh or (name != key and name in new):
                number += 1
                name = f"{base} ({number})"
            fresh[name] = item
        del self.changes[before:]
        self.changes.append((self._shown(path), next(iter(renamed.values()))[1], old))
        return fresh

    def _secret_of_named(self, value: dict[Any, Any]) -> str | None:
        """The secret name in ``{"name": …, "value": …}``."""
        if "value" not in value:
            return None
        names = (value.get(key) for key in _NAME_KEYS)
        return next((n for n in names if isinstance(n, str) and self._names.secret(n)), None)

    def _member(self, owner: dict[Any, Any], key: Any, item: Any, path: Path) -> Any:
        here = (*path, str(key))
        if isinstance(key, str) and self._names.secret(key) and not is_piece_of_text(owner, key):
            if path and path[-1] == "properties" and is_schema(item):
                return self._schema(item, here)
            if not self._is_excused(key, item, path):
                return self._cover(item, here, key)
        elif isinstance(key, str) and is_authorization_code(key, _BESIDE_CODE & set(owner)):
            return self._cover(item, here, key)
        if key == CHUNKS and isinstance(item, (list, tuple)):
            return self._chunks(item, here)
        if self._texts.strict and str(key).lower().endswith(_HEADERS):
            return self._headers(item, here)
        return self.value(item, here)

    def _is_excused(self, name: str, item: Any, path: Path) -> bool:
        """Return whether ``item``, in an object under the ambiguous ``name``, is evidently not a
        secret.
        """
        if not self._names.ambiguous(name) or (path and is_always_sent(str(path[-1]))):
            return False
        if isinstance(item, bool) or not isinstance(item, Leaf):
            return False
        return is_harmless(name, leaf_text(item)[0])

    def _array(self, value: list[Any] | tuple[Any, ...], path: Path) -> Any:
        _check_depth(path)
        if value and all(map(is_pair, value)):
            return like(value, [self._pair(value, index, path) for index in range(len(value))])
        spots = argument_credentials(value) if _is_command(value) else {}
        new = [
            self._argument(value[index], (*path, index), *spots[index])
            if index in spots
            else self._item(value, index, path)
            for index in range(len(value))
        ]
        return like(value, new)

    def _argument(self, word: str, path: Path, start: int, end: int) -> Any:
        """``word`` of a command without the credential in it."""
        if is_mark(word[start:end]):
            return word
        new = replace(word, [Finding(start, end, "command")], self._salt)
        return self._noted(word, new, path, "command")

    def _item(self, owner: Sequence[Any], index: int, path: Path) -> Any:
        item, here = owner[index], (*path, index)
        before: Any = owner[index - 1] if index else None
        if is_argument(before, item) and self._names.secret(pair_name(before)):
            return self._cover(item, here, pair_name(before))
        return self.value(item, here)

    def _pair(self, owner: Sequence[Any], index: int, path: Path) -> Any:
        pair, here = owner[index], (*path, index)
        name = pair_name(pair[0])
        if not self._names.secret(name) and not (
            normalise(name) == "code"
            and is_authorization_code(name, (pair_name(other[0]) for other in owner))
        ):
            return self.value(pair, here)
        return like(pair, [pair[0], self._cover(pair[1], (*here, 1), name)])

    def _schema(self, value: dict[Any, Any], path: Path) -> dict[Any, Any]:
        """A JSON schema of a secret describes it; only its defaults and examples may be one."""
        new = {
            key: (self._cover if key in SCHEMA_VALUES else self._plain)(item, (*path, str(key)), "")
            for key, item in value.items()
        }
        return if_changed(value, new)

    def _plain(self, value: Any, path: Path, _name: str) -> Any:
        return self.value(value, path)

    def _headers(self, value: Any, path: Path) -> Any:
        """Under strict, every header that is not on the list of harmless ones."""
        if isinstance(value, dict):
            new = {
                key: self._header(str(key), item, (*path, str(key))) for key, item in value.items()
            }
            return if_changed(value, new)
        if isinstance(value, (list, tuple)):
            return like(value, [self._one_header(x, (*path, i)) for i, x in enumerate(value)])
        return self.value(value, path)

    def _one_header(self, item: Any, path: Path) -> Any:
        if is_pair(item):
            return like(item, [item[0], self._header(pair_name(item[0]), item[1], (*path, 1))])
        if isinstance(item, dict) and "value" in item and isinstance(item.get("name"), str):
            new = self._header(item["name"], item["value"], (*path, "value"))
            return item if new is item["value"] else {**item, "value": new}
        return self.value(item, path)

    def _header(self, name: str, item: Any, path: Path) -> Any:
        if is_allowed_header(name):
            return self.value(item, path)
        if self._names.secret(name):
            return self._cover(item, path, name)
        if name.lower() in self._compared and isinstance(item, (str, bytes)):
            return self._text(item, path, opaque=True)
        return self._cover(item, path, "", "header")

    def _chunks(self, chunks: list[Any] | tuple[Any, ...], path: Path) -> Any:
        parts = pieces(chunks)
        if parts is None:
            return self.value(chunks, path)
        new, rule = rejoin(parts, self._search, self._salt)
        return like(
            chunks,
            [
                self._chunk(chunk, (*path, index), new[index], rule)
                for index, chunk in enumerate(chunks)
            ],
        )

    def _chunk(self, chunk: Any, path: Path, new: str | bytes, rule: str) -> Any:
        if isinstance(chunk, (str, bytes)):
            return self._noted(chunk, new, path, rule)
        owner: dict[Any, Any] = chunk
        payload = payload_key(owner)
        fresh = {
            key: self._noted(item, new, (*path, key), rule)
            if key == payload
            else self._member(owner, key, item, path)
            for key, item in owner.items()
        }
        return if_changed(owner, fresh)

    def _cover(self, value: Any, path: Path, name: str, rule: str = "name") -> Any:
        """Return ``value`` with every leaf replaced because of ``name``. Empty leaves reveal
        nothing.
        """
        if isinstance(value, dict):
            covered = {k: self._cover(v, (*path, str(k)), "", rule) for k, v in value.items()}
            return if_changed(value, covered)
        if isinstance(value, (list, tuple)):
            items = (self._cover(x, (*path, i), name, rule) for i, x in enumerate(value))
            return like(value, list(items))
        if (
            value is None
            or isinstance(value, bool)
            or (isinstance(value, str | bytes) and not value)
        ):
            return value
        text, encoding = leaf_text(value)
        form = next(wide_forms(value), None) if isinstance(value, bytes) else None
        if form is not None and isinstance(value, bytes):
            wide = (form.text(value) or "").removeprefix("\ufeff")
            if is_mark(wide):
                return value
            return self._noted(value, form.covered(value, pseudonym(self._salt, wide)), path, rule)
        if is_mark(text):
            return value
        new = pseudonym(self._salt, text)
        if is_cookie(name) and "=" in text:
            rule = "cookie"
            spans = (Finding(*span, rule) for span in cookies(text, 0, len(text)))
            new = replace(
                text, [x for x in spans if not is_mark(text[x.start : x.end])], self._salt
            )
        return self._noted(value, new.encode(encoding) if encoding else new, path, rule)

    def _search(self, text: str, *, opaque: bool = False) -> list[Finding]:
        if self._gate is not None:
            data = text.encode("utf-8", "surrogatepass")
            # A word has no name with a value in it, and no token is as short.
            is_word = len(text) < _SHORTEST_TOKEN and text.isalnum()
            if not (self._known.suspects(data) if is_word else self._gate(data)):
                return []
        return self._texts.find(text, opaque=opaque)

    def _noted(self, old: Leaf, new: str | bytes, path: Path, rule: str) -> Leaf:
        """``new``, remembered as a change, or ``old`` when it is the same."""
        if new == old:
            return old
        self.changes.append((self._shown(path), rule, old))
        return new

    def _shown(self, path: Path) -> str:
        """Return ``path`` as a text without the secrets that its keys can contain."""
        where = join(path)
        clean = self._texts.clean_keys
        if all(isinstance(key, int) or key in clean for key in path):
            return where
        return replace(where, self._texts.tokens(where), None)


def _is_command(value: Sequence[Any]) -> bool:
    """Return whether this could be a list of arguments: two words or more."""
    return len(value) > 1 and all(isinstance(word, str) for word in value)


def _check_depth(path: Path) -> None:
    if len(path) > _DEEPEST:
        raise ValueRefused(f"nested deeper than {_DEEPEST}", join(path[:8]) + "…")
