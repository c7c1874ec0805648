"""Where agents are found by id and version: a turn goes on with the very version that it began with, or with none."""

import threading
from collections.abc import Set
from typing import Protocol

from ..core.drift import AgentDifference, AgentRecord, differences
from ..core.errors import AgentDriftError, AgentVersionNotFoundError
from ..core.turn import PendingCall, Turn
from ..core.verdicts import Strictness
from .agent import Agent
from .tools import InvalidArgumentsError


class Loader(Protocol):
    """What a runner asks for agents. `AgentLoader` holds those of this process; another may make them when asked."""

    def register(self, agent: Agent) -> Agent:
        """Make it known, and the active one of its id."""
        ...

    def load(self, agent_id: str, agent_version: str) -> Agent:
        """Exactly this version, or AgentVersionNotFoundError."""
        ...

    def load_active(self, agent_id: str) -> Agent:
        """The version that new turns use, or AgentVersionNotFoundError."""
        ...


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
                raise drifted(known.record, agent.record, "is registered with another definition")
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


def load(loader: Loader, turn: Turn) -> Agent:
    """The very agent with which this turn goes on.

    Raises:
        AgentVersionNotFoundError: the loader does not have it.
        AgentDriftError: the loader returned another one, or it has changed since the turn began.
    """
    id, version = turn.identity.agent_id, turn.identity.agent_version
    agent = _returned(loader.load(id, version), id, version)
    if turn.identity.definition_hash == agent.definition_hash:
        return agent
    found = misfits(agent, turn) or _changes(agent, turn)
    if found:
        mend = "register it as it was, give the new one a new version, or restore the turn with migrate_to="
        raise AgentDriftError(id, version, f"does not fit turn {turn.id}", mend, found)
    return agent


def load_active(loader: Loader, agent_id: str) -> Agent:
    """The agent that a new turn uses.

    Raises:
        AgentVersionNotFoundError: the loader has none of this id.
        AgentDriftError: the loader returned another one.
    """
    agent = loader.load_active(agent_id)
    return _returned(agent, agent_id, getattr(agent, "version", "active"))


def misfits(agent: Agent, turn: Turn) -> tuple[AgentDifference, ...]:
    """What the calls that wait in this turn need, and the agent does not have."""
    judged = [pending for pending in turn.pending if pending.verdict is not None]  # others the agent judges itself
    resolved = {tool.name for tool in turn.resolved}
    found = [_misfit(agent, pending, resolved) for pending in judged]
    return tuple([misfit for misfit in found if misfit is not None])


def drifted(known: AgentRecord, met: AgentRecord, what: str) -> AgentDriftError:
    """The error that tells in what a version is not what it was."""
    definition = met.definition
    found = differences(known, met)
    return AgentDriftError(definition.id, definition.version, what, "give the new one a new version", found)


def _returned(agent: Agent, agent_id: str, agent_version: str) -> Agent:
    if not isinstance(agent, Agent):
        met = f"was asked for, and the loader returned {agent!r}"
        raise AgentDriftError(
            agent_id, agent_version, met, "let it return an Agent, or raise AgentVersionNotFoundError"
        )
    if (agent.id, agent.version) != (agent_id, agent_version):
        met = f"was asked for, and the loader returned {agent.id!r} version {agent.version!r}"
        raise AgentDriftError(agent_id, agent_version, met, "let it return exactly what it is asked for, or raise")
    return agent


def _misfit(agent: Agent, pending: PendingCall, resolved: Set[str]) -> AgentDifference | None:
    call = pending.runs
    part = f"tool {call.name}"
    if call.name in resolved:  # a middleware brings it again
        return None
    if (tool := agent.tools.get(call.name)) is None:
        return AgentDifference(part=part, why=f"it lacks {call.name}, which call {call.id} waits for")
    if _may_run(pending):
        try:
            tool.check(call.arguments)
        except InvalidArgumentsError as error:
            schema, why = tool.definition.parameters, f"the arguments of call {call.id} do not fit: {error}"
            return AgentDifference(part=part, pointer="/parameters", known=call.arguments, met=schema, why=why)
    return None


def _may_run(pending: PendingCall) -> bool:
    open_to = (Strictness.ALLOW, Strictness.ASK)
    return pending.supplied is None and pending.verdict is not None and pending.verdict.strictness in open_to


def _changes(agent: Agent, turn: Turn) -> tuple[AgentDifference, ...]:
    """What a turn can tell of an agent that is not the one it began with; a lab can tell more."""
    identity, instructions = turn.identity, agent.definition.instructions
    if not identity.definition_hash:  # made by a version that kept none
        return ()
    if identity.instructions != instructions:
        return (AgentDifference(part="instructions", known=identity.instructions, met=instructions),)
    why = f"its hash is {agent.definition_hash}, and was {identity.definition_hash}; a lab tells more"
    return (AgentDifference(part="definition", known=identity.definition_hash, met=agent.definition_hash, why=why),)
