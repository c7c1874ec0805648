"""The notebook's listener: every event to its panel, one panel a turn, and an end to all of them."""

import pytest

from agentflex_nb.listeners.policy import DisplayPolicy
from agentflex_nb.widgets.listener import LIVE, NotebookListener


@pytest.fixture
def listener():
    listener = NotebookListener(lambda *_: None, user="alice")
    yield listener
    listener.close()


def test_events_go_to_the_panel_of_their_turn(shop, listener, capsys):
    first, second = listener.open_panel("t1"), listener.open_panel("t2")
    for name in ("t1", "t2", "t3"):
        for event in shop.events(*(shop.approved() if name == "t1" else shop.asked()[:3]), turn_id=name):
            listener(event)

    assert (first.view.status, second.view.status) == ("COMPLETED", "RUNNING")
    assert listener.panel("t3") is None
    assert "COMPLETED" in capsys.readouterr().out


def test_events_so_far_are_read_after_the_panel_listens(shop, listener):
    """A generator over the store misses nothing, and an event that comes both ways is shown once."""
    events = shop.events(*shop.approved())

    def stored():
        listener(events[-1])  # happens while the store is read
        yield from events

    panel = listener.open_panel("t1", stored())

    assert panel.view == shop.view(*shop.approved())


def test_a_refusal_reaches_the_panel(shop, listener):
    panel = listener.open_panel("t1", shop.events(*shop.asked()))

    listener.refuse("t1", "t1.2.0", RuntimeError("no worker"))
    listener.refuse("t9", "t9.1.0", RuntimeError("nobody shows it"))

    assert panel._answering["t1.2.0"]["message"] == "no worker"


def test_a_turn_that_is_opened_again_has_one_panel(shop, listener):
    first = listener.open_panel("t1", shop.events(*shop.asked()))
    second = listener.open_panel("t1", shop.events(*shop.asked()))

    assert listener.panel("t1") is second
    assert first._closed


def test_flushing_a_turn_without_a_panel_is_no_wait(listener):
    assert listener.flush("t9", timeout=0)


def test_panels_are_bounded_and_finished_ones_go_first(shop, listener, capsys):
    """K03"""
    waiting = listener.open_panel("waits", shop.events(*shop.asked()[:3], turn_id="waits"))
    for n in range(LIVE + 5):
        listener.open_panel(f"d{n}", shop.events(*shop.asked()[:1], shop.reply("Done."), turn_id=f"d{n}"))

    assert len(listener._opened) == LIVE
    assert listener.panel("waits") is waiting
    assert listener.panel("d0") is None


@pytest.mark.kernel
def test_a_cell_that_is_run_again_leaves_no_second_widget(kernel):
    """K03: 20 runs of one cell."""
    kernel.run(
        "from agentflex_nb.widgets import NotebookListener\nlistener = NotebookListener(lambda *_: None)\nn = 0",
        cell="a",
    )
    again = (
        "n += 1\nlistener.open_panel(f't{n}', shop.events(*shop.asked()[:3], turn_id=f't{n}'))\nlistener.flush(f't{n}')"
    )
    for _ in range(20):
        published = kernel.run(again, cell="b")
        assert not published.error
    other = kernel.run(again, cell="c")

    alive = kernel.run(
        "from ipywidgets.widgets.widget import _instances\n"
        "print(sum(type(each).__name__ == 'PanelWidget' for each in _instances.values()))"
    )
    assert alive.printed == "2\n"
    assert other.of("comm_close") == []


@pytest.mark.kernel
def test_two_panels_of_one_run_of_a_cell_both_stay(kernel):
    kernel.run(
        "from agentflex_nb.widgets import NotebookListener\nlistener = NotebookListener(lambda *_: None)\n"
        "for name in 'xy': listener.open_panel(name, shop.events(*shop.asked()[:3], turn_id=name))",
        cell="d",
    )

    assert kernel.run("print(listener.panel('x')._closed, listener.panel('y')._closed)").printed == "False False\n"


def test_a_turn_that_may_not_be_seen_has_no_panel(shop, capsys):
    """Y6: the viewer is who sits here."""
    policy = DisplayPolicy(may_see=lambda viewer, turn_id: (viewer, turn_id) == ("alice", "t1"))
    listener = NotebookListener(lambda *_: None, user="alice", policy=policy)
    other = NotebookListener(lambda *_: None, user="bob", policy=policy)

    assert listener.open_panel("t1", shop.events(*shop.asked())) is not None
    assert listener.open_panel("t2", shop.events(*shop.asked())) is None
    assert "WAITING_FOR_APPROVAL" in capsys.readouterr().out
    assert other.open_panel("t1", shop.events(*shop.asked())) is None
    assert capsys.readouterr().out == ""
    for each in (listener, other):
        each.close()


def test_a_policy_may_name_another_viewer(shop, capsys):
    """Y6: the screen on the wall is seen by everybody."""
    policy = DisplayPolicy(viewer="everybody", may_see=lambda viewer, turn_id: viewer == "alice")
    listener = NotebookListener(lambda *_: None, user="alice", policy=policy)

    assert listener.open_panel("t1", shop.events(*shop.asked())) is None
