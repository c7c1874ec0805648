"""Pressing a panel's buttons without a browser."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..widgets.panel import Panel


def press(panel: "Panel", verb: str, correlation_id: str | None = None, **data: Any) -> None:
    """Press a button: the way a click takes, from the message on.

    `verb` is approve (arguments=), reject (reason=), submit (data=), decline (reason=), supply (data= or error=),
    retry, continue, interrupt (message=) or cancel. Returns at once, as a click does: `turn.wait()` for what follows.

    Raises:
        CommandRefusedError: no question was named, and there is none or more than one.
    """
    panel.press(verb, correlation_id, **data)
