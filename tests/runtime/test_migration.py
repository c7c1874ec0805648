"""A turn goes on with another version of its agent: by an act, checked first, on record. P11, P12, K34."""

import asyncio

import pytest

from agentflex_nb.core.errors import AgentDriftError, AgentVersionNotFoundError, CommandRefusedError, RefusalReason
from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.loader import AgentLoader
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call


@tool(approval=True)
def transfer(amount: int) -> str:
    """Transfer."""
    return f"moved {amount}"


@tool(name="transfer", approval=True)
def transfer_text(amount: str) -> str:
    """Transfer."""
    return f"moved {amount}"


def version(desk, number, *replies, **given):
    return desk.agent(*replies, version=number, **{"tools": [transfer], **given})


def waiting(desk):
    return desk.run(call("transfer", amount=80), "From one.", tools=[transfer], version="1")


def test_a_waiting_turn_goes_on_with_the_version_it_is_migrated_to(desk):
    turn = waiting(desk)
    kernel = desk.another_runner(loader=AgentLoader(), signature={"by": "alice"})
    two = version(desk, "2", call("transfer", amount=80), "From two.")

    moved = kernel.restore(turn.id, migrate_to=two)

    assert moved.status is AgentStatus.WAITING_FOR_APPROVAL
    assert [question.id for question in moved.questions] == [question.id for question in turn.refresh().questions]
    assert moved.approve().output == "From two."
    [event] = desk.events(turn, EventType.TURN_MIGRATED)
    assert (event.data["from_version"], event.data["to_version"], event.data["metadata"]) == ("1", "2", {"by": "alice"})
    after = [one.agent_version for one in desk.store.events(turn.id) if one.sequence >= event.sequence]
    assert set(after) == {"2"}
    [kept] = moved.to_snapshot().migrations
    assert (kept.from_version, kept.to_version, kept.metadata) == ("1", "2", {"by": "alice"})


def test_a_ready_turn_goes_on_with_it_too(desk):
    turn = desk.runner.create(version(desk, "1", "From one."), "go", conversation_id=desk.conversation())

    desk.runner.restore(turn, migrate_to=version(desk, "2", "From two."))

    assert desk.runner.run_until_blocked(turn).output == "From two."


def test_without_the_act_the_turn_keeps_its_version(desk):
    """P11: registering another version changes no turn."""
    turn = waiting(desk)
    desk.runner.loader.register(version(desk, "2", "From two."))

    assert desk.runner.restore(turn.id).to_snapshot().identity.agent_version == "1"
    kernel = desk.another_runner(loader=AgentLoader())
    kernel.loader.register(version(desk, "2", "From two."))
    with pytest.raises(AgentVersionNotFoundError):
        kernel.restore(turn.id)
    assert desk.runner.restore(turn.id).approve().output == "From one."


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"tools": []}, "it lacks transfer"),
        ({"tools": [transfer_text]}, "the arguments of call .* do not fit: amount"),
        ({"id": "other"}, "is not agent 'shop'"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(desk, other, said):
    turn = waiting(desk)
    before = desk.store.load(turn.id)
    one = desk.runner.loader.load_active("shop")

    with pytest.raises(AgentDriftError, match=said):
        desk.runner.restore(turn.id, migrate_to=version(desk, "2", "From two.", **other))

    assert desk.store.load(turn.id) == before
    assert desk.runner.loader.load_active("shop") is one
    assert turn.approve().output == "From one."


def test_a_turn_that_has_ended_is_not_migrated(desk):
    turn = waiting(desk)
    turn.cancel()

    with pytest.raises(CommandRefusedError) as refused:
        desk.runner.restore(turn, migrate_to=version(desk, "2", "From two."))

    assert refused.value.reason is RefusalReason.FINAL


def test_a_turn_that_runs_is_not_migrated(desk):
    refusals = []

    def meddle() -> str:
        """Meddle."""
        id = AgentToolContext.current().turn_id
        with pytest.raises(CommandRefusedError) as refused:
            desk.runner.restore(id, migrate_to=version(desk, "2", "From two.", tools=[tool(meddle)]))
        refusals.append(refused.value.reason)
        return "tried"

    turn = desk.run(call("meddle"), "From one.", tools=[meddle], version="1")

    assert refusals == [RefusalReason.NOT_BLOCKED]
    assert turn.output == "From one."


def test_a_turn_that_is_about_to_run_is_not_migrated_under_the_hands_of_its_drive(desk):
    """A drive holds the agent that it was started with."""
    refusals = []

    def meddle(event):
        if event.sequence == 1 and not refusals:
            with pytest.raises(CommandRefusedError) as refused:
                desk.runner.restore(event.turn_id, migrate_to=version(desk, "2", "From two."))
            refusals.append(refused.value.reason)

    desk.runner.add_event_listener(meddle, key="meddle")

    turn = desk.runner.run(version(desk, "1", "From one."), "go", conversation_id=desk.conversation())

    assert refusals == [RefusalReason.NOT_BLOCKED]
    assert turn.output == "From one."
    assert {event.agent_version for event in turn.events()} == {"1"}


def test_the_same_version_again_is_no_migration(desk):
    """K03."""
    turn = waiting(desk)
    before = desk.store.load(turn.id)
    kernel = desk.another_runner(loader=AgentLoader())

    again = kernel.restore(turn.id, migrate_to=version(desk, "1", call("transfer", amount=80), "From one."))

    assert desk.store.load(turn.id) == before
    assert again.approve().output == "From one."


def test_a_changed_definition_under_the_same_version_can_be_gone_on_with_by_the_act(desk):
    """K34: what is drift by itself is on record when somebody decides it."""
    turn = waiting(desk)
    kernel = desk.another_runner(loader=AgentLoader())
    changed = version(desk, "1", call("transfer", amount=80), "From one, changed.", instructions="Be brief.")
    kernel.loader.register(changed)
    with pytest.raises(AgentDriftError):
        kernel.restore(turn.id)

    assert kernel.restore(turn.id, migrate_to=changed).approve().output == "From one, changed."
    assert len(desk.events(turn, EventType.TURN_MIGRATED)) == 1


def test_two_who_migrate_at_once_are_one_after_the_other(desk, at_once):
    turn = waiting(desk)
    two, three = version(desk, "2", "x", "From two."), version(desk, "3", "x", "From three.")

    at_once(*[lambda to=to: desk.runner.restore(turn.id, migrate_to=to) for to in (two, three)])

    said = [
        (event.data["from_version"], event.data["to_version"]) for event in desk.events(turn, EventType.TURN_MIGRATED)
    ]
    assert said in ([("1", "2"), ("2", "3")], [("1", "3"), ("3", "2")])


def test_a_coroutine_may_do_it(memory_desk):
    turn = waiting(memory_desk)
    two = version(memory_desk, "2", "x", "From two.")

    asyncio.run(memory_desk.runner.arestore(turn.id, migrate_to=two))

    assert turn.to_snapshot().identity.agent_version == "2"
    assert turn.approve().output == "From two."
