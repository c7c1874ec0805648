"""Inspect, the react agent under eval() with its mock model, an .eval log written: log | quiet (log_realtime off).

What an eval costs whatever it holds is left out: the cost of one sample is taken from the cost of many.
"""

import os
import warnings
from typing import Any

os.environ.update(INSPECT_DISPLAY="none", INSPECT_LOG_LEVEL="error")
warnings.simplefilter("ignore")

from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import exact
from inspect_ai.tool import ToolCall, tool

import workloads as wl
from machine import Reading

working: list["Inspect"] = []


@tool(name=wl.TOOL)
def gauge() -> Any:
    async def execute(river: str, rows: int) -> str:
        """Read what a gauge of a river has measured.

        Args:
            river: its name
            rows: how many
        """
        return working[-1].gauge(river, rows)

    return execute


def at_once(calls: int) -> Any:
    def reply(input: Any, *_: Any) -> ModelOutput:
        number = len(input) // 2 - 1  # instructions, question, then two messages a call
        if number < calls:
            wanted = ToolCall(id=f"call_{number}", function=wl.TOOL, arguments=wl.arguments(number))
            said, reason = ChatMessageAssistant(content="", tool_calls=[wanted]), "tool_calls"
        else:
            said, reason = ChatMessageAssistant(content=wl.ANSWER), "stop"
        usage = ModelUsage(input_tokens=100, output_tokens=20, total_tokens=120)
        choice = ChatCompletionChoice(message=said, stop_reason=reason)
        return ModelOutput(model="mockllm", choices=[choice], usage=usage)

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


class Inspect(wl.Subject):
    def evaluate(self, samples: int, calls: int, width: int) -> Reading:
        working[:] = [self]
        task = Task(
            dataset=MemoryDataset([Sample(id=n, input=wl.QUESTION, target=wl.ANSWER) for n in range(samples)]),
            solver=react(prompt=wl.INSTRUCTIONS, tools=[gauge()], submit=False),
            scorer=exact(),
        )
        before = Reading.now()
        (log,) = eval(
            task, model=at_once(calls), log_dir=str(self.folder), display="none", max_samples=width,
            max_connections=max(width, 10), log_realtime=self.variant != "quiet", ctl_server=False, score_display=False,
        )  # fmt: skip
        used = Reading.now().since(before)
        assert log.status == "success", log.error
        assert next(iter(log.results.scores[0].metrics.values())).value == 1.0
        return used

    def measure(self, workload: str, count: int) -> dict[str, float]:
        calls = wl.CALLS.get(workload, 1)
        if workload in ("WL4", "WL5"):
            raise wl.NotOffered
        width = wl.WIDTH if workload == "WL6" else 1
        self.evaluate(1, calls, width)
        fixed = self.evaluate(1, calls, width)
        self.marking = workload == "WL8"
        used = wl.per_turn(self.evaluate(count + 1, calls, width).since(fixed), count)
        return used | {"growth": wl.growth(self.marks[: wl.CALLS["WL8"]])} if self.marking else used


if __name__ == "__main__":
    wl.serve(Inspect)
