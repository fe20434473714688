"""The pytest plugin: a test that talks to the world records once, and replays for ever after.

pytest loads this in every run, so that what it costs without a marked test is an option parser and
a look at the names of the tests. What does the work is imported when a marked test begins.
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
