"""The panel in a real kernel: what is sent, what a click does, and what is left in the output."""

import pytest

pytestmark = pytest.mark.kernel

OPEN = """
from agentflex_nb.widgets import NotebookListener
heard = []
listener = NotebookListener(lambda turn_id, command: heard.append((turn_id, command)), user="alice")
def tell(*inputs, turn_id="t1"):
    panel = listener.open_panel(turn_id, prompt="Refund O-1")
    for event in shop.events(*inputs, turn_id=turn_id):
        listener(event)
    assert listener.flush(turn_id)
    return panel
"""


@pytest.fixture(scope="module")
def opened(kernel):
    assert not kernel.run(OPEN).error
    return kernel


WIDGET = "application/vnd.jupyter.widget-view+json"


def newest(published):
    """The two outputs of a panel as they stand at the end: the live one, and the one that stays."""
    shown = [content["transient"]["display_id"] for content in published.of("display_data")]
    contents = [*published.of("display_data"), *published.of("update_display_data")]
    now = {content["transient"]["display_id"]: content["data"] for content in contents}
    live, still = sorted(shown or now)
    return now[live], now[still]


def test_a_waiting_turn_shows_the_widget_and_leaves_html_and_text(opened):
    """K14: whatever a front end can show, the call and the code that answers it are in it."""
    published = opened.run("panel = tell(*shop.asked())")

    assert not published.error
    live, still = newest(published)
    assert WIDGET in live
    assert set(still) == {"text/html", "text/plain"}
    for text in still.values():
        for word in ("t1", "refund", "approve()"):
            assert word in text


def test_the_widget_is_not_drawn_anew_when_the_turn_stops(opened):
    """A new view would take the focus from who types."""
    published = opened.run("panel = tell(*shop.asked())")

    (live, _) = published.of("display_data")
    updated = {content["transient"]["display_id"] for content in published.of("update_display_data")}
    assert live["transient"]["display_id"] not in updated


def test_a_finished_turn_leaves_html_and_text_and_no_widget(opened):
    live, still = newest(opened.run("panel = tell(*shop.approved())"))

    assert live == {}
    assert "COMPLETED" in still["text/plain"]
    assert "Completed" in still["text/html"]


def test_what_stays_is_published_before_the_cell_has_ended(opened):
    """nbclient and nbconvert take in nothing that comes after the last cell."""
    published = opened.run(
        "panel = listener.open_panel('t1')\nfor event in shop.events(*shop.approved()): listener(event)", wait=0
    )

    assert "COMPLETED" in newest(published)[1]["text/plain"]


def test_a_page_that_missed_the_end_gets_it_again(opened):
    (comm,) = opened.run("panel = tell(*shop.approved())").panels

    live, still = newest(opened.click(comm, {"kind": "settle"}))

    assert live == {}
    assert "COMPLETED" in still["text/plain"]


def test_a_click_is_handed_on_with_the_name_of_who_sits_here(opened):
    (comm,) = opened.run("heard.clear(); panel = tell(*shop.asked())").panels

    said = opened.click(comm, {"kind": "press", "verb": "approve", "question": "t1.2.0", "asked": None, "press": "p1"})

    assert said.sent[-1]["state"]["answering"]["t1.2.0"] == {"press": "p1", "phase": "sent", "verb": "approve"}
    assert opened.run("print(heard[0][0], type(heard[0][1]).__name__, dict(heard[0][1].metadata))").printed == (
        "t1 ApproveTool {'by': 'alice', 'via': 'panel'}\n"
    )


def test_a_page_may_ask_for_everything(opened):
    (comm,) = opened.run("panel = tell(*shop.asked())").panels

    said = opened.click(comm, {"kind": "resync", "have": 0})

    assert [message["kind"] for message in said.sent] == ["snapshot"]


def test_nothing_of_a_panel_can_be_set_from_the_page(opened):
    (comm,) = opened.run("panel = tell(*shop.asked())").panels
    data = {
        "comm_id": comm,
        "data": {"method": "update", "state": {"kept": {"n": 99}, "panel": "mine"}, "buffer_paths": []},
    }
    opened._client.shell_channel.send(opened._client.session.msg("comm_msg", data))

    kept = opened.run("print(panel._screen._widget.kept['n'] < 99, panel._screen._widget.panel != 'mine')").printed

    assert kept == "True True\n"


def test_no_message_is_remembered_by_the_kernel_for_ever(opened):
    """ipykernel 7.4 keeps an entry for every message with a key "id"."""
    for message in opened.run("panel = tell(*shop.approved())").sent:
        assert "id" not in message


def test_panels_are_shown_from_any_thread(opened):
    published = opened.run(
        "import threading, contextvars\n"
        "work = contextvars.copy_context()\n"
        "thread = threading.Thread(target=work.run, args=(tell, *shop.approved()))\n"
        "thread.start(); thread.join()"
    )

    assert len(published.of("display_data")) == 2
    assert "COMPLETED" in newest(published)[1]["text/plain"]
