"""Every framework, in a program that knows nothing of us: recorded, and replayed without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SOAK
from tests.contract.server import Server
from tests.frameworks.cases import CASES, Case
from tests.frameworks.conftest import Trials
from tests.frameworks.environments import pins
from tests.frameworks.results import check_result
from tests.frameworks.servers import Aimock
from tests.frameworks.trying import Trial

pytestmark = pytest.mark.slow

_BEDROCK = "bedrock_converse"
_EDITED = ("openai_chat", "anthropic_messages", _BEDROCK)
"""What is changed on the wire is seen alike, whoever made it: all of them in ``make soak`` only."""


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_replayed_byte_for_byte(case: Case, trial: Trials, aimock: Aimock, bedrock: Server) -> None:
    bedrock.begin_act()
    tried = trial(case.environment, bedrock.url if case.program == _BEDROCK else aimock.address)
    program = tried.bring(case.program)

    recorded = tried.record(program)
    assert recorded.code == 0, recorded.err
    asked = len(aimock.journal()) + len(bedrock.journal)
    assert asked > 0

    replayed = tried.replay(program)
    assert replayed.own == recorded.own, replayed.err
    assert ", 0 live, 0 unused" in replayed.summary
    if SOAK or case.program in _EDITED:
        edited = tried.replay(_edited(tried, case))
        assert edited.code == 1, edited.err
    assert len(aimock.journal()) + len(bedrock.journal) == asked, "a replay went to the server"
    check_result(
        case.name,
        {
            "package": case.package,
            "version": pins(case.environment)[case.package],
            "environment": case.environment,
            "tries": case.tries,
            "calls": asked,
        },
    )


def _edited(tried: Trial, case: Case) -> Path:
    old, new = case.edit
    return tried.bring(case.program, **{old: new})
