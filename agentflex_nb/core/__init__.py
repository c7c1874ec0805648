"""The pure core: what a turn is, what may happen to it, and `advance`, the one function that changes it.

Nothing in this room knows a clock, a thread, a file, a log or a library beyond the standard one.
"""
