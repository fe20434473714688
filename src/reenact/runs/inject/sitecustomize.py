"""Start hook of Python processes below ``reenact run``, found through ``PYTHONPATH``.

It removes its folder from the path, starts Reenact if ``REENACT_RUN`` is set, and imports the
``sitecustomize`` that Python would have found otherwise. This file imports only the standard
library before it has found Reenact, because Reenact may not be installed for this interpreter.
"""

import os
import sys


def _refuse(message: str) -> None:
    """Print an error and end the process.

    Python would only print an exception of this module, and the program would run live.
    """
    try:
        sys.stderr.write(f"reenact: error: {message}\n")
        sys.stderr.flush()
        with open(os.path.join(os.environ["REENACT_RUN"], "refused"), "ab"):
            pass  # `reenact run` checks for this file
    finally:  # also if the run has ended and its folder was deleted
        os._exit(2)


def _lend(folder: str) -> None:
    """Let this interpreter import Reenact and its dependencies from where ``reenact run`` does."""
    from importlib.machinery import ModuleSpec, PathFinder

    homes: dict[str, str] = {}
    with open(os.path.join(folder, "homes"), encoding="utf-8") as file:
        tag, *lines = file.read().splitlines()
    if tag != sys.implementation.cache_tag:
        _refuse(
            f"`reenact` runs on {tag} and this program on {sys.implementation.cache_tag}, which "
            f"has no reenact\nhint: install reenact for {sys.executable} and run it from there"
        )
    for line in lines:
        name, _, home = line.partition("=")
        homes[name] = home

    class Lender:
        def find_spec(
            self, fullname: str, path: object, target: object = None
        ) -> "ModuleSpec | None":
            if fullname not in homes:
                return None
            return PathFinder.find_spec(fullname, [homes[fullname]])

    sys.meta_path.append(Lender())


def _start(folder: str) -> None:
    import gc
    from importlib import import_module

    collects = gc.isenabled()
    gc.disable()  # loaded modules stay in memory, so collections now would only take time
    try:
        try:
            reenact = import_module("reenact")
        except ImportError:
            _lend(folder)
            reenact = import_module("reenact")
        with open(os.path.join(folder, "version"), encoding="utf-8") as file:
            version = file.read()
        if reenact.__version__ != version:
            _refuse(
                f"`reenact` is {version}, and this program's own is {reenact.__version__}\n"
                "hint: run the `reenact` of the program's environment"
            )
        from reenact.runs.lazy_libraries import LIBRARIES, load_lazily

        load_lazily(*LIBRARIES)
        from reenact.runs.program import start

        start()
    except BaseException as error:  # noqa: BLE001 - after any error, the program must not run live
        hint = getattr(error, "hint", "")
        message = f"cannot start in this program: {type(error).__name__}: {error}"
        _refuse(f"{message}\nhint: {hint}" if hint else message)
    gc.freeze()  # collections of the program skip the objects created so far
    if collects:
        gc.enable()


if __name__ == "sitecustomize":
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != _here]
    _folder = os.environ.get("REENACT_RUN")
    if _folder:
        _start(_folder)
    # Import the name again without this file: `site` uses the module, or the ImportError.
    del sys.modules[__name__]
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
