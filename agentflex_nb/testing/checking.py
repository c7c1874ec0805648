"""`check`: what must hold of every turn that was ever kept, asked of a lab, a runner or a store.

Rule: a lab is asked in SQL, by the checks of `experiments`. A store without tables is read turn by turn, by the same
promises under the same names.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..core.errors import IllegalTransitionError
from ..core.events import AgentEvent, EventType
from ..core.machine import AgentStatus, replay
from ..core.messages import Role
from ..core.turn import Turn
from ..experiments.checks import broken
from ..runtime.ports import AgentTurnStore

_SHOWN = 5  # rows of each check that the error's text quotes; it carries all of them

_FINAL = frozenset(
    {
        EventType.TURN_COMPLETED,
        EventType.TURN_FAILED,
        EventType.TURN_CANCELLED,
        EventType.MAX_ITERATIONS_REACHED,
        EventType.MAX_STEPS_REACHED,
        EventType.BUDGET_EXCEEDED,
    }
)
_WORK = frozenset({EventType.MODEL_STARTED, EventType.TOOL_STARTED})

Row = Mapping[str, Any]


class InvariantError(AssertionError):
    """Something that must hold of every turn does not; `broken` has the rows of each check, by its name."""

    def __init__(self, broken: Mapping[str, Sequence[Row]]) -> None:
        self.broken = {name: [dict(row) for row in rows] for name, rows in broken.items()}
        self.turn_ids = sorted({row["turn_id"] for rows in self.broken.values() for row in rows})
        super().__init__(
            "\n".join(
                [
                    f"{len(self.broken)} of the promises are broken, by {len(self.turn_ids)} turns:",
                    *(line for name, rows in self.broken.items() for line in _told(name, rows)),
                ]
            )
        )


@runtime_checkable
class HasTables(Protocol):
    """A lab."""

    def sql(self, query: str) -> Any: ...


@runtime_checkable
class HasStore(Protocol):
    """A runner."""

    @property
    def store(self) -> AgentTurnStore: ...


def check(subject: HasTables | HasStore | AgentTurnStore) -> None:
    """Assert the invariants I1 to I7 for every turn of a lab, of a runner's store, or of a store.

    Nothing may run at the moment: wait for your turns first.

    Raises:
        InvariantError: some do not hold; says which, for which turns, and shows the rows.
    """
    if isinstance(subject, HasTables):
        found = {name: rows.to_dict("records") for name, rows in broken(subject.sql).items()}
    else:
        found = _broken_in(subject.store if isinstance(subject, HasStore) else subject)
    if found:
        raise InvariantError(found)


def _broken_in(store: AgentTurnStore) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for stored in store.find(list(AgentStatus)):
        events = store.events(stored.turn.id)
        for name, breaks in _CHECKS.items():
            for row in breaks(stored.turn, events):
                found.setdefault(name, []).append(
                    {"turn_id": stored.turn.id, "status": stored.turn.status.value, **row}
                )
    return found


def _told(name: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"- {name}:"
    for row in rows[:_SHOWN]:
        yield "    " + ", ".join([f"{key}={value!r}" for key, value in row.items()])
    if len(rows) > _SHOWN:
        yield f"    … and {len(rows) - _SHOWN:,} more"


# -- what may not be, turn by turn -------------------------------------------------------------------------------------


def _results(turn: Turn, _: Sequence[AgentEvent]) -> Iterator[Row]:
    """I1: a call without its one result in its place, or a result without its call."""
    due: list[str] = []
    for position, message in enumerate(turn.messages):
        if message.role is Role.TOOL:
            if message.tool_call_id != (expected := due.pop(0) if due else None):
                yield {"tool_call_id": message.tool_call_id, "expected": expected, "position": position}
        else:
            yield from ({"tool_call_id": call, "position": position} for call in due)
            due = [call.id for call in message.tool_calls]
    waiting = {pending.call.id for pending in turn.pending}
    yield from ({"tool_call_id": call, "position": None} for call in due if call not in waiting)


def _starts(_: Turn, events: Sequence[AgentEvent]) -> Iterator[Row]:
    """I2: a call that started more often than answers about it, and failures that are tried again, allow."""
    starts: Counter[str] = Counter()
    allowed: Counter[str] = Counter()
    about: dict[str, str] = {}
    for event in events:
        data = event.data
        match event.type:
            case EventType.TOOL_STARTED:
                starts[data["tool_call_id"]] += 1
            case EventType.TOOL_FAILED if data["retries"]:
                allowed[data["tool_call_id"]] += 1
            case EventType.TURN_SUSPENDED:
                about |= {asked["id"]: asked["call_id"] for asked in data["questions"] if asked["type"] != "RETRY"}
            case EventType.TURN_RESUMED:
                allowed.update(about[id] for id in data.get("resolved", [data["correlation_id"]]) if id in about)
            case _:
                pass
    yield from ({"tool_call_id": call, "starts": n} for call, n in starts.items() if n > 1 + allowed[call])


def _running(turn: Turn, _: Sequence[AgentEvent]) -> Iterator[Row]:
    """I3: left running."""
    if turn.status is AgentStatus.RUNNING:
        yield {}


def _snapshots(turn: Turn, events: Sequence[AgentEvent]) -> Iterator[Row]:
    """I4: another version than the newest that was told, or a version that was not told."""
    told = [event.data["version"] for event in events if event.type is EventType.SNAPSHOT_SAVED]
    if told != list(range(turn.version + 1)):
        yield {"version": turn.version, "told": told[-3:], "saved": len(told)}


def _history(turn: Turn, _: Sequence[AgentEvent]) -> Iterator[Row]:
    """I5: it has ended, and its last word is not an assistant's, or asks for something."""
    last = turn.messages[-1] if turn.messages else None
    if turn.status.is_terminal and (last is None or last.role is not Role.ASSISTANT or last.tool_calls):
        yield {"role": last and last.role.value, "calls": len(last.tool_calls) if last else 0}


def _finals(turn: Turn, events: Sequence[AgentEvent]) -> Iterator[Row]:
    """I6: no final event of a turn that has ended, more than one, or something after it."""
    finals = [event.sequence for event in events if event.type in _FINAL]
    if len(finals) != turn.status.is_terminal or (finals and finals[-1] != events[-1].sequence):
        yield {"finals": finals, "newest": events[-1].sequence if events else 0}


def _story(turn: Turn, events: Sequence[AgentEvent]) -> Iterator[Row]:
    """I7: the log leads to another status, or work was asked for by a turn that did not run."""
    idle = [event.sequence for event in events if event.type in _WORK and event.data["status"] != AgentStatus.RUNNING]
    try:
        told = replay(events).value
    except IllegalTransitionError as error:
        told = str(error)
    if told != turn.status or idle:
        yield {"told": told, "work_while_not_running": idle}


def _numbers(_: Turn, events: Sequence[AgentEvent]) -> Iterator[Row]:
    """E4, E6: a number that comes twice, or a step that begins or ends twice."""
    used = Counter([event.sequence for event in events])
    yield from ({"sequence": number, "times": n} for number, n in used.items() if n > 1)
    steps = Counter([(event.type.value, event.data["step"]) for event in events if event.type.startswith("STEP_")])
    yield from ({"event": type, "step": step, "times": n} for (type, step), n in steps.items() if n > 1)


_CHECKS: Mapping[str, Callable[[Turn, Sequence[AgentEvent]], Iterator[Row]]] = {
    "every_call_has_one_result": _results,
    "history_can_go_on": _history,
    "log_is_numbered_once": _numbers,
    "log_tells_the_status": _story,
    "newest_snapshot_is_the_turn": _snapshots,
    "no_call_runs_twice": _starts,
    "no_turn_is_left_running": _running,
    "one_final_event_comes_last": _finals,
}
