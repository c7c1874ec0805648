"""A panel where there is no notebook: what happens is printed, each thing once it is complete."""

from typing import TextIO

from .items import Call, CallState, Item, Prose, View
from .static_text import closing, item_lines, opening
from .wire import Json

_ENDED = frozenset({CallState.DONE, CallState.FAILED, CallState.DENIED, CallState.UNFINISHED})


class TextScreen:
    """Prints to `out`, or to what sys.stdout is at the time; a waiting turn prints the code that answers it."""

    immediate = True

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._printed: set[int] = set()

    def start(self, view: View, whole: Json) -> None:
        """Print what there is so far."""
        if view.items:
            self._print(opening(view))
            self._print_complete(view)

    def draw(self, view: View, message: Json) -> None:
        """Print what has become complete."""
        if not self._printed and view.items:
            self._print(opening(view))
        self._print_complete(view)

    def keep(self, whole: Json) -> None:
        """Nothing: what is printed stays."""

    def settle(self, view: View) -> None:
        """Print what is asked, how to answer it in code, and where the turn stands."""
        self._print(closing(view))

    def close(self, view: View) -> None:
        """Nothing: what is printed stays."""

    def _print_complete(self, view: View) -> None:
        for item in view.items:
            if item.key not in self._printed and _is_complete(item):
                self._printed.add(item.key)
                self._print(item_lines(view, item))

    def _print(self, lines: list[str]) -> None:
        print("\n".join(lines), file=self._out, flush=True)


def _is_complete(item: Item) -> bool:
    match item:
        case Prose():
            return item.ended is not None
        case Call():
            return item.state in _ENDED
        case _:
            return True
