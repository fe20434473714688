"""What holds for every test: no user settings, no user secrets, bounded or soaking counts."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.configuration import set_hypothesis_home_dir

ROOT = Path(__file__).resolve().parent.parent
SOAK = os.environ.get("REENACT_SOAK", "") not in ("", "0")
SOAK_FOLDERS = tuple(
    ROOT / "tests" / name for name in ("frameworks", "server/deploy", "server/fire")
)
"""Tests that install other packages, deploy servers, or kill them: too long for `make test`."""
_OF_THE_MACHINE = {"CI", "PYTHONDONTWRITEBYTECODE"}
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|AUTH", re.IGNORECASE)

set_hypothesis_home_dir(ROOT / ".cache" / "hypothesis")
# No deadline: the machines are shared and noisy, and a slow example is not a wrong one.
_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", _COMMON, max_examples=20)
settings.register_profile("soak", _COMMON, max_examples=3_000)
settings.load_profile("soak" if SOAK else "ci")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A job in the background has it ignored, and so would every program that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _trust_one_authority() -> None:
    """Let every client trust one certificate authority instead of 140.

    httpx reads the complete bundle for each client, which takes 25 ms; no test reaches a server
    that one of these authorities knows.
    """
    complete = certifi.contents()
    place = ROOT / ".cache" / "tests" / "authority.pem"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        own = place.with_suffix(f".{os.getpid()}")
        own.write_text(complete[: complete.index(_END) + len(_END)] + "\n", encoding="ascii")
        own.replace(place)
    certifi.where = lambda: str(place)


_END = "-----END CERTIFICATE-----"
_trust_one_authority()


def _foreign(name: str) -> bool:
    ours = name.startswith("REENACT_") and name != "REENACT_SOAK"
    return ours or name in _OF_THE_MACHINE or _SECRET_NAME.search(name) is not None


@pytest.fixture(scope="session", autouse=True)
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, nor any process it starts, sees the user's Reenact settings or secrets, or whether
    it runs in CI, where recordings are redacted more strictly. Each keeps the bytecode that it made.

    Secrets matter because redaction looks for the values of variables with secret names: a short
    one in somebody's shell would change what the tests record.
    """
    before = dict(os.environ)
    for name in filter(_foreign, before):
        del os.environ[name]
    os.environ["REENACT_CONFIG_DIR"] = str(tmp_path_factory.mktemp("config"))
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Every test starts in the folder in which pytest was started, wherever the last one went."""
    os.chdir(item.config.invocation_params.dir)
    return (yield)


@pytest.fixture(scope="session")
def rounds() -> Callable[[int, int], int]:
    """`rounds(few, many)`: how often a repeating test repeats, in `make test` and in `make soak`."""
    return lambda few, many: many if SOAK else few


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of `make test` or of `make soak`. Every Hypothesis test takes part in both,
    and so does every test of a module that does less unless ``SOAK`` is set."""
    kept, left_out = [], []
    variants: dict[str, dict[str, int]] = {}
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)) or _depends_on_soak(item):
            item.add_marker(pytest.mark.soak)
        if any(map(item.path.is_relative_to, SOAK_FOLDERS)) or _is_thinned_out(item, variants):
            item.add_marker(pytest.mark.soak_only)
        if item.get_closest_marker("soak_only") is None:
            kept.append(item)
        elif SOAK:
            item.add_marker(pytest.mark.soak)
            kept.append(item)
        else:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude the modules and items from garbage collection.

    They live as long as the worker. Tests that wait for the collector, and each of its regular
    runs, would otherwise visit millions of objects: half of the CPU time of the suite.
    """
    gc.collect()
    gc.freeze()


def _depends_on_soak(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and hasattr(item.module, "SOAK")


def _is_thinned_out(item: pytest.Item, variants: dict[str, dict[str, int]]) -> bool:
    """Return whether the marker ``thinned`` leaves the variant ``item`` to `make soak`.

    The first variant that a function runs moves by one from function to function of a module. So
    n functions together run every variant (a client, say), and each of them every n-th.
    """
    marker = item.get_closest_marker("thinned")
    if marker is None or not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    functions = variants.setdefault(str(item.path), {})
    function = item.nodeid.partition("[")[0]
    position = functions.setdefault(function, -len(functions))
    functions[function] = position + 1
    return position % int(marker.args[0]) != 0
