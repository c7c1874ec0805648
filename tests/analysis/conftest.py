"""A lab with a bit of everything in it."""

from contextlib import closing

import pytest

from agentflex_nb.core.drift import AgentRecord
from agentflex_nb.core.inputs import AgentResumeCommand
from agentflex_nb.store.lab_store import LabStore
from agentflex_nb.testing.store_contract import ASK, SHOP, Tale
from agentflex_nb.testing.time import START


@pytest.fixture(scope="module")
def empty():
    with closing(LabStore(":memory:")) as store:
        yield store.archive


@pytest.fixture(scope="module")
def archive():
    """t1 completed after a step, t2 waits for an answer, t3 was answered and goes on."""
    with closing(LabStore(":memory:")) as store:
        Tale(store, "t1", conversation_id="c1").step().finish()
        Tale(store, "t2").call(ASK)
        answered = Tale(store, "t3").call(ASK)
        answered.say(AgentResumeCommand.approve_tool(answered.turn.questions[0].id, by="alice"))
        store.keep_agent(AgentRecord(definition=SHOP, fingerprint="f1"), START)
        yield store.archive
