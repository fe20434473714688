"""Libraries that are loaded without what they might need: they have it when they need it."""

from __future__ import annotations

import subprocess
import sys

_LOAD = "from reenact.runs.lazy_libraries import LIBRARIES, load_lazily; load_lazily(*LIBRARIES)\n"
_LATE = ("inspect", "ipaddress", "msgspec.inspect", "platform", "textwrap", "typing_extensions")


def _printed(code: str) -> list[str]:
    """By a Python in which nothing has been loaded yet."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not run.stderr
    return run.stdout.splitlines()


def test_the_libraries_are_there_and_what_they_might_need_is_not() -> None:
    code = (
        f"import sys\n{_LOAD}print(sorted(sys.modules.keys() & {{*{_LATE}, 'msgspec', 'orjson'}}))"
    )
    assert _printed(code) == ["['msgspec', 'orjson']"]


def test_who_imports_it_afterwards_gets_the_module_itself() -> None:
    code = f"""
{_LOAD}
import importlib
from types import ModuleType
for name in {_LATE}:
    module = importlib.import_module(name)
    print(type(module) is ModuleType, module.__spec__.name == name)
"""
    assert _printed(code) == ["True True"] * len(_LATE)


def test_what_uses_it_later_finds_what_it_uses() -> None:
    code = f"""
{_LOAD}
import dataclasses, platform, urllib.parse, uuid
import msgspec

@dataclasses.dataclass
class Cup:
    size: int

class Tea(msgspec.Struct):
    '''
    Hot.
    '''

print(Cup.__doc__)
print(msgspec.json.schema(Tea)["$defs"]["Tea"]["description"])
print(msgspec.inspect.type_info(int) == msgspec.inspect.IntType())
print(urllib.parse.urlsplit("http://[::1]:80/").hostname)
theirs = getattr(uuid, "platform", platform)  # until Python 3.12
print(uuid.uuid1().version, theirs.system() == platform.system())
"""
    assert _printed(code) == ["Cup(size: int)", "Hot.", "True", "::1", "1 True"]


def test_types_of_typing_extensions_are_understood_as_without_us() -> None:
    code = """
from typing_extensions import NotRequired, ReadOnly, Required, TypedDict
import msgspec

class Order(TypedDict, total=False):
    tea: Required[int]
    milk: NotRequired[bool]

class Menu(TypedDict):
    tea: ReadOnly[int]

for value, kind in (({"tea": 1}, Order), ({}, Order), ({"tea": 1}, Menu)):
    try:
        print(msgspec.convert(value, kind))
    except (TypeError, msgspec.ValidationError) as error:
        print(type(error).__name__, error)
"""
    assert _printed(_LOAD + code) == _printed(code)


def test_a_module_that_is_there_stays() -> None:
    code = f"import inspect\n{_LOAD}import dataclasses\nprint(dataclasses.inspect is inspect)"
    assert _printed(code) == ["True"]


def test_the_parser_of_commands_speaks_as_it_does_without_translations() -> None:
    code = """
import argparse
parser = argparse.ArgumentParser(prog="tea", exit_on_error=False)
parser.add_argument("cups", nargs=2)
print(parser.format_help())
"""
    lightly = "from reenact.runs.lazy_libraries import load_lazily; load_lazily('argparse')\n"
    assert _printed(lightly + code) == _printed(code)
