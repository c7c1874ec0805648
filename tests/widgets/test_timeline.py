"""Items in order: any cut of the text gives the same text, and all of it is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.core.inputs import (
    Cancel,
    Proceed,
    ToolReturned,
)
from agentflex_nb.core.verdicts import ALLOWED
from agentflex_nb.widgets import items
from agentflex_nb.widgets.items import Call, Prose


def test_a_note_in_the_middle_of_a_text_ends_the_block(shop):
    view = shop.view(Proceed(), shop.text("a"), Cancel(), shop.text("b"))

    assert [item.text for item in view.items if isinstance(item, Prose)] == ["a", "b"]
    assert [item.ended is not None for item in view.items if isinstance(item, Prose)] == [True, False]


@given(st.lists(st.text(max_size=8), max_size=30))
def test_any_split_of_the_text_gives_the_same_text(shop, pieces):
    view = shop.view(Proceed(), *[shop.text(piece) for piece in pieces])

    assert "".join(item.text for item in view.items if isinstance(item, Prose)) == "".join(pieces)


def test_a_long_text_is_cut_at_its_room_and_its_length_is_told(shop):
    """K20"""
    view = shop.view(Proceed(), *[shop.text("x" * 50_000)] * 4)

    assert (len(shop.only(view, Prose).text), shop.only(view, Prose).length) == (items.BLOCK, 200_000)


def test_all_texts_of_a_turn_together_are_bounded(shop):
    """K20"""
    rounds = [
        said
        for n in range(1, 20)
        for said in (
            Proceed(),
            shop.text("x" * 50_000),
            shop.reply("", ("lookup", {})),
            shop.checked(**{f"_{n}_0": ALLOWED}),
            ToolReturned(f"t1.{n}.0", "y" * 1_000_000),
        )
    ]

    view = shop.view(*rounds)

    assert view.shown <= items.TURN + 19 * items.LEAST
    assert sum(len(item.result) for item in view.items if isinstance(item, Call)) <= 19 * 2_100
    assert {item.result_length for item in view.items if isinstance(item, Call)} == {1_000_000}


def test_the_oldest_items_of_an_endless_turn_are_dropped_and_counted(shop):
    alternating = [shop.text("t") if n % 2 else shop.reasoning("r") for n in range(items.ITEMS + 50)]

    view = shop.view(Proceed(), *alternating)

    assert len(view.items) == items.ITEMS
    assert view.dropped == 51  # the step's own item among them
    assert [item.key for item in view.items] == list(range(51, 51 + items.ITEMS))
