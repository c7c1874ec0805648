"""How states are said to people."""

from datetime import timedelta

import pytest

from agentflex_nb.core.machine import AgentStatus
from agentflex_nb.widgets.items import CallState, Prose, ProseKind, View
from agentflex_nb.widgets.words import SIGNS, STATUS, Tone, duration, failing_line, figures, foot_line, left_out


def test_every_status_has_words_and_a_colour():
    assert set(STATUS) == set(AgentStatus)


def test_every_state_of_a_call_has_a_sign():
    assert set(SIGNS) == set(CallState)


@pytest.mark.parametrize("status", [status for status in AgentStatus if status.is_terminal])
def test_an_end_does_not_look_as_if_something_ran(status):
    assert STATUS[status][1] not in (Tone.ACTIVE, Tone.WAITING)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.042, "42 ms"), (0.1, "0.1 s"), (3.21, "3.2 s"), (75, "1 min 15 s"), (3600, "1 h 0 min"), (7384, "2 h 3 min")],
)
def test_a_duration_reads_as_people_write_it(seconds, said):
    assert duration(timedelta(seconds=seconds)) == said


def test_tokens_are_said_only_where_they_are_known(shop):
    assert figures(shop.view()) == ["0 steps", "0 ms"]
    assert figures(shop.view(*shop.looked_up()))[:2] == ["1 step", "15 tokens"]


def test_a_shortened_text_says_where_the_whole_is(noon):
    said = Prose(key=0, kind=ProseKind.TEXT, text="abc", length=3_000, room=3, began=noon)

    assert left_out(said, "t1") == "… the first 3 of 3,000 characters; the whole text: lab.messages(turn='t1')"


def test_a_hash_as_version_is_shortened():
    view = View(turn_id="t1", agent_id="shop", agent_version="0123456789abcdef")

    assert foot_line(view) == "turn t1 · shop 0123456789ab…"


def test_listeners_that_raised_are_named_and_counted():
    assert failing_line(View(turn_id="t1")) == ""
    assert failing_line(View(turn_id="t1", failing=(("log", 1), ("metrics", 1_200)))) == (
        "Not everybody heard all of this. Listeners that raised: log (1 time), metrics (1,200 times)"
    )
