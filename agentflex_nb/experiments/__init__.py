"""Agents over many inputs: recorded conversations played again, and what must hold of everything that was kept."""
