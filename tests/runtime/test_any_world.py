"""Whatever models, tools, policies, listeners, people and kernels do, in whatever order: a turn stays whole.

A list of numbers decides everything that happens in one small world; where it ends, everybody behaves. Time is virtual.
`AGENTFLEX_EXAMPLES=20000` looks longer.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentflex_nb as af
from agentflex_nb.core.model import Finish, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta, UsageDelta
from agentflex_nb.core.questions import OUTCOME_UNKNOWN
from agentflex_nb.core.turn import Question, Turn
from agentflex_nb.runtime.ports import AgentTurnStore
from agentflex_nb.testing import CountingClock, counting_ids

from .conftest import check_history, check_log

FORM = af.AgentForm("address", "Where to?", {"type": "object", "properties": {"city": {"type": "string"}}})
SAY = af.AgentResumeCommand


class Fate:
    """Decides by its numbers, then always for the first choice."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def __call__(self, *choices: Any) -> Any:
        return choices[next(self._numbers, 0) % len(choices)]


class Died(BaseException):
    """The process is gone."""


class Life:
    """A process's way to the store; with the process dead, nothing gets through."""

    def __init__(self, store: AgentTurnStore) -> None:
        self._store, self.dead = store, False

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise af.StoreError("the process is dead")
        return getattr(self._store, name)


class Boom(Exception):
    """What user code raises."""


# what user code may raise, and the kernel
RAISED = (
    Boom, Died, KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit, StopIteration, MemoryError,
    RecursionError, ConnectionError, RuntimeError,
)  # fmt: skip


class Middleware(af.AgentMiddleware):
    """Raises before or after, at times."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def tools(self, turn: Turn) -> list[af.Tool]:
        if self.world.calm or self.world.fate(True, True, False):
            return [self.world.extra]
        if self.world.fate(*[False] * 20, True):
            raise self.world.fate(Boom("tools"), ConnectionError("gone"), SystemExit(4), GeneratorExit())
        return []

    def resolve(self, turn: Turn, name: str) -> af.Tool | None:
        return self.world.extra if name == "extra" else None

    def around_step(self, turn: Turn, proceed: Callable[[Turn], Turn]) -> Turn:
        return self._around(proceed, turn)

    def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Any]) -> Any:
        return self._around(proceed, request)

    def around_tool(self, call: af.ToolCall, proceed: Callable[[af.ToolCall], Any]) -> Any:
        return self._around(proceed, call)

    def _around(self, proceed: Callable[[Any], Any], value: Any) -> Any:
        when = "" if self.world.calm else self.world.fate(*[""] * 60, "before", "after")
        if when == "before":
            raise Boom("before")
        result = proceed(value)
        if when == "after":
            raise Boom("after")
        return result


@dataclass
class World:
    """A store that outlives processes, an agent whose every part asks fate, and what really happened outside."""

    fate: Fate
    clock: CountingClock = field(default_factory=lambda: CountingClock(0.001))
    store: AgentTurnStore = field(default_factory=af.MemoryStore)
    ran: Counter[str] = field(default_factory=Counter)
    answered: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    cancelled: bool = False
    calm: bool = False
    turn_id: str = ""
    life: Any = None
    runner: Any = None

    def __post_init__(self) -> None:
        self.ids = counting_ids("t")
        self.name = "arbitrary"
        self.policy = self._execution_policy()
        self.grouped = self.fate(False, True)
        self.middlewares = [Middleware(self)] if self.fate(False, False, True) else []
        self.begin_life()

    def begin_life(self) -> None:
        """A new process: nothing is known but what the store has."""
        self.life = Life(self.store)
        self.runner = af.AgentRunner(
            self.life, listeners=[self.hear], clock=self.clock, monotonic=self.clock.monotonic, wait=self.wait,
            new_id=self.ids, options=af.AgentRunnerOptions(text_beat=0),
        )  # fmt: skip
        self.agent = self.runner.loader.register(self._agent())

    # -- what fate decides ---------------------------------------------------------------------------------------------

    def _execution_policy(self) -> af.AgentExecutionPolicy:
        fate = self.fate
        return af.AgentExecutionPolicy(
            max_iterations=fate(12, 12, 2),
            max_steps=fate(0, 0, 0, 3),
            tool_errors=fate("RETURN_ERROR_TO_MODEL", "RETURN_ERROR_TO_MODEL", "FAIL_TURN"),
            retry=af.AgentRetryPolicy(
                max_retries=fate(2, 0, 1), initial_delay=fate(1.0, 100.0), max_delay=600,
                when_exhausted=fate("FAIL", "SUSPEND"),
            ),
            budget=af.AgentBudget(
                max_seconds=fate(0, 0, 0, 50), max_tool_calls=fate(0, 0, 0, 2), max_total_tokens=fate(0, 0, 0, 40)
            ),
        )  # fmt: skip

    def _agent(self) -> af.Agent:
        look = af.Tool(name="look", description="", function=lambda n=0: self.work("look"))
        pay = af.Tool(name="pay", description="", function=lambda n=0: self.work("pay"), approval=self.judge)
        mail = af.Tool(name="mail", description="", function=lambda n=0: self.work("mail"), idempotent=True)
        ship = af.Tool(name="ship", description="", function=lambda n=0: None, external=True)
        fan = af.Tool(name="fan", description="", function=lambda n=0: self.work("fan"), parallel=True)

        self.extra = af.Tool(name="extra", description="", function=lambda n=0: self.work("extra"), approval=self.judge)
        far = af.Tool(name="far", description="", function=lambda n=0: self.work("far"), max_result_chars=1)
        group = af.ToolGroup("far", [far], condition=self.holds, interceptors=[self.around])

        async def wait_for(n: int = 0) -> Any:
            return self.work("wait_for")

        return af.Agent(
            "any", version="1", model=self, tools=[look, pay, mail, ship, fan, wait_for], forms=[FORM],
            tool_groups=[group] if self.grouped else [],
            execution_policy=self.policy, middlewares=self.middlewares,
        )  # fmt: skip

    def meddle(self) -> None:
        """Somebody does something, just now."""
        act = self.fate(*[""] * 150, "cancel", "interrupt", "suspend", "stop", "die", "late")
        if self.calm or not act:
            return
        if act == "die":
            self.life.dead = True
            raise Died
        if act == "late":
            self.clock.advance(45)
        elif act == "stop":
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
        else:
            other = threading.Thread(target=self.command, args=[act])
            other.start()
            other.join(20)
            assert not other.is_alive(), f"{act} waits for ever"

    def command(self, act: str) -> None:
        """A person says something that needs no question; who is told that it was heard, must have been heard."""
        try:
            if act == "cancel":
                self.cancelled |= self.runner.cancel(self.turn_id, "enough")
            elif act == "suspend":
                self.runner.suspend(self.turn_id, "Well?")
            elif act == "interrupt":
                text = f"message {len(self.said)}"
                self.runner.submit_interrupt(self.turn_id, text)
                self.said.append(text)
        except (af.CommandRefusedError, af.StoreError):
            pass

    # -- the parts of the world ----------------------------------------------------------------------------------------

    def hear(self, event: af.AgentEvent) -> None:
        """A listener."""
        if self.calm:
            return
        if self.fate(*[False] * 200, True):
            raise self.fate(Boom("deaf"), SystemExit(1), RecursionError())
        if self.fate(*[False] * 200, True):
            self.command(self.fate("cancel", "interrupt", "suspend"))

    def wait(self, condition: threading.Condition, holds: Callable[[], bool], timeout: float) -> bool:
        """Time passes; others may use it, as they may while a real condition waits."""
        condition.release()
        try:
            self.meddle()
        finally:
            condition.acquire()
        return self.clock.wait(condition, holds, timeout)

    def stream(self, request: ModelRequest) -> Iterator[Any]:
        """A model."""
        if self.calm:
            yield from (TextDelta("Done."), Finish(reason="stop"))
            return
        for piece in self._pieces(request):
            self.meddle()
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def _pieces(self, request: ModelRequest) -> list[Any]:
        fate = self.fate
        kind = fate(*["calls"] * 9, "answer", "answer", "deltas", "broken", "empty")
        broken = fate(
            af.RateLimitError("slow", retry_after=7), ConnectionError("gone"), Boom("bad"), SystemExit(2),
            asyncio.CancelledError(), af.AuthenticationError("who?"), MemoryError(),
        ) if kind == "broken" else None  # fmt: skip
        match kind:
            case "answer":
                return [
                    TextDelta("All "),
                    TextDelta("well."),
                    UsageDelta(af.Usage(input_tokens=9, output_tokens=9)),
                    Finish(reason="stop"),
                ]
            case "empty":
                return fate(
                    [],
                    [Finish(reason="stop")],
                    [Finish(reason="tool_calls")],
                    [ReasoningDelta("hm"), Finish(reason="length")],
                )
            case "broken":
                return [TextDelta("Al"), ToolCallDelta(index=0, id="c", name="look", arguments='{"n'), broken]
            case "deltas":
                return [self._delta() for _ in range(fate(3, 1, 5))]
            case _:
                calls = [self._call(n) for n in range(fate(1, 2, 3))]
                return [*calls, UsageDelta(af.Usage(input_tokens=5)), Finish(reason=fate("tool_calls", "stop", None))]

    def _call(self, index: int) -> ToolCallDelta:
        name = self.fate(
            "pay", "look", "mail", "ship", "fan", "wait_for", "request_user_input", "nonsense", "fan", "extra", "far"
        )
        whole = '{"form_key": "address"}' if name == "request_user_input" else '{"n": 1}'
        arguments = self.fate(whole, whole, whole, whole, "{}", "", "{", "[1]", '{"n": "x"}', '{"m": 1}', '{"n": NaN}')
        return ToolCallDelta(index=index, id=self.fate("call_0", "", "call_1"), name=name, arguments=arguments)

    def _delta(self) -> Any:
        fate = self.fate
        part = ToolCallDelta(
            index=fate(0, 1, 7), id=fate("a", "", "b"), name=fate("look", "", "pay"), arguments=fate("{}", "", '{"n":')
        )
        return fate(
            TextDelta("a\ud83d"),
            ReasoningDelta("r"),
            part,
            part,
            UsageDelta(af.Usage()),
            Finish(reason="stop"),
            "text",
            None,
            7,
        )

    def holds(self, turn: Turn) -> bool:
        """The condition of a group."""
        if self.calm:
            return True
        self.meddle()
        said = self.fate(True, True, False, Boom("condition"), ConnectionError("gone"), SystemExit(5), "maybe")
        if isinstance(said, BaseException):
            raise said
        return said  # type: ignore[return-value]

    def around(self, call: af.ToolCall, proceed: Callable[[af.ToolCall], Any]) -> Any:
        """An interceptor."""
        when = "" if self.calm else self.fate(*[""] * 20, "before", "after", "instead")
        if when == "before":
            raise self.fate(Boom("before"), SystemExit(6), StopIteration())
        result = "instead" if when == "instead" else proceed(call)
        if when == "after":
            raise Boom("after")
        return result

    def judge(self, call: af.ToolCall) -> Any:
        """An approval policy."""
        if self.calm:
            return False
        self.meddle()
        decision = af.ToolApprovalDecision
        verdict = self.fate(
            True, False, True, decision.require_approval(expires_in=30), decision.deny("no"),
            decision.require_approval(expires_in=30, when_expired="APPROVE"), Boom("policy"), 7,
        )  # fmt: skip
        if isinstance(verdict, Boom):
            raise verdict
        return verdict

    def work(self, tool: str) -> Any:
        """A tool. What it does, it has done outside, for good."""
        context = af.AgentToolContext.current()
        self.ran[context.idempotency_key] += 1
        if self.calm:
            return "ok"
        self.meddle()
        if self.fate(False, True):
            context.emit_progress("half", percent=self.fate(50, float("nan")))
        does = self.fate("return", "return", "raise", "form", "hang")
        if does == "hang":
            self.clock.advance(70)
        if does == "form" and context.form_data is None:
            raise af.FormRequired("address")
        if does == "raise":
            raise self.fate(
                Boom("tool"), ConnectionError("gone"), SystemExit(3), asyncio.CancelledError(), GeneratorExit(),
                StopIteration(), RecursionError(), af.FormRequired("nowhere"),
            )  # fmt: skip
        self.meddle()
        return self.fate("ok", None, {"a": float("inf")}, "\ud83d", object(), [1, {2}])

    # -- what happens --------------------------------------------------------------------------------------------------

    def attempt(self, act: Callable[[], Any], settles: bool = False) -> bool:
        """Whether it was done; whatever it raised, the world goes on, with a new process if this one died."""
        try:
            act()
        except (af.AgentFlexError, *RAISED):
            done = False
        else:
            done = True
        if self.life.dead:
            self.begin_life()
        elif settles:
            assert self.state().status != "RUNNING", "I3"
        return done

    def run(self) -> None:
        self.attempt(lambda: self.runner.run_until_blocked(self.turn_id), settles=True)

    def state(self) -> Turn:
        stored = self.store.load(self.turn_id)
        assert stored is not None
        return stored.turn

    def live(self) -> None:
        """The turn from its start until it is left to itself."""
        known = set(self._turns())
        while not (new := set(self._turns()) - known):
            self.attempt(lambda: self.runner.create(self.agent, "go", conversation_id="c1"))
        (self.turn_id,) = new
        self.run()
        for _ in range(12):
            turn = self.state()
            if turn.status.is_terminal:
                return
            self._next(turn)

    def _turns(self) -> list[str]:
        return list(self.store.active_turns("c1"))

    def _next(self, turn: Turn) -> None:
        fate = self.fate
        if turn.questions and fate(True, True, True, False):
            question = fate(*turn.questions)
            command = self._answer(question, turn)
            verb = fate(self.runner.resume, self.runner.submit_resume)
            if self.attempt(lambda: verb(self.turn_id, command), settles=verb == self.runner.resume):
                self.answered.append(command.correlation_id)
            return
        act = fate("run", "run", "step", "late", "cancel", "interrupt", "suspend", "die")
        match act:
            case "run":
                self.run()
            case "step":
                self.attempt(lambda: self.runner.step(self.turn_id))
            case "late":
                self.clock.advance(700)
                self.run()
            case "die":
                self.begin_life()
            case _:
                self.attempt(lambda: self.command(act))

    def _answer(self, question: Question, turn: Turn) -> Any:
        fate, id = self.fate, question.id
        fitting = {
            "TOOL_APPROVAL": fate(
                SAY.approve_tool(id), SAY.approve_tool(id, arguments={"n": 2}), SAY.reject_tool(id, "no")
            ),
            "USER_INPUT": SAY.user_input(id, "words" if question.schema is None else {"city": "Oslo"}),
            "EXTERNAL_TOOL": fate(SAY.external_result(id, {"a": 1}), SAY.external_result(id, error="lost")),
            "RETRY": fate(SAY.continue_(id), SAY.retry(id)),
            "MODEL": SAY.retry(id),
        }[question.type]
        if question.schema is not None:
            fitting = fate(fitting, SAY.decline(id, "no"), SAY.user_input(id, {"city": 7}))
        strays = (
            SAY.approve_tool("t9.1.0"),
            SAY.user_input(id, {}),
            SAY.external_result(id, 1),
            SAY.retry(id),
            SAY.decline(id),
        )
        return fate(*[fitting] * 7, fate(*strays))

    def finish(self) -> None:
        """Everybody behaves: whatever has happened, the turn can be brought to its end."""
        self.calm = True
        if self.life.dead:
            self.begin_life()
        for _ in range(80):
            turn = self.state()
            if turn.status.is_terminal:
                return
            self.clock.advance(1)
            if not turn.questions:
                self.runner.run_until_blocked(self.turn_id)
                continue
            question = turn.questions[0]
            if question.type == "RETRY":
                self.runner.resume(self.turn_id, SAY.continue_(question.id))
            elif question.type == "MODEL":
                self.runner.resume(self.turn_id, SAY.retry(question.id))
            elif question.type == "EXTERNAL_TOOL" or question.code == OUTCOME_UNKNOWN:
                self.runner.resume(self.turn_id, SAY.external_result(question.id, "found out"))
            elif question.type == "USER_INPUT":
                self.runner.resume(
                    self.turn_id, SAY.user_input(question.id, "words" if question.schema is None else {})
                )
            else:
                self._approve(question.id)
        raise AssertionError(f"the turn cannot be finished: {self.state()}")

    def _approve(self, id: str) -> None:
        with suppress(af.CommandRefusedError):  # it may have expired: then it is answered too
            self.runner.resume(self.turn_id, SAY.approve_tool(id))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        turn, events = self.state(), self.store.events(self.turn_id)
        check_log(turn, events)
        check_history(turn)
        assert self.runner.restore(self.turn_id).to_snapshot() == turn, "I4"
        self._no_call_ran_twice(turn, events)
        lost = set(self.answered) - {answer.question_id for answer in turn.answers}
        assert not lost, f"answers were acknowledged and are gone: {lost}"
        kept = "\n".join(
            [*[message.content for message in turn.messages], turn.interrupt.message if turn.interrupt else ""]
        )
        assert not [text for text in self.said if text not in kept], "a message was accepted and is gone"
        follow_up = self.runner.run(
            af.Agent("next", model=af.ScriptedModel("Still here.")), "and now?", conversation_id="c1"
        )
        assert follow_up.text == "Still here.", "I5"

    def _no_call_ran_twice(self, turn: Turn, events: list[af.AgentEvent]) -> None:
        """I2: again only after a form, or after a person who knew that the outcome was unknown said so."""
        asked: dict[str, Any] = {}
        allowed: Counter[str] = Counter()
        for event in events:
            if event.type == "TURN_SUSPENDED":
                asked.update({question["id"]: question for question in event.data["questions"]})
            elif event.type == "TURN_RESUMED" and event.data["command_type"] in ("APPROVE_TOOL", "USER_INPUT"):
                question = asked[event.data["correlation_id"]]
                if question["code"] == OUTCOME_UNKNOWN or question["form_key"]:
                    allowed[f"{turn.id}:{question['call_id']}"] += 1
        safe = {
            f"{turn.id}:{call.id}" for message in turn.messages for call in message.tool_calls if call.name == "mail"
        }
        twice = {
            key: n
            for key, n in self.ran.items()
            if n > 1 + allowed[key] and key not in safe and key.startswith(turn.id)
        }
        assert not twice, f"ran more often than anybody allowed: {twice}"


profile = settings(
    max_examples=int(os.environ.get("AGENTFLEX_EXAMPLES", "150")),
    deadline=None,
    derandomize="AGENTFLEX_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)


@profile
@given(st.binary(min_size=150, max_size=400))
def test_a_turn_stays_whole_whatever_the_world_does(numbers: bytes):
    """I1, I2, I3, I4, I5, I6, I7, E3, E6, E8, E9, A8, A17, P17, P18, X3, X5, X6"""
    world = World(Fate(numbers))

    world.live()
    world.finish()

    world.check()
