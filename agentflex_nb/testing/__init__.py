"""For tests, ours and yours: clocks and ids that count, the core played by hand, a panel pressed without a browser,
and the promises that every lab keeps.

`agentflex_nb.testing.store_contract` holds the promises of a store as one abstract test case.
"""

from .checking import InvariantError, check
from .playing import Played, play
from .pressing import press
from .time import CountingClock, CountingIds, counting_ids

__all__ = ["CountingClock", "CountingIds", "InvariantError", "Played", "check", "counting_ids", "play", "press"]
