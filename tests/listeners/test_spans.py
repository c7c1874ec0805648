"""Spans, as a real SDK exports them: names and attributes of the conventions, parents, times, one trace a turn."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode

from agentflex_nb.core.agent import AgentExecutionPolicy
from agentflex_nb.core.events import EventType
from agentflex_nb.core.forms import FormRequired
from agentflex_nb.listeners import spans as names
from agentflex_nb.listeners.otel import OpenTelemetryListener
from agentflex_nb.models.scripted import ScriptedModel
from agentflex_nb.runtime.context import AgentToolContext
from agentflex_nb.runtime.forms import AgentForm
from agentflex_nb.runtime.tools import tool

call = ScriptedModel.call


class Exported:
    """A provider of its own, and what it has exported."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")

    def listener(self, **given):
        return OpenTelemetryListener(self.tracer, **given)

    @property
    def spans(self):
        return sorted(self._exporter.get_finished_spans(), key=lambda span: (span.start_time, -span.end_time))

    def named(self, name):
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def exported():
    return Exported()


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


def test_a_turn_is_a_tree_of_spans_with_the_times_of_its_events(stage, exported):
    """Y5"""
    stage.runner.add_event_listener(exported.listener())
    stage.run([call("lookup", order="O-1")], "Done.")

    agent, first, looked_up, second = exported.spans

    assert [span.name for span in exported.spans] == ["invoke_agent shop", "chat m1", "execute_tool lookup", "chat m1"]
    assert {span.parent.span_id for span in (first, looked_up, second)} == {agent.context.span_id}
    assert len({span.context.trace_id for span in exported.spans}) == 1
    assert [agent.kind, first.kind, looked_up.kind] == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]
    assert [seconds(span) for span in exported.spans] == [pytest.approx(wanted, abs=0.2) for wanted in (8, 3, 2, 3)]
    began = next(event for event in stage.heard if event.type is EventType.TURN_STARTED).occurred_at
    assert datetime.fromtimestamp(agent.start_time / 1e9, UTC) == began
    assert all(before.end_time <= after.start_time for before, after in pairwise([first, looked_up, second]))


def test_attributes_follow_the_conventions(stage, exported):
    """Y5"""
    stage.runner.add_event_listener(exported.listener())
    stage.run([call("lookup", order="O-1")], "Done.")
    agent, model, looked_up, _ = [dict(span.attributes) for span in exported.spans]

    assert (
        agent.items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": "shop",
            "gen_ai.agent.version": "v1",
            "gen_ai.usage.input_tokens": 200,
            "gen_ai.usage.output_tokens": 20,
            "agentflex.turn.id": "t1",
            "agentflex.turn.status": "COMPLETED",
        }.items()
    )
    assert (
        model.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m1",
            "gen_ai.usage.input_tokens": 100,
            "agentflex.iteration": 1,
            "agentflex.attempt": 1,
        }.items()
    )
    assert (
        looked_up.items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.id": "t1.1.0",
            "gen_ai.tool.type": "function",
        }.items()
    )


def test_every_name_of_the_conventions_is_one():
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    ours = {value for value in vars(names).values() if isinstance(value, str)} | set(names.USAGE.values())

    used = {name for name in ours if name.startswith("gen_ai.")}
    assert len(used) > 15
    assert used - known == set()


def test_content_is_exported_only_when_asked_for(stage, exported):
    """Y5, Y6"""
    stage.runner.add_event_listener(exported.listener())
    stage.run([call("lookup", order="O-1")], "Done.")
    assert "O-1" not in "".join(span.to_json() for span in exported.spans)

    with_content = Exported()
    stage.runner.add_event_listener(with_content.listener(content=True))
    stage.run([call("lookup", order="O-1")], "Done.")
    stage.run("Whole.", streaming=False)

    asked, said, whole = with_content.named("chat m1")
    (looked_up,) = with_content.named("execute_tool lookup")
    assert looked_up.attributes["gen_ai.tool.call.arguments"] == '{"order": "O-1"}'
    assert looked_up.attributes["gen_ai.tool.call.result"] == "order O-1 of ann@example.org"
    assert '"type": "tool_call", "id": "t2.1.0", "name": "lookup"' in asked.attributes["gen_ai.output.messages"]
    assert '"parts": [{"type": "text", "content": "Done."}]' in said.attributes["gen_ai.output.messages"]
    assert "Whole." in whole.attributes["gen_ai.output.messages"]


def test_a_turn_that_resumes_in_another_process_is_one_trace(stage, exported):
    """Y5: both stretches hang under the same turn, and the wait between them is nobody's time."""
    stage.runner.add_event_listener(exported.listener())
    turn = stage.run([call("refund", order="O-1", amount=5.0)], "Done.")
    assert [span.name for span in exported.spans] == ["invoke_agent shop", "chat m1"]
    stage.clock.advance(3_600)

    elsewhere = Exported()
    other = stage.another_runner().add_event_listener(elsewhere.listener())
    other.restore(turn.id).approve()

    first, second = exported.named("invoke_agent shop")[0], elsewhere.named("invoke_agent shop")[0]
    assert first.context.trace_id == second.context.trace_id
    assert first.parent == second.parent
    assert first.attributes["agentflex.turn.status"] == "WAITING_FOR_APPROVAL"
    assert second.attributes["agentflex.turn.status"] == "COMPLETED"
    assert second.attributes["agentflex.resumed_by"] == "APPROVE_TOOL"
    assert (seconds(first), seconds(second)) == (pytest.approx(3, abs=0.2), pytest.approx(7, abs=0.2))
    assert [event.name for event in first.events] == ["TOOL_APPROVAL_REQUESTED"]
    (ran,) = elsewhere.named("execute_tool refund")
    assert ran.parent.span_id == second.context.span_id


def test_a_turn_that_resumes_here_links_to_where_it_stopped(stage, exported):
    """Y5"""
    stage.runner.add_event_listener(exported.listener())
    stage.run([call("refund", order="O-1", amount=5.0)], "Done.").approve()

    first, second = exported.named("invoke_agent shop")

    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert first.context.trace_id == second.context.trace_id


def test_other_turns_are_other_traces(stage, exported):
    stage.runner.add_event_listener(exported.listener())
    stage.run("one")
    stage.run("two")

    assert len({span.context.trace_id for span in exported.named("invoke_agent shop")}) == 2


def test_a_turn_is_linked_to_the_span_that_ran_it(stage, exported):
    stage.runner.add_event_listener(exported.listener())
    with exported.tracer.start_as_current_span("experiment") as outside:
        stage.run("one")

    (agent,) = exported.named("invoke_agent shop")
    assert [link.context.span_id for link in agent.links] == [outside.get_span_context().span_id]
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_errors_are_recorded_where_they_happened(stage, exported):
    """Y5"""
    stage.runner.add_event_listener(exported.listener())
    stage.run([call("explode", order="O-9")])

    agent, model, tool_span = exported.spans

    assert (tool_span.status.status_code, tool_span.attributes["error.type"]) == (StatusCode.ERROR, "LookupError")
    assert tool_span.status.description == "no O-9 at 10.0.0.7"
    (told,) = tool_span.events
    assert (told.name, told.attributes["exception.type"]) == ("exception", "LookupError")
    assert (agent.status.status_code, agent.attributes["error.type"]) == (StatusCode.ERROR, "LookupError")
    assert model.status.status_code is StatusCode.UNSET


def test_each_attempt_at_the_model_is_a_span(stage, exported):
    """Y5, R8"""
    stage.runner.add_event_listener(exported.listener())
    stage.run(ConnectionError("cut"))

    chats = exported.named("chat m1")

    assert [span.attributes["agentflex.attempt"] for span in chats] == [1, 2, 3]
    assert {span.attributes["error.type"] for span in chats} == {"ConnectionError"}
    stretches = exported.named("invoke_agent shop")
    assert [span.attributes["agentflex.turn.status"] for span in stretches] == ["RETRY_SCHEDULED"] * 2 + ["FAILED"]


def test_a_limit_is_an_error_and_a_cancellation_is_none(stage, exported):
    """Y5, B5"""
    stage.runner.add_event_listener(exported.listener())
    policy = AgentExecutionPolicy(max_iterations=1)
    stage.run([call("lookup", order="O-1")], "Done.", execution_policy=policy)

    @tool
    def stop() -> str:
        """Ask for an end of this very turn."""
        stage.runner.cancel(AgentToolContext.current().turn_id)
        return "stopped"

    stage.run([call("stop")], tools=[stop], version="v2")

    limited, cancelled = exported.named("invoke_agent shop")
    assert limited.attributes["error.type"] == "MAX_ITERATIONS_REACHED"
    assert limited.status.status_code is StatusCode.ERROR
    assert cancelled.attributes["agentflex.turn.status"] == "CANCELLED"
    assert cancelled.status.status_code is StatusCode.UNSET
    assert "CANCELLATION_REQUESTED" in [event.name for event in cancelled.events]


def test_a_tool_that_asks_for_a_form_is_two_runs_and_no_wait(stage, exported):
    """Y5, E19"""
    stage.runner.add_event_listener(exported.listener())

    @tool
    def ship() -> str:
        """Needs an address."""
        stage.clock.advance(1)
        if AgentToolContext.current().form_data is None:
            raise FormRequired("address", message="Where to?")
        return "shipped"

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    turn = stage.run([call("ship")], "Done.", tools=[ship], forms=[AgentForm("address", "Where it goes", schema)])
    stage.clock.advance(3_600)
    turn.submit({"city": "Oslo"})

    runs = exported.named("execute_tool ship")
    assert [seconds(span) for span in runs] == [pytest.approx(1, abs=0.1)] * 2
    assert {span.status.status_code for span in runs} == {StatusCode.UNSET}


def test_a_call_that_was_refused_is_a_mark_and_no_span(stage, exported):
    """E26"""
    stage.runner.add_event_listener(exported.listener())
    stage.run([call("refund", order="O-1", amount=5.0)], "Done.").reject("no")

    assert exported.named("execute_tool refund") == []
    marks = [event for span in exported.named("invoke_agent shop") for event in span.events]
    assert [event.name for event in marks] == ["TOOL_APPROVAL_REQUESTED", "TOOL_DENIED"]
    assert marks[1].attributes["gen_ai.tool.name"] == "refund"


def test_turns_that_have_ended_are_forgotten(stage, exported, monkeypatch):
    monkeypatch.setattr("agentflex_nb.listeners.spans._MOST_TURNS", 3)
    listener = exported.listener()
    stage.runner.add_event_listener(listener)
    stage.run("one")
    assert listener._spans._turns == {}

    for _ in range(5):
        stage.run([call("refund", order="O-1", amount=5.0)])

    assert list(listener._spans._turns) == ["t4", "t5", "t6"]
