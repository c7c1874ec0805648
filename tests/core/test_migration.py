"""A turn that goes on with another version of its agent. P11, K34."""

import pytest

from agentflex_nb.core.errors import IllegalTransitionError
from agentflex_nb.core.frozen import freeze
from agentflex_nb.core.inputs import Migrate

from .play import ASK, DENY, GO, approve, breaks, calls, judge, opened, play, reply, returns, sent, wants

TO_2 = Migrate(agent_version="2", definition_hash="h2", instructions="Be brief.", metadata=freeze({"by": "alice"}))


def test_what_waits_waits_on_and_later_events_carry_the_new_version():
    waiting = play(GO, calls(wants("pay")), judge(ASK))
    asked = waiting.turn.suspension

    waiting.say(TO_2)

    assert waiting.turn.suspension is asked
    assert waiting.turn.status == "WAITING_FOR_APPROVAL"
    waiting.say(approve(), GO)
    versions = [event.agent_version for event in waiting.events]
    place = waiting.kinds.index("TURN_MIGRATED")
    assert versions == ["1"] * place + ["2"] * (len(versions) - place)


def test_a_migration_is_one_commit_that_says_who_and_from_which_version_to_which():
    played = play(TO_2)

    assert played.story[-1] == "TURN_MIGRATED SNAPSHOT_SAVED"
    told = played.last("TURN_MIGRATED")
    assert (told["from_version"], told["to_version"], told["metadata"]) == ("1", "2", {"by": "alice"})
    [kept] = played.turn.migrations
    assert (kept.from_version, kept.to_version, kept.metadata) == ("1", "2", {"by": "alice"})
    identity = played.turn.identity
    assert (identity.agent_version, identity.definition_hash, identity.instructions) == ("2", "h2", "Be brief.")


def test_the_next_call_of_the_model_has_the_new_instructions_and_the_old_history():
    played = play(TO_2, GO)

    assert sent(played) == [("system", "Be brief."), ("user", "hello")]


def test_what_was_approved_stays_approved_and_is_judged_once_more_before_it_runs():
    """A19: the stricter judgement wins."""
    approved = play(GO, calls(wants("pay")), judge(ASK), approve(), TO_2, GO)
    assert approved.say(judge(ASK), returns()).history[-1] == ("tool", "done")

    denied = play(GO, calls(wants("pay")), judge(ASK), approve(), TO_2, GO, judge(DENY))
    assert "TOOL_STARTED" not in denied.kinds


def test_the_limits_stay_those_that_the_turn_was_made_with():
    played = opened()
    before = played.turn.identity.policy

    assert played.say(TO_2).turn.identity.policy is before


@pytest.mark.parametrize("moves", [(GO,), (GO, calls(wants("look")), judge()), (GO, reply("done")), (GO, breaks())])
def test_a_turn_that_runs_or_has_ended_is_not_migrated(moves):
    played = play(*moves)
    before = played.turn

    with pytest.raises(IllegalTransitionError):
        played.say(TO_2)

    assert played.turn is before
