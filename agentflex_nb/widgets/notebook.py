"""The panel under a cell: the one door to IPython, comms and anywidget.

Rule: a panel has two outputs, each with a display id. The first holds the widget and is emptied when the turn has
ended. The second is plain HTML and text, renewed whenever the turn stops, and hidden by the widget as long as that
lives: JupyterLab shows "model not found" for a widget without its kernel, and never what stands beside it.
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
    """A panel in the outputs of the cell that runs, wherever in its threads it is made."""

    immediate = False

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        self._name = f"agentflex-{next(_names)}-{os.urandom(6).hex()}"
        self._widget = PanelWidget(panel=self._name)
        self._widget.on_msg(lambda _widget, content, _buffers: hear(content))

    def start(self, view: View, whole: Json) -> None:
        """Appear under the cell."""
        self._widget.kept = whole
        live = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        display({_VIEW_MIME: live, "text/plain": ""}, raw=True, display_id=self._name)  # type: ignore[no-untyped-call]
        display(self._still(view), raw=True, display_id=f"{self._name}-still")  # type: ignore[no-untyped-call]

    def draw(self, view: View, message: Json) -> None:
        """Send what changed."""
        self._widget.send(message)

    def keep(self, whole: Json) -> None:
        """Leave the snapshot in the widget's state."""
        self._widget.kept = whole

    def settle(self, view: View) -> None:
        """Bring the saved output up to date; at the end of the turn it stands alone.

        The widget itself lives on until it is closed: a page that was away finds it, and asks for this again.
        """
        _update(f"{self._name}-still", self._still(view))
        if view.status.is_terminal:
            _update(self._name, {})

    def close(self, view: View) -> None:
        """Leave what stays, and free the widget on both sides."""
        _update(f"{self._name}-still", self._still(view))
        _update(self._name, {})
        self._widget.close()

    def _still(self, view: View) -> Bundle:
        html = f'<div class="afx-of-{self._name}">{turn_html(view)}</div>'
        return {"text/html": html, "text/plain": turn_text(view)}


def _update(display_id: str, bundle: Bundle) -> None:
    publish_display_data(bundle, transient={"display_id": display_id}, update=True)  # type: ignore[no-untyped-call]
