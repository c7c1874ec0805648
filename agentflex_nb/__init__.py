"""agentflex_nb."""
