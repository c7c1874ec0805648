"""Answers too late, too often or for something else; agents that are not what they were: K28, K33, K34."""

import threading
import time
from typing import Any

import pytest

import agentflex_nb as af
from agentflex_nb.core.messages import Origin, Role
from agentflex_nb.runtime.loader import AgentLoader

call = af.ScriptedModel.call
answer = af.AgentResumeCommand


class Bank:
    """One gated tool that counts, and may take its time."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    @property
    def tools(self) -> list[af.Tool]:
        @af.tool(approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.began.set()
            self.go_on.wait(10)
            self.done.append(amount)
            return "paid"

        @af.tool(external=True)
        def ship() -> str:
            """Ship."""
            return "never"

        return [pay, ship]


@pytest.fixture
def bank() -> Bank:
    return Bank()


FORM = af.AgentForm("seats", "Seats", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
SUSPENDS = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))
LATER = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(initial_delay=3600, max_delay=3600))
BUSY = af.RateLimitError("busy")

# status -> how a turn comes there
STATES: dict[str, dict[str, Any]] = {
    "WAITING_FOR_APPROVAL": {"replies": [call("pay", amount=1), "Done."]},
    "WAITING_FOR_USER": {"replies": [call("request_user_input", form_key="seats"), "Done."]},
    "WAITING_FOR_EXTERNAL_TOOL": {"replies": [call("ship"), "Done."]},
    "WAITING_FOR_MODEL": {"replies": [BUSY], "execution_policy": SUSPENDS},
    "RETRY_SCHEDULED": {"replies": [BUSY], "execution_policy": LATER},
    "COMPLETED": {"replies": ["Done."]},
    "FAILED": {"replies": [ValueError("x")]},
    "MAX_ITERATIONS_REACHED": {
        "replies": [call("nope")] * 2,
        "execution_policy": af.AgentExecutionPolicy(max_iterations=1, tool_errors="RETURN_ERROR_TO_MODEL"),
    },
}
# command -> the one status that it fits
COMMANDS = {
    "approve": (answer.approve_tool, "WAITING_FOR_APPROVAL"),
    "reject": (answer.reject_tool, "WAITING_FOR_APPROVAL"),
    "submit": (lambda id: answer.user_input(id, {"n": 1}), "WAITING_FOR_USER"),
    "say": (lambda id: answer.user_input(id, "hello"), ""),
    "supply": (lambda id: answer.external_result(id, "x"), "WAITING_FOR_EXTERNAL_TOOL"),
    "retry": (answer.retry, "WAITING_FOR_MODEL"),
}


def come_to(desk, status, bank) -> Any:
    given = dict(STATES[status])
    runner = desk.another_runner(options=af.AgentRunnerOptions(max_retry_wait=0))
    agent = desk.agent(*given.pop("replies"), tools=bank.tools, forms=[FORM], **given)
    turn = runner.run(agent, "go", conversation_id=desk.conversation())
    assert turn.status == status
    return turn


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("status", STATES)
def test_what_does_not_fit_is_refused_and_nothing_changes(memory_desk, bank, status, command):
    """K33: for every status, every kind of answer, and an id of nobody."""
    turn = come_to(memory_desk, status, bank)
    ids = [question.id for question in turn.questions] or [f"{turn.id}.1.0"]
    make, fits = COMMANDS[command]
    before, log = memory_desk.store.load(turn.id), memory_desk.log(turn)

    for id in ["nope", *([] if fits == status else ids)]:
        with pytest.raises(af.CommandRefusedError):
            memory_desk.runner.resume(turn.id, make(id))

    assert memory_desk.store.load(turn.id) == before
    assert (memory_desk.log(turn), bank.done) == (log, [])


@pytest.mark.parametrize("status", [status for status in STATES if "_" in status and not status.startswith("MAX")])
def test_a_turn_that_waits_is_cancelled_once_from_any_kernel(desk, bank, status):
    """K33: in one step; every call is closed, nothing can be answered, and the conversation goes on."""
    turn = come_to(desk, status, bank)

    assert [desk.another_runner().cancel(turn.id, "no"), turn.cancel()] == [True, False]

    turn.refresh()
    assert (turn.status, turn.questions, bank.done) == ("CANCELLED", (), [])
    assert desk.log(turn).count("TURN_CANCELLED") == desk.log(turn).count("CANCELLATION_REQUESTED") == 1
    with pytest.raises(af.CommandRefusedError) as refused:
        turn.approve()
    assert refused.value.reason == "FINAL"


@pytest.mark.parametrize("second", ["approve", "reject", "cancel"])
def test_a_rejection_stands(desk, bank, second):
    """K33"""
    turn = come_to(desk, "WAITING_FOR_APPROVAL", bank)
    question = turn.questions[0].id
    turn.reject("no")
    before = desk.store.load(turn.id)

    if second == "cancel":
        assert turn.cancel() is False
    else:
        with pytest.raises(af.CommandRefusedError, match="already answered"):
            getattr(turn, second)(call_id=question)

    assert (desk.store.load(turn.id), bank.done) == (before, [])


def test_a_cancel_after_an_approval_keeps_what_the_tool_did(desk, bank):
    """K33: it runs already; its result is kept, and nothing follows it."""
    turn = come_to(desk, "WAITING_FOR_APPROVAL", bank)
    bank.go_on.clear()
    approving = threading.Thread(target=turn.approve)
    approving.start()
    assert bank.began.wait(10)
    assert desk.another_runner().cancel(turn.id) is True
    bank.go_on.set()
    approving.join(10)

    assert (turn.status, bank.done) == ("CANCELLED", [1])
    assert [message.content for message in turn.messages if message.role is Role.TOOL] == ["paid"]
    assert turn.messages[-1].origin is Origin.RUNTIME
    assert desk.log(turn).count("TURN_CANCELLED") == 1


@pytest.mark.parametrize("status", [status for status in STATES if "_" in status and not status.startswith("MAX")])
def test_a_message_for_a_conversation_that_waits_is_not_mixed_into_it(desk, bank, status):
    """K33, K36: it is refused, by the id of who waits."""
    turn = come_to(desk, status, bank)
    before = desk.store.load(turn.id)

    with pytest.raises(af.ConversationBusyError) as busy:
        desk.runner.run(desk.agent("Hi.", id="other"), "me too", conversation_id=f"c{desk.conversations}")

    assert (busy.value.active_turn_ids, desk.store.load(turn.id)) == ((turn.id,), before)


# -- forms -------------------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "maxLength": 1000},
        "tone": {"enum": ["calm", "loud"]},
        "day": {"type": "string", "format": "date"},
        "way": {
            "oneOf": [{"type": "object", "required": ["by"]}, {"type": "object", "required": ["on"]}],
        },
    },
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({}, "/n"),
        ({"n": None}, "/n"),
        ({"n": "3"}, "/n"),
        ({"n": True}, "/n"),
        ({"n": 0}, "/n"),
        ({"n": 1, "other": 1}, ""),
        ({"n": 1, "__proto__": {}}, ""),
        ({"n": 1, "name": "x" * 1_000_000}, "/name"),
        ({"n": 1, "tone": "Calm"}, "/tone"),
        ({"n": 1, "day": "2024-1-5"}, "/day"),
        ({"n": 1, "way": {"by": 1, "on": 2}}, "/way"),
        ({"n": 1, "way": {}}, "/way"),
    ],
)
def test_data_that_does_not_fit_consumes_nothing(desk, data, place):
    """K28: place and reason, within a second; what fits is taken afterwards, once."""
    form = af.AgentForm("f", "Form", SCHEMA)
    turn = desk.run(call("request_user_input", form_key="f"), "Done.", forms=[form])
    before, began = desk.store.load(turn.id), time.monotonic()

    with pytest.raises(af.CommandRefusedError) as refused:
        turn.submit(data)

    assert time.monotonic() - began < 1
    assert (refused.value.reason, {error.pointer for error in refused.value.errors}) == ("INVALID", {place})
    assert len(str(refused.value)) < 3_000
    assert desk.store.load(turn.id) == before
    question = turn.questions[0].id
    assert turn.submit({"n": 3.0, "way": {"by": "train"}}).output == "Done."
    with pytest.raises(af.CommandRefusedError, match="already answered"):
        turn.submit({"n": 3}, question)


def test_the_schema_is_the_one_that_was_asked_with(desk):
    """K28: whatever the agent's form has become since."""

    def agent(schema):
        model = af.ScriptedModel(call("request_user_input", form_key="f"), "Done.")
        return af.Agent("a", version="1", model=model, forms=[af.AgentForm("f", "Form", schema)])

    first = agent({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    turn = desk.runner.run(first, "go", conversation_id=desk.conversation())
    kernel = desk.another_runner(loader=AgentLoader())
    changed = agent({"type": "object", "properties": {"m": {"type": "string"}}, "required": ["m"]})

    kernel.loader.register(changed)
    with pytest.raises(af.AgentDriftError):
        kernel.restore(turn.id)
    migrated = kernel.restore(turn.id, migrate_to=changed)
    with pytest.raises(af.CommandRefusedError):
        migrated.submit({"m": "x"})

    assert migrated.submit({"n": 1}).output == "Done."


# -- versions ----------------------------------------------------------------------------------------------------------


def test_versions_are_words_and_compared_letter_by_letter(desk, bank):
    """K34: "1" and "1.0" are two; a number is none."""
    turn = desk.run(call("pay", amount=1), "One.", tools=bank.tools, version="1")
    kernel = desk.another_runner(loader=AgentLoader())
    kernel.loader.register(desk.agent("x", tools=bank.tools, version="1.0"))

    with pytest.raises(af.AgentVersionNotFoundError, match=r"known versions: 1\.0") as missing:
        kernel.restore(turn.id).approve()
    with pytest.raises(af.InvalidAgentError):
        desk.agent("x", version=1)

    assert (missing.value.agent_id, missing.value.agent_version) == ("shop", "1")
    assert (turn.refresh().status, bank.done) == ("WAITING_FOR_APPROVAL", [])
    assert turn.approve().output == "One."
