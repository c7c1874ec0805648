"""The panel under a cell: the one door to IPython, comms and anywidget.

Rule: what is displayed has a display id. While the turn lives the output holds the widget; when the turn has ended it
is replaced by static HTML and text, which a notebook without a kernel still shows.
"""

import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display, publish_display_data

from .items import View
from .static_html import turn_html
from .static_text import turn_text
from .wire import Json

_STATIC = Path(__file__).parent / "static"
_VIEW_MIME = "application/vnd.jupyter.widget-view+json"

Bundle = dict[str, Any]

_names = count(1)


class PanelWidget(anywidget.AnyWidget):
    """The model of one panel in the browser."""

    _esm = _STATIC / "panel.js"
    _css = _STATIC / "panel.css"
    panel = traitlets.Unicode().tag(sync=True)
    """The panel's name; also the display id of its output."""
    kept = traitlets.Dict().tag(sync=True)
    """The newest snapshot: what a page that is loaded anew draws. Only the pump writes it."""

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Ignore it: nothing of a panel can be set from the browser."""


class NotebookScreen:
    """A panel in the output of the cell that runs, wherever in its threads it is made."""

    immediate = False

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        self._name = f"agentflex-{next(_names)}-{os.urandom(6).hex()}"
        self._shown: Bundle = {}
        self._widget = PanelWidget(panel=self._name)
        self._widget.on_msg(lambda _widget, content, _buffers: hear(content))

    def start(self, view: View, whole: Json) -> None:
        """Appear under the cell."""
        self._widget.kept = whole
        self._shown = self._bundle(view)
        display(self._shown, raw=True, display_id=self._name)  # type: ignore[no-untyped-call]

    def draw(self, view: View, message: Json) -> None:
        """Send what changed."""
        self._widget.send(message)

    def keep(self, whole: Json) -> None:
        """Leave the snapshot in the widget's state."""
        self._widget.kept = whole

    def settle(self, view: View) -> None:
        """Bring the saved output up to date; at the end of the turn it needs no widget any more.

        The widget itself lives on until it is closed: a page that was away finds it, and asks for this again.
        """
        ended = view.status.is_terminal
        bundle = _still(view) if ended else self._bundle(view)
        if ended or bundle != self._shown:  # to show the same again would take the focus from who types
            self._update(bundle)

    def close(self, view: View) -> None:
        """Replace the output by what stays, and free the widget on both sides."""
        self._update(_still(view))
        self._widget.close()

    def _bundle(self, view: View) -> Bundle:
        live = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        return {_VIEW_MIME: live, **_still(view)}

    def _update(self, bundle: Bundle) -> None:
        self._shown = bundle
        publish_display_data(bundle, transient={"display_id": self._name}, update=True)  # type: ignore[no-untyped-call]


def _still(view: View) -> Bundle:
    return {"text/html": turn_html(view), "text/plain": turn_text(view)}
