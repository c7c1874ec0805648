"""The OpenTelemetry listener: optional, plain to install, and heard through a policy."""

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentflex_nb.core.errors import AgentFlexError, MissingExtraError
from agentflex_nb.listeners.otel import OpenTelemetryListener
from agentflex_nb.listeners.policy import HIDDEN, DisplayPolicy


def test_importing_the_package_does_not_load_opentelemetry():
    code = "import sys, agentflex_nb as af; af.OpenTelemetryListener, af.Lab; print('opentelemetry' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "False"


def test_without_the_package_the_error_says_which_extra_to_install(monkeypatch):
    """Y5"""
    monkeypatch.delitem(sys.modules, "agentflex_nb.listeners.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'agentflex-nb\[otel\]'") as error:
        OpenTelemetryListener()

    assert isinstance(error.value, AgentFlexError)
    assert isinstance(error.value, ImportError)
    assert (error.value.package, error.value.extra) == ("opentelemetry-api", "otel")


def test_spans_are_made_of_what_the_policy_lets_pass(stage):
    """Y6"""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    policy = DisplayPolicy(redact=r"sk-\d+", errors=False)
    tracer = provider.get_tracer("test")
    stage.runner.add_event_listener(OpenTelemetryListener(tracer, content=True, policy=policy))
    stage.runner.add_event_listener(OpenTelemetryListener(tracer, content=True, policy=DisplayPolicy(sample=0)))
    stage.run("my key is sk-12")
    stage.run(ValueError("sk-34 is wrong"))

    spans = exporter.get_finished_spans()

    assert [span.name for span in spans] == ["chat m1", "invoke_agent shop"] * 2
    assert HIDDEN in spans[0].attributes["gen_ai.output.messages"]
    assert spans[2].attributes["error.type"] == "ValueError"
    assert "sk-" not in "".join(span.to_json() for span in spans)
