"""pytest plugin: a test records its calls once and replays them afterwards.

pytest loads this package in every run. Without a test with a cassette, it costs an option parser
and a check of each collected test. Further modules are imported when they are needed.
"""

from __future__ import annotations

from reenact.pytest_plugin.hooks import (
    pytest_collection_modifyitems,
    pytest_fixture_setup,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_runtestloop,
    reenact_session,
)
from reenact.pytest_plugin.json_tests import pytest_collect_file
from reenact.pytest_plugin.options import pytest_addoption, pytest_configure, pytest_report_header
from reenact.pytest_plugin.vcr import pytest_addhooks

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_fixture_setup",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_runtestloop",
    "reenact_session",
]
