"""The kernel that comes after: it finishes what was left, and compares what was heard with what is there.

    python mend.py lab|record FOLDER

The last line it prints is a JSON object: counts, and `faults`, a list of sentences that must be empty.
"""

import json
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

from shop import Death, Outside, answer, opened

from agentflex_nb import AgentEvent, AgentRunner, AgentStatus, AgentTurn, EventType, Message, Role
from agentflex_nb.core.machine import replay

UNFINISHED = [status for status in AgentStatus if not status.is_terminal]
FINAL = {EventType.TURN_COMPLETED, EventType.TURN_FAILED, EventType.TURN_CANCELLED}

# turn -> what was heard of it: process, number, type, and the version that was saved
Heard = dict[str, list[tuple[str, int, str, int]]]


class Mending:
    """One look at a folder that a killed process left behind."""

    def __init__(self, runner: AgentRunner, outside: Outside) -> None:
        self.runner, self.outside = runner, outside
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def finish(self, turn_id: str) -> None:
        """Move an unfinished turn on to its end; whoever is asked looks outside first."""
        self.counts["unfinished turns"] += 1
        turn = self.runner.restore(turn_id)
        self.runner.run_until_blocked(turn)
        while turn.questions:
            self.answer(turn)
        self.expect(turn.status is AgentStatus.COMPLETED, f"turn {turn_id} was restored and is {turn.status}")
        stored = self.runner.store.load(turn_id)
        self.expect(stored is not None and stored.turn == turn.to_snapshot(), f"turn {turn_id}: stored differs (I4)")

    def answer(self, turn: AgentTurn) -> None:
        question = turn.questions[0]
        if question.code != "OUTCOME_UNKNOWN":
            self.counts[f"{question.type.value} answered"] += 1
            answer(turn, question)
            return
        self.counts["outcome unknown"] += 1
        if f"{turn.id}:{question.call_id}" in self.outside.lines("effects"):
            self.counts["outcome unknown, had taken effect"] += 1
            turn.supply("it was done before", call_id=question.id)
        elif self.counts["outcome unknown"] % 2:
            turn.approve(question.id)
        else:
            turn.reject("it was not done", question.id)

    def follow(self, turn_id: str) -> None:
        """A further turn of the same conversation works (I5)."""
        stored = self.runner.store.load(turn_id)
        if stored and (conversation := stored.turn.identity.conversation_id):
            self.counts["follow-ups"] += 1
            turn = self.runner.run("talker", "and now?", conversation_id=conversation)
            self.expect(turn.status is AgentStatus.COMPLETED, f"conversation {conversation} does not go on: {turn!r}")

    def compare(self, turn_id: str, heard: list[tuple[str, int, str, int]]) -> None:
        """What was heard of a turn against what is stored of it."""
        stored, events = self.runner.store.load(turn_id), self.runner.store.events(turn_id)
        if stored is None:
            if any(type == EventType.SNAPSHOT_SAVED for _, _, type, _ in heard):
                self.faults.append(f"turn {turn_id} was acknowledged and is gone")
            return
        there = {event.sequence: event for event in events}
        until: dict[str, int] = {}  # what a process heard after its last commit may be gone
        for process, sequence, type, version in heard:
            if type != EventType.SNAPSHOT_SAVED:
                continue
            self.counts["acknowledged commits"] += 1
            until[process] = max(sequence, until.get(process, 0))
            event = there.get(sequence)
            self.expect(
                event is not None and event.data.get("version") == version,
                f"turn {turn_id}: version {version} was acknowledged at {sequence} and is not in the log",
            )
            self.expect(stored.turn.version >= version, f"turn {turn_id}: {stored.turn.version} is below {version}")
        for process, sequence, type, _ in heard:
            if (event := there.get(sequence)) is None:
                lost = sequence <= until.get(process, 0)
                self.expect(not lost, f"turn {turn_id}: event {sequence} came before a commit and is lost")
            else:
                self.expect(event.type == type, f"turn {turn_id}: number {sequence} stands for {type} and {event.type}")
        self.check(turn_id, stored.turn.status, events, stored.turn.messages)

    def check(self, turn_id: str, status: AgentStatus, events: list[AgentEvent], messages: tuple[Message, ...]) -> None:
        numbers = [event.sequence for event in events]
        self.expect(all(one < two for one, two in pairwise(numbers)), f"{turn_id}: {numbers}")
        self.expect(replay(events) is status, f"turn {turn_id} is {status}, its log says {replay(events)} (I7)")
        finals = [event.type for event in events if event.type in FINAL]
        self.expect(len(finals) == 1, f"turn {turn_id} has final events {finals} (I6)")
        self.expect(not open_calls(messages), f"turn {turn_id} has calls without their results (I1)")

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.faults.append(otherwise)


def open_calls(messages: tuple[Message, ...]) -> list[str]:
    """Calls that are not answered, each once and in order, right after the message that asked."""
    wrong, expected = [], []
    for message in messages:
        if message.role is Role.TOOL:
            if not expected or message.tool_call_id != expected.pop(0):
                wrong.append(message.tool_call_id)
        else:
            wrong += expected
            expected = [call.id for call in message.tool_calls]
    return [*wrong, *expected]


def heard_of(outside: Outside) -> Heard:
    heard: Heard = defaultdict(list)
    for line in outside.lines("heard"):
        process, turn_id, sequence, type, version = line.split()
        heard[turn_id].append((process, int(sequence), type, int(version)))
    return heard


def main(kind: str, folder: str) -> None:
    print("opening", flush=True)
    outside = Outside(Path(folder))
    with opened(kind, Path(folder), Death()) as runner:
        print("working", flush=True)
        mending = Mending(runner, outside)
        unfinished = [stored.turn.id for stored in runner.store.find(UNFINISHED)]
        for turn_id in unfinished:
            mending.finish(turn_id)
        for turn_id in unfinished:
            mending.follow(turn_id)
        for turn_id, heard in heard_of(outside).items():
            mending.compare(turn_id, heard)
        left = [f"{stored.turn.id} {stored.turn.status}" for stored in runner.store.find(UNFINISHED)]
        mending.expect(not left, f"still unfinished: {left} (I3)")
        twice = [line for line, times in Counter(outside.lines("effects")).items() if times > 1]
        mending.expect(not twice, f"took effect twice: {twice} (I2)")
        mending.counts["turns"] = len(heard_of(outside))
    print(json.dumps({"counts": mending.counts, "faults": mending.faults[:20]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
