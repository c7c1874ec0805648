"""Whatever a model says, in whatever pieces, as often as it takes: K06, K07, K11, K15, K22 to K25, K27."""

import json
from itertools import permutations

import pytest

import agentflex_nb as af
from agentflex_nb.core.messages import Role

script = af.ScriptedModel
call = script.call
TELL_MODEL = af.AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL")
WHOLE, STREAMED = af.AgentTurnOptions(streaming=False), af.AgentTurnOptions()


def asked(*calls, reason="tool_calls"):
    """Calls as a provider writes them: index, id, name, arguments."""
    return [*[af.ToolCallDelta(*each) for each in calls], af.Finish(reason=reason)]


def results(turn) -> list[str]:
    return [message.content for message in turn.messages if message.role is Role.TOOL]


class Till:
    """Tools that count."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @property
    def tools(self) -> list[af.Tool]:
        @af.tool
        def add(a: int, b: int) -> str:
            """Add."""
            self.done.append("add")
            return str(a + b)

        @af.tool(approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.done.append(f"pay {amount}")
            return "paid"

        @af.tool
        def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        @af.tool
        def breaks() -> str:
            """Break."""
            self.done.append("breaks")
            raise OSError("broken")

        return [add, pay, look, breaks]


@pytest.fixture
def till() -> Till:
    return Till()


# -- names and arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ["", None, "nope", "add ", "Add", "add\u200b", "functions.add", "a" * 300, "a\ud83d"])
def test_an_invented_name_runs_nothing_and_asks_nobody(memory_desk, till, name, options):
    """K06: the model reads which names there are; its other call runs."""
    judged = []
    turn = memory_desk.run(
        asked((0, "c1", name, '{"a":1,"b":2}'), (1, "c2", "add", '{"a":1,"b":2}')),
        "Done.",
        tools=till.tools,
        options=options,
        execution_policy=TELL_MODEL,
        approval_policy=lambda turn, call, tool: judged.append(tool.name) or False,
    )

    assert turn.output == "Done."
    assert "it has: add, pay, look, breaks" in results(turn)[0]
    assert (results(turn)[1], till.done, set(judged)) == ("3", ["add"], {"add"})


def test_a_model_that_only_invents_names_comes_to_an_end(memory_desk, till):
    """K06: bounded by max_iterations."""
    policy = af.AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL", max_iterations=4)
    turn = memory_desk.run(lambda request: call("nope"), tools=till.tools, execution_policy=policy)

    assert (turn.status, till.done) == ("MAX_ITERATIONS_REACHED", [])
    assert len(results(turn)) == 4


@pytest.mark.parametrize("options", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("add", "", "a: Field required"),
        ("add", '{"a": 1}', "b: Field required"),
        ("add", '{"a": 1, "b": "two"}', "b: Input should be a valid integer"),
        ("pay", "{}", "amount: Field required"),
        ("pay", '{"amount": {}}', "amount: Input should be a valid integer"),
        ("look", "", None),
        ("look", '{"x": 1}', "x: Extra inputs are not permitted"),
    ],
)
def test_what_is_missing_or_of_another_kind_is_the_models_to_mend(memory_desk, till, name, arguments, said, options):
    """K07: nothing runs, nobody is asked."""
    turn = memory_desk.run(asked((0, "c1", name, arguments)), "Done.", tools=till.tools, options=options)

    assert turn.output == "Done."
    assert till.done == ([] if said else ["look"])
    assert (said or "seen") in results(turn)[0]


@pytest.mark.parametrize("options", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize("id", ["c1", "", None])
def test_ids_are_unique_and_stay_whoever_gave_them(desk, till, id, options):
    """K23: over the wait and in the next kernel."""
    calls = [(0, id, "pay", '{"amount": 1}'), (2, id, "pay", '{"amount": 2}')]
    turn = desk.run(asked(*calls), "Done.", tools=till.tools, options=options)
    before = [call.id for message in turn.messages for call in message.tool_calls]

    again = desk.another_runner().restore(turn.id)
    again.approve(before[0])
    again.approve(before[1])

    assert (again.output, till.done) == ("Done.", ["pay 1", "pay 2"])
    assert [message.tool_call_id for message in again.messages if message.role is Role.TOOL] == before
    assert len({*before, ""}) == 3


# -- several calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False], ids=["errors told", "errors fail"])
@pytest.mark.parametrize("answer", ["approve", "reject"])
@pytest.mark.parametrize("order", list(permutations(["look", "pay", "breaks"])), ids="-".join)
def test_three_calls_each_have_one_result_in_the_models_order(desk, till, order, answer, told):
    """K11: a free one, one that asks, one that raises; answered in another kernel."""
    arguments = {"look": "{}", "pay": '{"amount": 1}', "breaks": "{}"}
    wanted = [(place, "", name, arguments[name]) for place, name in enumerate(order)]
    policy = TELL_MODEL if told else af.AgentExecutionPolicy()
    turn = desk.run(asked(*wanted), "Done.", tools=till.tools, execution_policy=policy)
    before = list(till.done)
    if turn.status == "WAITING_FOR_APPROVAL":
        getattr(desk.another_runner().restore(turn.id), answer)()

    assert turn.status == ("COMPLETED" if told else "FAILED")
    said = dict(zip(order, results(turn), strict=True))
    reached = order if told else order[: order.index("breaks") + 1]
    expected = {"look": "seen", "pay": "paid" if answer == "approve" else "REJECTED", "breaks": "OSError: broken"}
    for name in order:
        assert (expected[name] if name in reached or name == "breaks" else "Not run") in said[name], name
    ran = [name for name in reached if name != "pay" or answer == "approve"]
    assert [name.split()[0] for name in till.done] == ran
    assert before == ran[: len(before)]


def test_a_form_that_is_asked_for_again_under_one_label_is_filled_in_again(desk):
    """K24: what was submitted belongs to the call that asked, not to its label."""
    seen = []

    @af.tool
    def book() -> str:
        """Book."""
        context = af.AgentToolContext.current()
        seen.append((context.idempotency_key, context.form_data and context.form_data["n"]))
        if context.form_data is None:
            raise af.FormRequired("seats")
        return str(context.form_data["n"])

    form = af.AgentForm("seats", "Seats", {"type": "object", "properties": {"n": {"type": "integer"}}})
    same = asked((0, "x", "book", "{}"))
    turn = desk.run(same, asked((0, "x", "look", "{}")), same, "Done.", tools=[book, *Till().tools], forms=[form])
    first = turn.questions[0].id
    turn.submit({"n": 1})
    second = turn.questions[0].id

    with pytest.raises(af.CommandRefusedError) as refused:
        turn.submit({"n": 9}, first)
    assert (refused.value.reason, turn.status) == ("ALREADY_RESOLVED", "WAITING_FOR_USER")
    turn.submit({"n": 2})

    assert (turn.output, results(turn), first == second) == ("Done.", ["1", "seen", "2"], False)
    assert [data for _, data in seen] == [None, 1, None, 2]
    assert len({key for key, _ in seen}) == 2


# -- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "total"),
    [
        ([], None),
        ([af.Usage(output_tokens=5)], 5),
        ([af.Usage(input_tokens=10, output_tokens=0), af.Usage(input_tokens=10, output_tokens=20)], 30),
        ([af.Usage(input_tokens="12")], 12),
        ([af.Usage(input_tokens=-3)], None),
    ],
)
def test_tokens_are_null_where_nobody_told_them_and_never_counted_twice(lab, told, total):
    """K15: in the turn, in its events, and in the tables."""
    pieces = ["Hel", *[af.UsageDelta(usage) for usage in told], "lo.", af.Finish(reason="stop")]
    turn = lab.run(af.Agent("a", model=script(pieces, usage=False)), "hi")

    assert (turn.output, turn.usage.total_tokens) == ("Hello.", total)
    for frame in (lab.turns(), lab.model_calls()):
        found = frame.total_tokens[0]
        assert (None if frame.total_tokens.isna()[0] else found) == total


@pytest.mark.parametrize(("usage", "status"), [(False, "MAX_ITERATIONS_REACHED"), (True, "BUDGET_EXCEEDED")])
def test_a_budget_of_tokens_ends_a_turn_only_where_tokens_are_known(memory_desk, till, usage, status):
    """K15: other limits hold all the same."""
    policy = af.AgentExecutionPolicy(max_iterations=3, budget=af.AgentBudget(max_total_tokens=5))
    model = script(lambda request: ["one two three ", call("look")], usage=usage)
    turn = memory_desk.run(model=model, tools=till.tools, execution_policy=policy)

    assert turn.status == status
    assert ("max_total_tokens (used=" in turn.error.message) == usage


# -- streams that die --------------------------------------------------------------------------------------------------

RETRY = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(max_retries=2, initial_delay=0, max_delay=0))
HALF = af.ToolCallDelta(0, "c1", "pay", '{"amount":')
BROKEN = {
    "text": ["Ana", "lyz", ConnectionError("gone")],
    "half a call": [HALF, ConnectionError("gone")],
    "a whole call": [af.ToolCallDelta(0, "c1", "look", "{}"), ConnectionError("gone")],
    "before the first piece": [ConnectionError("gone")],
    "without an end": ["Ana", script.cut()],
    "reasoning": [script.think("hm"), af.UsageDelta(af.Usage(input_tokens=7)), ConnectionError("gone")],
}


@pytest.mark.parametrize("kernels", [1, 2])
@pytest.mark.parametrize("kind", BROKEN)
def test_each_try_of_a_stream_is_its_own_and_nothing_of_a_broken_one_is_kept(tmp_path, till, kind, kernels):
    """K25: in one run, and where the second try is made by another kernel."""
    policy = (
        RETRY
        if kernels == 1
        else af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(initial_delay=3600, max_delay=3600))
    )

    def reply(request):
        return BROKEN[kind] if request.attempt == 1 else "Analyze ok"

    def agent():
        return af.Agent("a", version="1", model=script(reply), tools=till.tools, execution_policy=policy)

    with af.Lab(tmp_path / "lab.duckdb", display=False) as lab:
        turn = lab.run(agent(), "go")
        assert turn.status == ("COMPLETED" if kernels == 1 else "RETRY_SCHEDULED")
    with af.Lab(tmp_path / "lab.duckdb", display=False) as lab:
        lab.register(agent())
        turn = lab.restore(turn.id)
        if kernels == 2:
            turn.continue_()

        assert (turn.output, till.done) == ("Analyze ok", [])
        assert [message.content for message in turn.messages] == ["go", "Analyze ok"]
        calls = lab.model_calls(order="attempt")
        assert list(zip(calls.attempt, calls.status, strict=True)) == [(1, "FAILED"), (2, "COMPLETED")]
        told = lab.sql("""
            select string_agg(data->>'content', '' order by sequence) as text
            from events where type = 'MODEL_TEXT_DELTA' and (data->>'attempt')::integer = 2
        """)
        assert told.text[0] == "Analyze ok"
        assert len(lab.events(where={"type": "RETRY_SCHEDULED"})) == 1
        assert len(lab.events(where={"type": "MODEL_FAILED"})) == 1
        if kind == "reasoning":
            assert calls.input_tokens[0] == 7


# -- how a reply ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [WHOLE, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("pieces", "output", "reason"),
    [
        ([af.Finish(reason="stop")], "", "stop"),
        ([af.Finish(reason="tool_calls")], "", "tool_calls"),
        ([script.think("thinking…"), af.Finish(reason="length")], "", "length"),
        (["par", af.Finish(reason="length")], "par", "length"),
        (["hi", af.Finish(reason=None)], "hi", None),
        (["hi", af.Finish(reason="something new")], "hi", "something new"),
        ([af.TextDelta(""), af.Finish(reason="stop")], "", "stop"),
        ([af.Finish(reason="content_filter")], "", "content_filter"),
        (["  \n", af.Finish(reason="stop")], "  \n", "stop"),
    ],
)
def test_a_reply_without_calls_is_the_answer_however_it_ended(lab, pieces, output, reason, options):
    """K27: one model call; empty is "", never None; how it ended is on record."""
    model = script(pieces)
    turn = lab.run(af.Agent("a", model=model), "hi", options=options)

    assert (turn.status, turn.output, len(model.requests)) == ("COMPLETED", output, 1)
    assert (turn.messages[-1].content, turn.finish_reason) == (output, reason)
    (completed,) = [event for event in turn.events() if event.type == "MODEL_COMPLETED"]
    assert completed.data["finish_reason"] == reason
    for frame in (lab.turns(), lab.model_calls()):
        assert (None if frame.finish_reason.isna()[0] else frame.finish_reason[0]) == reason


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length", None])
@pytest.mark.parametrize("content", ["", "I look."])
def test_calls_decide_before_the_reason_of_the_end(memory_desk, till, reason, content):
    """K27: whole calls run, whatever the end is called."""
    pieces = [af.TextDelta(content), af.ToolCallDelta(0, "c1", "look", "{}"), af.Finish(reason=reason)]
    turn = memory_desk.run(pieces, "Done.", tools=till.tools)

    assert (turn.output, till.done) == ("Done.", ["look"])


# -- text --------------------------------------------------------------------------------------------------------------

FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
TEXTS = {
    "a pair in two pieces": (["a\ud83d", "\ude00b"], "a\N{GRINNING FACE}b"),
    "half a pair": (["x\udcaf"], "x\ufffd"),
    "half a pair at the end": (["a\ud83d"], "a\ufffd"),
    "nul": (["a\0b"], "a\0b"),
    "right to left": (["\u202eabc"], "\u202eabc"),
    "a byte order mark": (["\ufeffabc"], "\ufeffabc"),
    "a family": ([*FAMILY], FAMILY),
    "marks without end": (["e" + "\u0301" * 100_000], "e" + "\u0301" * 100_000),
    "six plain characters": (["\\ud83d"], "\\ud83d"),
}


def said_of(text: str) -> str:
    """The text as everybody reads it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_an_id_that_is_no_text_is_refused(memory_desk):
    """K22: two that differ must not become one."""
    with pytest.raises(af.InvalidValueError, match="conversation_id"):
        memory_desk.runner.run(memory_desk.agent("never"), "hi", conversation_id="a\ud83d")


@pytest.mark.parametrize("kind", TEXTS)
def test_text_is_the_same_wherever_it_is_read(tmp_path, kind, capsys):
    """K22: in the answer, the state, the tables, and on the page; said by model, tool and user."""
    pieces, text = TEXTS[kind]
    given = "".join(pieces)

    @af.tool
    def echo(p: str) -> str:
        """Say it."""
        af.AgentToolContext.current().emit_progress(given, **{given: given})
        return given

    def agent():
        wire = json.dumps({"p": given})
        replies = asked((0, given, "echo", wire)), [af.TextDelta(piece) for piece in pieces]
        return af.Agent("a", version="1", name=given, model=script(*replies), tools=[echo])

    with af.Lab(tmp_path / "lab.duckdb", user=given, display=True) as lab:
        turn = lab.run(agent(), given, conversation_id=said_of(given))
        said = turn.output
        assert said == said_of(given) == text
        capsys.readouterr().out.encode()
    with af.Lab(tmp_path / "lab.duckdb", display=False) as lab:
        again = lab.restore(turn.id)
        print(again)

        assert again.to_snapshot() == turn.to_snapshot()
        assert again.output == said
        assert again.messages[1].tool_calls[0].arguments["p"] == said
        assert [message.content for message in again.messages if message.role is not Role.ASSISTANT] == [said, said]
        assert list(lab.messages(where={"role": "tool"}).content) == [said]
        assert lab.turns().output[0] == said
        deltas = lab.sql("""
            select string_agg(data->>'content', '' order by sequence) as text
            from events where type = 'MODEL_TEXT_DELTA'
        """)
        assert deltas.text[0] == said
        assert "".join(lab.messages().content).encode()


@pytest.mark.parametrize("text", ["a\ud83d", "\udcaf", "a\0b"])
def test_the_text_of_an_error_is_text_too(lab, text):
    """K22"""
    turn = lab.run(af.Agent("a", model=script(ValueError(text))), "hi")

    turn.error.message.encode()
    assert lab.turns().error_message[0] == turn.error.message
