"""A panel: one turn on one screen. Events go in, answers come out.

Rule 1: `feed` only appends; the pump folds and sends.
Rule 2: what comes from the browser is read, marked as on its way, and handed on; the handler never waits, never raises.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

from ..core.errors import CommandRefusedError
from ..core.events import AgentEvent
from ..listeners.passage import Passage
from ..listeners.policy import DisplayPolicy
from .answers import CANCEL, INTERRUPT, Command, only_question, read
from .items import Asked, View, brief
from .pump import Pump, shared_pump
from .view import show
from .wire import Json, is_durable, patch, snapshot

KEEP = 1.0  # seconds between two snapshots of a turn that runs
_REFUSALS = 20  # refusals that a panel goes on showing

_ABOUT_NONE = {"cancel": CANCEL, "interrupt": INTERRUPT}  # verbs that answer no question

_log = logging.getLogger(__name__)
_presses = count(1)

OnCommand = Callable[[str, Command], None]

ParametersOf = Callable[[str, str, str], Mapping[str, Any] | None]
"""The JSON Schema of a tool's arguments, by agent id, agent version and the tool's name; None where it is not known."""


def not_known(agent_id: str, agent_version: str, tool_name: str) -> None:
    """Where no agents are at hand: arguments are changed as JSON."""


class Screen(Protocol):
    """Where a panel is seen. Called by one thread at a time."""

    immediate: bool
    """Whether it is drawn in the thread that feeds the panel, instead of the pump's."""

    def start(self, view: View, whole: Json) -> None:
        """Appear, with what there is so far."""
        ...

    def draw(self, view: View, message: Json) -> None:
        """Something changed: the view as it is now, and the same as a message."""
        ...

    def keep(self, whole: Json) -> None:
        """The durable state, from which a page that is loaded anew is drawn."""
        ...

    def settle(self, view: View) -> None:
        """The turn waits or has ended: leave behind what a reader without a kernel needs."""
        ...

    def close(self, view: View) -> None:
        """No more of this panel; what it showed stays readable."""
        ...


class Panel:
    """One turn, live.

    `on_command(turn_id, command)` is given every answer and must return at once; what goes wrong with it comes back
    through `refuse`. `user` is who sits here: answers carry it as `by`. `parameters_of` finds the schema by which the
    arguments of a call are changed. `policy` is what may be seen of the turn, and `failing` tells which listeners have
    raised, and how often.
    """

    def __init__(
        self,
        turn_id: str,
        *,
        on_command: OnCommand,
        user: str = "",
        prompt: str = "",
        parameters_of: ParametersOf = not_known,
        policy: DisplayPolicy | None = None,
        failing: Callable[[], Mapping[str, int]] = dict,
        pump: Pump | None = None,
    ) -> None:
        self.turn_id, self.user = turn_id, user
        self._parameters_of = parameters_of
        self._passage, self._failing = Passage(policy), failing
        self._on_command, self._pump = on_command, pump or shared_pump()
        self._screen: Screen | None = None
        self._queue: deque[AgentEvent] = deque()
        self._folding, self._drawing = threading.RLock(), threading.Lock()
        self._view = self._drawn = self._settled = View(turn_id=turn_id, prompt=brief(self._may_see(prompt)))
        self._heard = 0
        self._answering: dict[str, Json] = {}
        self._told: dict[str, Json] = {}
        self._number, self._kept_at = 0, float("-inf")
        self._owes_snapshot = self._wants_all = self._wants_settling = False
        self._closed = False

    @property
    def view(self) -> View:
        """What there is to see, with every event so far."""
        with self._folding:
            while self._queue:
                self._show(self._queue.popleft())
            if (failing := tuple(sorted(self._failing().items()))) != self._view.failing:
                self._view = replace(self._view, failing=failing)
            self._forget_answered()
            return self._view

    def attach(self, screen: Screen) -> None:
        """Appear on this screen, and go on there."""
        with self._drawing, self._folding:
            self._drawn, self._told = self.view, dict(self._answering)
            screen.start(self._drawn, snapshot(self._drawn, self._number, self._told, self._parameters))
            self._screen = screen
        self._changed()

    # -- from the runner -----------------------------------------------------------------------------------------------

    def feed(self, event: AgentEvent) -> None:
        """One more event of this turn; the listener's part, from any thread."""
        self._queue.append(event)
        self._changed()

    def catch_up(self, events: Iterable[AgentEvent]) -> None:
        """Take in what happened before; events that were fed meanwhile come after these."""
        with self._folding:
            for event in events:
                self._show(event)

    def refuse(self, correlation_id: str, error: Exception, press: str = "") -> None:
        """An answer was not taken: say so beside its question, or for CANCEL or INTERRUPT below all of them.

        `press` is the mark of the press that is refused; by default that of the one on its way.
        """
        refused = error if isinstance(error, CommandRefusedError) else None
        with self._folding:
            before = self._answering.pop(correlation_id, {})
            self._answering[correlation_id] = {
                "press": press or before.get("press", ""),
                "phase": "refused",
                "reason": refused.reason.value if refused else type(error).__name__,
                "message": brief(self._may_see(str(error)), 2_000),
                "by": refused.by if refused else "",
                "at": refused.at.isoformat() if refused and refused.at else None,
                "errors": [
                    {"pointer": fault.pointer, "message": brief(self._may_see(fault.message), 500)}
                    for fault in (refused.errors if refused else ())
                ],
            }
            for question_id in list(self._answering)[:-_REFUSALS]:
                del self._answering[question_id]
        self._changed()

    def _show(self, event: AgentEvent) -> None:
        if event.sequence <= self._heard:
            return  # it came both ways
        self._heard = event.sequence
        for shown in self._passage(event):
            try:
                self._view = show(self._view, shown)
            except Exception:  # an event that cannot be drawn must not hide those after it
                _log.exception("event %s (%s) could not be drawn", event.event_id, event.type)

    def _may_see(self, text: str) -> str:
        return self._passage.policy.text(text)

    # -- from a person -------------------------------------------------------------------------------------------------

    def press(self, verb: str, correlation_id: str | None = None, **data: Any) -> None:
        """Press a button of this panel: what a click does, in code.

        `verb` is approve (arguments=), reject (reason=), submit (data=), decline (reason=), supply (data= or error=),
        retry, continue, interrupt (message=) or cancel.

        Raises:
            CommandRefusedError: no question was named, and there is none or more than one.
        """
        view = self.view
        question_id = correlation_id or _ABOUT_NONE.get(verb)
        if question_id is None:
            question_id = only_question(view)
        asked = next((question.asked for question in view.questions if question.id == question_id), None)
        mark = f"code {next(_presses)}"
        self.hear({"kind": "press", "verb": verb, "question": question_id, "asked": asked, "press": mark, **data})

    def hear(self, message: Mapping[str, Any]) -> None:
        """A message from the browser. Returns at once and raises nothing: errors are shown in the panel."""
        try:
            match message.get("kind"):
                case "press":
                    self._pressed(message)
                case "resync":
                    self._wants_all = True
                case "settle":
                    self._wants_settling = True
                case other:
                    _log.warning("a panel was told %.80r, which it does not know", other)
        except Exception as error:  # what a message handler raises is seen by nobody
            self.refuse(str(message.get("question") or ""), error, str(message.get("press") or ""))
        self._changed()

    def _pressed(self, message: Mapping[str, Any]) -> None:
        answer = read(message, self.view, self.user)
        with self._folding:
            # what an interruption leads to is no answer to wait for: that it was heard is all there is to say
            phase = "heard" if answer.question_id == INTERRUPT else "sent"
            self._answering[answer.question_id] = {"press": answer.press, "phase": phase, "verb": answer.verb}
        self._on_command(self.turn_id, answer.command)

    def _forget_answered(self) -> None:
        open_now = {question.id for question in self._view.questions}
        if not (self._view.cancelling or self._view.status.is_terminal):
            open_now.add(CANCEL)
        for question_id, told in list(self._answering.items()):
            if told["phase"] == "sent" and question_id not in open_now:
                del self._answering[question_id]

    # -- to the screen -------------------------------------------------------------------------------------------------

    def beat(self, now: float) -> bool:
        """Draw what is new; True if something is left for a later beat."""
        screen = self._screen
        if screen is None or self._closed:
            return False
        with self._drawing:
            with self._folding:
                old, new = self._drawn, self.view
                answering = dict(self._answering)
            still = new.status.is_blocked or new.status.is_terminal
            if new is not old or answering != self._told or self._wants_all:
                self._number += 1
                whole = self._wants_all
                self._wants_all = False
                if whole:
                    message = snapshot(new, self._number, answering, self._parameters)
                else:
                    message = patch(old, new, self._number, answering, self._parameters)
                screen.draw(new, message)
                self._owes_snapshot |= answering != self._told or is_durable(old, new)
                self._drawn, self._told = new, answering
            if self._owes_snapshot and (still or now - self._kept_at >= KEEP):
                self._kept_at, self._owes_snapshot = now, False
                screen.keep(snapshot(new, self._number, answering, self._parameters))
            if still and (self._wants_settling or _stop(new) != _stop(self._settled)):
                self._settled, self._wants_settling = new, False
                screen.settle(new)
            return self._owes_snapshot or bool(self._queue)

    def flush(self, timeout: float = 2.0) -> bool:
        """Wait until all that happened so far is on the screen; False if it is not after `timeout` seconds."""
        return self._screen is None or self._screen.immediate or self._pump.flush(self, timeout)

    def close(self) -> None:
        """Show no more; what is on the screen stays readable. Answers are still heard."""
        if self._screen is not None and not self._closed:
            with self._drawing:
                self._closed = True
                self._screen.close(self.view)

    def _parameters(self, question: Asked) -> Mapping[str, Any] | None:
        return self._parameters_of(self._view.agent_id, self._view.agent_version, question.tool_name)

    def _changed(self) -> None:
        if self._screen is None or self._closed:
            return
        if self._screen.immediate:
            self.beat(time.monotonic())
        else:
            self._pump.mark(self)


def _stop(view: View) -> tuple[object, ...]:
    """What makes one stable stop differ from another."""
    return view.status, view.questions, view.step_count
