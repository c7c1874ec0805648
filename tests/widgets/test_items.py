"""What a panel draws is bounded, whatever is said."""

import json

from agentflex_nb.widgets.items import FIELDS, VALUE, View, brief, fields


def test_text_is_shown_as_it_stands_and_other_data_as_json():
    assert brief("NaN is fine") == "NaN is fine"
    assert brief(None) == "null"
    assert brief(12.5) == "12.5"
    assert json.loads(brief({"a": ["ü"]})) == {"a": ["ü"]}


def test_a_long_value_is_cut_and_says_how_long_it_is():
    shown = brief("x" * 10_000_000)

    assert len(shown) < VALUE + 60
    assert shown.endswith("… (10,000,000 characters in all)")


def test_many_entries_are_cut_and_counted():
    shown = fields({f"k{n}": n for n in range(FIELDS + 5)})

    assert len(shown) == FIELDS + 1
    assert shown[-1] == ("…", "5 more")


def test_keys_go_on_over_what_was_dropped():
    assert View(turn_id="t", dropped=7).next_key == 7
