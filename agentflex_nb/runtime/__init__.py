"""Performs what the core asks for, in order, and says what came back: runner, tools, listeners, streams."""
