"""The listener of a notebook: brings every event to the panel of its turn.

Rule 1: an event costs the runner an append, nothing more.
Rule 2: running a cell again leaves no second panel of its turns; live widgets are bounded.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ..core.events import AgentEvent
from ..listeners.policy import DisplayPolicy
from .items import View
from .kernel import after_each_cell, is_notebook, running_cell
from .panel import OnCommand, Panel, ParametersOf, Screen, not_known
from .screens import TextScreen

__all__ = ["NotebookListener", "is_notebook"]

LIVE = 40  # panels of a listener that keep a widget; the oldest beyond are closed, finished ones first


@dataclass(frozen=True, slots=True)
class _Opened:
    panel: Panel
    cell: str
    run: str


class NotebookListener:
    """A callable for `runner.add_event_listener`. `on_command` is given the answers of all its panels.

    `parameters_of` finds the schema by which the arguments of a call are changed. `failing` tells which listeners have
    raised; add this one `last`, and it knows of those that raised just now.
    """

    def __init__(
        self,
        on_command: OnCommand,
        *,
        user: str = "",
        parameters_of: ParametersOf = not_known,
        policy: DisplayPolicy | None = None,
        failing: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.policy = policy or DisplayPolicy()
        """What may be seen in panels that are opened from now on; its viewer is the user, unless it names one."""
        self._on_command, self._user, self._parameters_of = on_command, user, parameters_of
        self._failing = failing
        self._lock = threading.Lock()
        self._opened: dict[str, _Opened] = {}

    def __call__(self, event: AgentEvent) -> None:
        """Bring the event to its panel; without one nothing happens."""
        opened = self._opened.get(event.turn_id)
        if opened is not None:
            opened.panel.feed(event)

    def open_panel(self, turn_id: str, events: Iterable[AgentEvent] = (), *, prompt: str = "") -> Panel | None:
        """Show a turn under the cell that runs; where no notebook is, as printed text. None: it may not be seen here.

        `events` is what happened so far. It is read after the panel has begun to listen: a generator that asks the
        store misses nothing, and an event that comes both ways is shown once.
        """
        policy = replace(self.policy, viewer=self.policy.viewer or self._user)
        if not policy.shows(turn_id):
            return None
        panel = Panel(
            turn_id,
            on_command=self._on_command,
            user=self._user,
            prompt=prompt,
            parameters_of=self._parameters_of,
            policy=policy,
            failing=self._failing,
        )
        live = is_notebook()
        cell, run = running_cell() if live else ("", "")
        with self._lock:
            stale = self._replaced_by(turn_id, cell, run)
            self._opened[turn_id] = _Opened(panel, cell, run)
            stale += self._beyond_bound()
        for old in stale:
            old.close()
        panel.catch_up(events)
        panel.attach(_notebook_screen(panel) if live else TextScreen())
        if live:
            after_each_cell(self._flush_stopped)
        return panel

    def panel(self, turn_id: str) -> Panel | None:
        """The open panel of a turn."""
        opened = self._opened.get(turn_id)
        return opened.panel if opened else None

    def refuse(self, turn_id: str, correlation_id: str, error: Exception) -> None:
        """Tell the turn's panel that an answer was not taken; CANCEL or INTERRUPT is what answers no question."""
        if panel := self.panel(turn_id):
            panel.refuse(correlation_id, error)

    def flush(self, turn_id: str, timeout: float = 2.0) -> bool:
        """Wait until the turn's panel shows all that happened so far; False if it does not after `timeout` seconds."""
        panel = self.panel(turn_id)
        return panel is None or panel.flush(timeout)

    def close(self) -> None:
        """Close every panel; what they showed stays readable."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for each in opened:
            each.panel.close()

    def _flush_stopped(self, _cell: object) -> None:
        """A runner of notebooks without a person (nbclient) keeps only what arrives before the cell has ended."""
        for opened in list(self._opened.values()):
            if _is_still(opened.panel.view):
                opened.panel.flush(1.0)

    def _replaced_by(self, turn_id: str, cell: str, run: str) -> list[Panel]:
        """Panels of the same turn, and of an earlier run of the same cell, whose output is gone."""
        gone = [
            known
            for known, opened in self._opened.items()
            if known == turn_id or (cell and opened.cell == cell and opened.run != run)
        ]
        return [self._opened.pop(known).panel for known in gone]

    def _beyond_bound(self) -> list[Panel]:
        surplus = len(self._opened) - LIVE
        finished = [known for known, opened in self._opened.items() if opened.panel.view.status.is_terminal]
        waiting = [known for known in self._opened if known not in finished]
        return [self._opened.pop(known).panel for known in [*finished, *waiting][: max(0, surplus)]]


def _is_still(view: View) -> bool:
    return view.status.is_blocked or view.status.is_terminal


def _notebook_screen(panel: Panel) -> Screen:
    from .notebook import NotebookScreen  # loads anywidget, which only a kernel needs

    return NotebookScreen(panel.hear)
