"""In what two versions of an agent differ, named and bounded; and what one of them is, as text. K34."""

from dataclasses import replace

import pytest

from agentflex_nb.core.agent import AgentBudget, AgentDefinition, AgentExecutionPolicy, ToolDefinition
from agentflex_nb.core.drift import AgentDifference, AgentRecord, AgentSource, differences, listing, listing_diff
from agentflex_nb.core.forms import AgentForm
from agentflex_nb.core.frozen import freeze


def schema(**properties):
    return freeze({"type": "object", "properties": properties})


PAY = ToolDefinition(name="pay", description="Pay.", parameters=schema(amount={"type": "number"}), guarded=True)
LOOK = ToolDefinition(name="look", description="Look.", parameters=schema())
DESK = AgentDefinition(
    id="desk", version="1", name="Desk", instructions="Be kind.", model_name="m",
    tools=(PAY, LOOK), forms=(AgentForm(key="seat", description="Where?", schema=schema(n={})),),
)  # fmt: skip
SOURCE = AgentSource(
    part="tool pay", name="pay", module="shop", code="c1", text="def pay(amount):\n    return amount\n"
)
RECORD = AgentRecord(definition=DESK, sources=(SOURCE,), fingerprint="f1")


def changed(**definition):
    return replace(RECORD, definition=replace(DESK, **definition))


def told(met, known=RECORD):
    return [str(difference) for difference in differences(known, met)]


def policy(**limits):
    return AgentExecutionPolicy(**limits)


@pytest.mark.parametrize(
    ("met", "said"),
    [
        (RECORD, []),
        (changed(version="2"), []),
        (changed(instructions="Be brief."), ['instructions: "Be kind." -> "Be brief."']),
        (changed(model_name="n"), ['model /name: "m" -> "n"']),
        (changed(model_options=freeze({"temperature": 0})), ["model /options/temperature added: 0"]),
        (changed(tools=(PAY,)), ["tool look removed"]),
        (changed(tools=(PAY, LOOK, replace(LOOK, name="see"))), ["tool see added"]),
        (
            changed(tools=(replace(PAY, parameters=schema(amount={"type": "integer"})), LOOK)),
            ['tool pay /parameters/properties/amount/type: "number" -> "integer"'],
        ),
        (
            changed(tools=(replace(PAY, parameters=freeze({"a/b~": 1})), LOOK)),
            [
                'tool pay /parameters/type removed: "object"',
                'tool pay /parameters/properties removed: {"amount": {"type": "number"}}',
                "tool pay /parameters/a~1b~0 added: 1",
            ],
        ),
        (changed(tools=(LOOK, PAY)), []),
        (changed(forms=()), ["form seat removed"]),
        (changed(execution_policy=policy(max_steps=5)), ["execution policy /max_steps: 100 -> 5"]),
        (
            changed(execution_policy=policy(budget=AgentBudget(max_seconds=5))),
            ["execution policy /budget/max_seconds: 0 -> 5"],
        ),
        (changed(guarded=True), ["definition /guarded: false -> true"]),
        (replace(RECORD, sources=()), ['tool pay /source removed: "def pay(amount):\\n    return amount\\n"']),
    ],
)
def test_a_difference_names_its_part_and_place(met, said):
    assert told(met) == said


def test_a_change_of_code_is_told_as_a_short_diff():
    met = replace(RECORD, sources=(replace(SOURCE, code="c2", text="def pay(amount):\n    return 0\n"),))

    [difference] = differences(RECORD, met)

    assert (difference.part, difference.pointer, difference.met) == ("tool pay", "/source", met.sources[0].text)
    assert str(difference).splitlines()[0] == "tool pay /source changed:"
    assert {"    -    return amount", "    +    return 0"} <= set(str(difference).splitlines())


def test_layout_alone_is_no_difference_and_what_a_function_holds_is_one():
    """Rule 2."""
    spaced = replace(RECORD, sources=(replace(SOURCE, text="def pay( amount ):\n    return amount\n"),))
    held = replace(RECORD, sources=(replace(SOURCE, code="c2"),))
    unread = replace(RECORD, sources=(replace(SOURCE, code="c2", text=""),))

    assert told(spaced) == []
    assert told(held) == ["tool pay /source: its text is the same, but not what it holds"]
    assert told(unread) == ["tool pay /source: other code"]


def test_a_middleware_is_on_record_and_no_difference():
    """Rule 3."""
    middleware = AgentSource(part="middleware Redact", name="Redact", module="shop", code="", text="class Redact: ...")
    met = replace(RECORD, sources=(SOURCE, middleware))

    assert told(met) == []
    assert "middleware Redact" in listing(met)


def test_the_code_of_a_tool_that_is_gone_is_not_told_again():
    assert told(changed(tools=(LOOK,)), RECORD) == ["tool pay removed"]
    assert told(RECORD, known=changed(tools=(LOOK,))) == ["tool pay added"]


def test_long_texts_and_values_are_cut_in_words_and_whole_in_the_parts():
    long = "\n".join(f"line {n}" for n in range(1_000))

    [text] = differences(RECORD, changed(instructions=long))
    [value] = differences(RECORD, changed(model_options=freeze({"stop": "x" * 1_000})))

    assert len(str(text).splitlines()) < 20
    assert "more lines" in str(text)
    assert text.met == long
    assert len(str(value)) < 300
    assert value.met == "x" * 1_000


def test_a_difference_says_what_it_is_in_words_where_values_do_not():
    assert str(AgentDifference(part="tool pay", why="it is not there")) == "tool pay: it is not there"


def test_a_listing_shows_everything_that_ran():
    text = listing(RECORD)

    assert text.startswith("agent desk\n    version 1\n")
    for shown in (
        "    Be kind.\n",
        "tool pay\n",
        "guarded: true",
        "source (shop.pay)\n        def pay(amount):\n",
        "max_steps: 100",
    ):
        assert shown in text
    assert "    source (pay)\n" in listing(replace(RECORD, sources=(replace(SOURCE, module=""),)))
    assert "<not to be read; c1>" in listing(replace(RECORD, sources=(replace(SOURCE, text=""),)))


def test_a_diff_of_listings_shows_what_changed_and_is_empty_where_nothing_did():
    diff = listing_diff(RECORD, changed(version="2", instructions="Be brief."))

    assert diff.splitlines()[:2] == ["--- desk 1", "+++ desk 2"]
    assert {"-    Be kind.", "+    Be brief."} <= set(diff.splitlines())
    assert listing_diff(RECORD, RECORD) == ""
