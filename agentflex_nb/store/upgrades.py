"""The state of a turn as earlier versions wrote it, brought to the form that this version reads.

Rule: an upgrade changes the words, never what they meant: a turn goes on as it would have gone on when it was saved.
"""

from collections.abc import Callable, Mapping
from typing import Any

FORMAT = 2
"""Of the state's text; one higher with every change that yesterday's code would misread."""

State = dict[str, Any]


def upgraded(state: State, found: int) -> State:
    """A state of the format `found`, in the form of today's. What is no state is left for its reader to refuse."""
    for older in range(found, FORMAT):
        try:
            _STEPS[older](state)
        except (AttributeError, KeyError, TypeError):
            return state
    return state


def _from_1(state: State) -> None:
    """Nothing was tried again; and a question about a call had the call's id."""
    state["identity"]["policy"].setdefault("retry", {"max_retries": 0})
    asked = [pending["asks"] for pending in state.get("pending", ()) if pending.get("asks")]
    for question in (*(state.get("suspension") or {}).get("questions", ()), *asked):
        if question.get("tool_name"):
            question.setdefault("call_id", question["id"])


# format -> what brings a state of it to the next one
_STEPS: Mapping[int, Callable[[State], None]] = {1: _from_1}
