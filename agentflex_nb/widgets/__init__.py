"""The panel: what shows a turn live under its cell, with its questions, and what of it stays in a saved notebook."""

from .items import View
from .kernel import is_notebook
from .listener import NotebookListener
from .panel import Panel
from .static_html import turn_html
from .static_text import turn_text
from .view import show, show_all

__all__ = ["NotebookListener", "Panel", "View", "is_notebook", "show", "show_all", "turn_html", "turn_text"]
