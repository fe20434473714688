"""Every way to draw an identifier from a library that is written in Rust."""

from importlib import import_module
from importlib.util import find_spec

NAMES = "uuid1 uuid4 uuid6 uuid7 uuid_v1mc _uuid4_int _uuid7_int".split()
BULKS = "uuid4_bulk uuid7_bulk uuid4_as_strings_bulk uuid7_as_strings_bulk".split()

for name in ("fastuuid", "uuid_utils", "uuid_utils.compat"):
    if find_spec(name.partition(".")[0]) is None:
        continue
    module = import_module(name)
    for way in (way for way in NAMES if hasattr(module, way)):
        made = getattr(module, way)()
        print(name, way, type(made).__name__, made)
    for way in (way for way in BULKS if hasattr(module, way)):
        print(name, way, [str(one) for one in getattr(module, way)(3)])
    print(name, module.uuid5(module.UUID(int=7), b"same" if name == "fastuuid" else "same"))
