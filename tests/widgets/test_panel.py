"""A panel: all that is said arrives, in few messages; what is pressed goes on, and refusals come back."""

import threading
import time
from datetime import UTC, datetime

import pytest

from agentflex_nb.core.errors import CommandRefusedError, DataError, RefusalReason
from agentflex_nb.core.inputs import (
    AgentResumeCommand,
    ApproveTool,
    Cancel,
    Interrupt,
    Proceed,
    RejectTool,
    UserInput,
)
from agentflex_nb.listeners.policy import HIDDEN, DisplayPolicy
from agentflex_nb.widgets.items import Prose
from agentflex_nb.widgets.panel import Panel
from agentflex_nb.widgets.pump import Pump


@pytest.fixture
def pump():
    pump = Pump()
    yield pump
    pump.stop()


class Heard:
    """Whoever is given the commands."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.commands = []
        self.raises = raises

    def __call__(self, turn_id, command):
        if self.raises:
            raise self.raises
        self.commands.append((turn_id, command))


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def panel(heard, screen, pump):
    panel = Panel("t1", on_command=heard, user="alice", pump=pump)
    panel.attach(screen)
    return panel


def feed(panel, events):
    for event in events:
        panel.feed(event)


def test_a_flood_of_deltas_arrives_whole_in_few_messages(shop, heard, new_screen, new_page, pump):
    """K13: 20,000 deltas of one character."""
    events = shop.events(Proceed(), *[shop.text("x")] * 20_000, shop.reply("x" * 20_000))
    screen, panel = new_screen(immediate=False), Panel("t1", on_command=heard, pump=pump)
    panel.attach(screen)
    started = time.monotonic()

    feed(panel, events)

    fed = time.monotonic() - started
    assert panel.flush(5)
    page = new_page(screen.started)
    for message in screen.messages:
        page.take(message)
    elapsed = time.monotonic() - started
    assert (page.gaps, page.text) == (0, "x" * 20_000)
    assert page.state["status"] == "COMPLETED"
    assert len(screen.messages) <= 2 + elapsed / 0.05
    assert len(screen.kept) <= 3 + elapsed
    assert fed / len(events) < 100e-6  # the listener only appends


def test_a_huge_text_stays_a_small_message(shop, heard, new_screen, pump):
    """K13, K20: 200 deltas of 50 kB."""
    screen, panel = new_screen(immediate=False), Panel("t1", on_command=heard, pump=pump)
    panel.attach(screen)

    feed(panel, shop.events(Proceed(), *[shop.text("x" * 50_000)] * 200))

    assert panel.flush(5)
    sent = sum(len(str(message)) for message in screen.messages)
    assert sent < 100_000
    assert all(len(str(whole)) < 100_000 for whole in screen.kept)


def test_a_lost_message_is_mended_by_one_resync(shop, panel, screen, new_page):
    feed(panel, shop.events(*shop.looked_up()))
    page = new_page(screen.started)
    lost = len(screen.messages) // 2
    for message in [*screen.messages[:lost], *screen.messages[lost + 1 :]]:
        page.take(message)
    assert page.gaps > 0

    panel.hear({"kind": "resync", "have": page.n})

    page.take(screen.messages[-1])
    assert screen.messages[-1]["kind"] == "snapshot"
    assert page.text == "I look it up."


def test_a_page_that_is_loaded_anew_draws_the_newest_snapshot(shop, panel, screen, new_page):
    feed(panel, shop.events(*shop.asked()))

    page = new_page(screen.kept[-1])

    assert page.text == "I look it up.It can be refunded."
    assert page.state["questions"][0]["question"] == "t1.2.0"


def test_what_happened_before_comes_before_what_is_fed_meanwhile(shop, heard, screen, pump):
    events = shop.events(*shop.approved())
    panel = Panel("t1", on_command=heard, pump=pump)
    feed(panel, events[10:])

    panel.catch_up(events[:12])
    panel.attach(screen)

    assert panel.view == shop.view(*shop.approved())


def test_what_stays_is_renewed_at_every_stable_stop(shop, panel, screen):
    feed(panel, shop.events(*shop.approved()))

    assert [view.status for view in screen.settled] == ["WAITING_FOR_APPROVAL", "COMPLETED"]


def test_a_partial_answer_is_another_stop(shop, panel, screen):
    from agentflex_nb.core.inputs import AgentResumeCommand

    feed(panel, shop.events(*shop.two_asked(), AgentResumeCommand.approve_tool("t1.1.0")))

    assert [len(view.questions) for view in screen.settled] == [2, 1]


def test_a_page_that_was_away_gets_what_stays_again(shop, panel, screen):
    feed(panel, shop.events(*shop.approved()))
    before = len(screen.settled)

    panel.hear({"kind": "settle"})

    assert len(screen.settled) == before + 1


@pytest.mark.parametrize(
    ("verb", "data", "kind"), [("approve", {}, ApproveTool), ("reject", {"reason": "no"}, RejectTool)]
)
def test_a_press_is_handed_on_signed(shop, panel, heard, verb, data, kind):
    feed(panel, shop.events(*shop.asked()))

    panel.press(verb, **data)

    ((turn_id, command),) = heard.commands
    assert (turn_id, type(command), command.correlation_id) == ("t1", kind, "t1.2.0")
    assert command.metadata == {"by": "alice", "via": "panel"}


def test_a_press_sees_events_that_are_not_drawn_yet(shop, heard, new_screen):
    idle = Pump()
    idle.stop()  # nothing is ever sent
    panel = Panel("t1", on_command=heard, pump=idle)
    panel.attach(new_screen(immediate=False))
    feed(panel, shop.events(*shop.asked()))

    panel.press("approve")

    assert len(heard.commands) == 1


def test_a_form_is_submitted(shop, panel, heard):
    feed(panel, shop.events(*shop.formed()))

    panel.press("submit", data={"city": "Paris"})

    assert isinstance(heard.commands[0][1], UserInput)
    assert heard.commands[0][1].data == {"city": "Paris"}


def test_cancel_needs_no_question(shop, panel, heard):
    feed(panel, shop.events(*shop.looked_up()))

    panel.press("cancel")

    assert isinstance(heard.commands[0][1], Cancel)


def test_a_press_without_a_question_is_an_error_to_who_wrote_it(shop, panel, heard):
    feed(panel, shop.events(*shop.looked_up()))

    with pytest.raises(CommandRefusedError) as refused:
        panel.press("approve")

    assert refused.value.reason is RefusalReason.NOT_BLOCKED
    assert heard.commands == []


def test_a_press_is_marked_as_on_its_way_until_the_question_is_answered(shop, panel, screen):
    feed(panel, shop.events(*shop.asked()))
    panel.press("approve")
    assert screen.messages[-1]["state"]["answering"]["t1.2.0"]["phase"] == "sent"

    feed(panel, shop.events(*shop.approved()))

    assert screen.messages[-1]["state"]["answering"] == {}


def test_a_second_press_is_handed_on_too_and_its_refusal_says_who_won(shop, panel, screen, heard):
    """K12: the panel decides nothing; the turn takes the first answer, and the panel shows the winner."""
    feed(panel, shop.events(*shop.asked()))
    panel.press("approve")
    panel.press("reject", "t1.2.0", reason="no")
    feed(panel, shop.events(*shop.approved()))

    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    panel.refuse("t1.2.0", CommandRefusedError(RefusalReason.ALREADY_RESOLVED, "was answered", by="bob", at=at))

    told = screen.messages[-1]["state"]["answering"]["t1.2.0"]
    assert len(heard.commands) == 2
    assert (told["phase"], told["reason"], told["by"]) == ("refused", "ALREADY_RESOLVED", "bob")
    assert told["at"] == at.isoformat()


def test_what_is_wrong_with_a_form_comes_back_by_pointer_under_the_press(shop, panel, screen):
    """K28"""
    feed(panel, shop.events(*shop.formed()))
    panel.hear({"kind": "press", "verb": "submit", "question": "t1.1.0", "press": "p7", "data": {"city": 3}})

    errors = [DataError(pointer="/city", message="3 is not of type 'string'")]
    panel.refuse("t1.1.0", CommandRefusedError(RefusalReason.INVALID, "does not fit", errors=errors))

    told = screen.messages[-1]["state"]["answering"]["t1.1.0"]
    assert told["press"] == "p7"
    assert told["errors"] == [{"pointer": "/city", "message": "3 is not of type 'string'"}]
    assert screen.messages[-1]["state"]["questions"][0]["question"] == "t1.1.0"


def test_a_click_on_a_question_that_was_asked_anew_runs_nothing(shop, panel, screen, heard):
    feed(panel, shop.events(*shop.asked()))

    panel.hear({"kind": "press", "verb": "approve", "question": "t1.2.0", "asked": 1, "press": "p"})

    assert heard.commands == []
    assert "asked anew" in screen.messages[-1]["state"]["answering"]["t1.2.0"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"kind": "press"},
        {"kind": "press", "verb": "explode"},
        {"kind": 3},
        {"kind": "press", "question": {"a": []}},
    ],
)
def test_nothing_that_a_browser_says_raises(shop, panel, heard, message):
    feed(panel, shop.events(*shop.asked()))

    panel.hear(message)

    assert heard.commands == []


def test_what_the_receiver_of_commands_raises_is_shown_in_the_panel(shop, screen, pump):
    panel = Panel("t1", on_command=Heard(raises=RuntimeError("no worker")), pump=pump)
    panel.attach(screen)
    feed(panel, shop.events(*shop.asked()))

    panel.press("approve")

    told = screen.messages[-1]["state"]["answering"]["t1.2.0"]
    assert (told["phase"], told["reason"], told["message"]) == ("refused", "RuntimeError", "no worker")


def test_a_click_costs_less_than_a_millisecond(shop, heard, new_screen, pump):
    panel = Panel("t1", on_command=heard, pump=pump)
    panel.attach(new_screen(immediate=False))
    feed(panel, shop.events(*shop.asked()))
    assert panel.flush(2)
    started = time.perf_counter()

    for n in range(100):
        panel.hear({"kind": "press", "verb": "approve", "question": "t1.2.0", "press": str(n)})

    assert (time.perf_counter() - started) / 100 < 1e-3


def test_refusals_are_bounded(panel, screen):
    for n in range(200):
        panel.refuse(f"q{n}", RuntimeError("no"))

    assert len(screen.messages[-1]["state"]["answering"]) <= 20


def test_an_event_that_cannot_be_drawn_does_not_hide_the_others(shop, panel, caplog):
    from dataclasses import replace

    events = list(shop.events(*shop.approved()))
    broken = next(n for n, event in enumerate(events) if event.type == "TOOL_STARTED")
    events[broken] = replace(events[broken], data=type(events[broken].data)(status="RUNNING"))

    feed(panel, events)

    assert panel.view.status == "COMPLETED"
    assert "could not be drawn" in caplog.text


def test_events_from_many_threads_of_many_turns_all_arrive(shop, heard, new_screen, new_page, pump):
    turns = {f"t{n}": (Panel(f"t{n}", on_command=heard, pump=pump), new_screen(immediate=False)) for n in range(8)}
    logs = {name: shop.events(Proceed(), *[shop.text("xy")] * 500, turn_id=name) for name in turns}
    for panel, screen in turns.values():
        panel.attach(screen)
    threads = [threading.Thread(target=feed, args=(panel, logs[name])) for name, (panel, _) in turns.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for panel, screen in turns.values():
        assert panel.flush(5)
        page = new_page(screen.started)
        for message in screen.messages:
            page.take(message)
        assert (page.gaps, page.text) == (0, "xy" * 500)


def test_a_closed_panel_is_inert_on_the_screen(shop, panel, screen):
    feed(panel, shop.events(*shop.asked()))
    panel.close()
    sent = len(screen.messages)

    feed(panel, shop.events(*shop.approved()))

    assert screen.closed
    assert len(screen.messages) == sent


def test_without_a_screen_a_panel_still_answers(shop, heard, pump):
    panel = Panel("t1", on_command=heard, pump=pump)
    feed(panel, shop.events(*shop.asked()))

    panel.press("approve")

    assert panel.flush()
    assert len(heard.commands) == 1


def test_the_schema_for_changed_arguments_is_looked_up_for_the_agent_of_the_turn(shop, heard, screen, pump):
    """A15"""
    asked_for = []

    def parameters_of(*of):
        asked_for.append(of)
        return {"type": "object"}

    panel = Panel("t1", on_command=heard, pump=pump, parameters_of=parameters_of)
    panel.attach(screen)
    feed(panel, shop.events(*shop.asked()))

    assert set(asked_for) == {("shop", "v1", "refund")}
    assert screen.messages[-1]["state"]["questions"][0]["parameters"] == {"type": "object"}


def test_an_interruption_needs_no_question_and_is_heard_at_once(shop, panel, heard, screen):
    """X5"""
    feed(panel, shop.events(*shop.looked_up()))

    panel.press("interrupt", message="Stop that.")

    ((_, command),) = heard.commands
    assert (type(command), command.message) == (Interrupt, "Stop that.")
    assert screen.messages[-1]["state"]["answering"]["interrupt"]["phase"] == "heard"


@pytest.mark.parametrize("verb", ["explode", "interrupt"])
def test_what_cannot_be_understood_comes_back_under_its_press(shop, panel, screen, verb):
    """The page waits for word of this very press, and would call the kernel busy for ever."""
    feed(panel, shop.events(*shop.asked()))

    panel.hear({"kind": "press", "verb": verb, "question": "t1.2.0", "press": "p9"})

    told = screen.messages[-1]["state"]["answering"]["t1.2.0"]
    assert (told["press"], told["phase"], told["reason"]) == ("p9", "refused", "INVALID")


# -- what may be seen --------------------------------------------------------------------------------------------------


def test_a_panel_shows_what_its_policy_lets_pass(shop, heard, screen, pump):
    """Y6: the prompt, streamed text in pieces, arguments, results and refusals."""
    policy = DisplayPolicy(redact=[r"O-\d+", "120"], reasoning=False)
    panel = Panel("t1", on_command=heard, prompt="Refund O-1", policy=policy, pump=pump)
    panel.attach(screen)

    feed(panel, shop.events(*shop.asked()))
    panel.refuse("t1.2.0", RuntimeError("no O-1 here"))
    questions = panel.view.questions
    said = (shop.text("O-"), shop.text("1 is done"), shop.reply("O-1 is done"))
    feed(panel, shop.events(*shop.approved()[:-2], *said))
    told = repr([screen.started, *screen.messages, *screen.kept, *screen.settled, panel.view, panel._answering])

    assert "O-1" not in told
    assert "120.0" not in told
    assert "120}" not in told
    assert "which order?" not in told
    assert panel.view.prompt == f"Refund {HIDDEN}"
    assert f"{HIDDEN} is done" in told
    assert [question.id for question in questions] == ["t1.2.0"]
    assert dict(questions[0].arguments) == {"order": HIDDEN, "amount": f"{HIDDEN}.0"}
    assert questions[0].given is None  # what is hidden must not be sent back as an argument


def test_a_redacted_turn_is_answered_as_any_other(shop, heard, screen, pump):
    """Y6, A2"""
    panel = Panel("t1", on_command=heard, policy=DisplayPolicy(redact=[lambda text: "x"]), pump=pump)
    panel.attach(screen)
    feed(panel, shop.events(*shop.asked()))

    panel.press("approve")

    assert heard.commands == [("t1", AgentResumeCommand.approve_tool("t1.2.0", via="panel"))]


def test_an_event_that_comes_both_ways_is_shown_once_though_text_is_held_back(shop, heard, screen, pump):
    """Y6"""
    panel = Panel("t1", on_command=heard, policy=DisplayPolicy(redact="secret"), pump=pump)
    events = shop.events(*shop.looked_up())
    feed(panel, events[4:])

    panel.catch_up(events)

    shown = [(type(item), item.key, getattr(item, "text", "")) for item in panel.view.items]
    assert shown == [(type(item), item.key, getattr(item, "text", "")) for item in shop.view(*shop.looked_up()).items]
    assert "I look it up." in [item.text for item in panel.view.items if isinstance(item, Prose)]


def test_a_listener_that_raises_is_seen_at_the_next_event(shop, heard, screen, pump):
    raised = {}
    panel = Panel("t1", on_command=heard, failing=lambda: raised, pump=pump)
    panel.attach(screen)
    *before, last = shop.events(*shop.asked())
    feed(panel, before)
    assert panel.view.failing == ()

    raised["log"] = 2
    panel.feed(last)

    assert panel.view.failing == (("log", 2),)
    assert "log (2 times)" in screen.messages[-1]["state"]["failing"]
    assert screen.settled[-1].failing == (("log", 2),)
