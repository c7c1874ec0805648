"""Where agents are kept by id and version: a turn goes on with the very version that it began with."""

import threading

from ..core.errors import AgentDriftError, AgentVersionNotFoundError
from ..core.turn import Turn
from .agent import Agent


class AgentLoader:
    """Agents by id and version, and for each id the active one, which new turns use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agents: dict[tuple[str, str], Agent] = {}
        self._active: dict[str, Agent] = {}

    def register(self, agent: Agent) -> Agent:
        """Keep the agent and make it the active one of its id. A cell run again with the same agent changes nothing.

        Raises:
            AgentDriftError: this id and version is known with another definition.
        """
        with self._lock:
            known = self._agents.setdefault((agent.id, agent.version), agent)
            if known is not agent and known.fingerprint != agent.fingerprint:
                difference = "the same version is registered with another definition; give the new one a new version"
                raise AgentDriftError(agent.id, agent.version, difference)
            self._agents[agent.id, agent.version] = self._active[agent.id] = agent
            return agent

    def load(self, agent_id: str, agent_version: str) -> Agent:
        """Exactly this version.

        Raises:
            AgentVersionNotFoundError: it is not registered; never quietly another one.
        """
        with self._lock:
            agent = self._agents.get((agent_id, agent_version))
            known = [version for id, version in self._agents if id == agent_id]
        if agent is None:
            raise AgentVersionNotFoundError(agent_id, agent_version, known)
        return agent

    def load_active(self, agent_id: str) -> Agent:
        """The one that new turns of this agent use.

        Raises:
            AgentVersionNotFoundError: none is registered.
        """
        with self._lock:
            agent = self._active.get(agent_id)
        if agent is None:
            raise AgentVersionNotFoundError(agent_id, "active", [])
        return agent


def fitting(agent: Agent, turn: Turn) -> Agent:
    """The agent, if it can go on with this turn.

    Raises:
        AgentDriftError: it is another agent, another version, or lacks a tool that a waiting call needs.
    """
    identity = turn.identity
    if (agent.id, agent.version) != (identity.agent_id, identity.agent_version):
        difference = f"the loader returned {agent.id!r} version {agent.version!r}"
        raise AgentDriftError(identity.agent_id, identity.agent_version, difference)
    offered = {spec.name for spec in agent.definition.offered} | {tool.name for tool in turn.resolved}
    judged = [pending.call.name for pending in turn.pending if pending.verdict is not None]
    if missing := sorted(set(judged) - offered):
        difference = f"it lacks {', '.join(missing)}, which a waiting call needs; register the agent with it"
        raise AgentDriftError(identity.agent_id, identity.agent_version, difference)
    return agent
