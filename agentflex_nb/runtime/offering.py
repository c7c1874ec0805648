"""Which tools the model is offered now, and which tool a name stands for.

Beside the agent's own tools there are those that its middlewares resolve: they are no part of the agent, so each time
they are needed the middlewares are asked again, in another process too.
"""

from collections.abc import Mapping

from ..core.errors import AgentDriftError, InvalidAgentError
from ..core.turn import Turn
from .agent import Agent
from .groups import ToolGroup
from .loop import awaited
from .middleware import AgentMiddleware
from .tools import Tool, as_tool


def hidden(agent: Agent, turn: Turn) -> frozenset[str]:
    """The names of tools whose group has a condition that does not hold.

    Raises:
        TypeError: a condition returned neither True nor False; or whatever it raised.
    """
    return frozenset([tool.name for group in agent.tool_groups if not _is_shown(group, turn) for tool in group.tools])


def resolved(agent: Agent, turn: Turn) -> dict[str, Tool]:
    """The tools that the middlewares offer in this turn, by name.

    Raises:
        InvalidAgentError: a name is claimed twice, or is one of the agent's own tools.
    """
    found: dict[str, Tool] = {}
    for middleware in agent.resolvers:
        for tool in map(as_tool, middleware.tools(turn)):
            if tool.name in found or tool.name in agent.tools:
                raise _claimed_twice(tool.name, middleware)
            found[tool.name] = tool
    return found


def tools_of(agent: Agent, turn: Turn) -> Mapping[str, Tool]:
    """The agent's tools, and those that the waiting calls of this turn were resolved to.

    Raises:
        AgentDriftError: no middleware knows a tool any more that a waiting call needs.
    """
    if not turn.resolved:
        return agent.tools
    return {**agent.tools, **{tool.name: resolve(agent, turn, tool.name) for tool in turn.resolved}}


def resolve(agent: Agent, turn: Turn, name: str) -> Tool:
    """The tool of this name that a middleware has for this turn.

    Raises:
        AgentDriftError: none has it.
        InvalidAgentError: two have it, or one answered with a tool of another name.
    """
    found: Tool | None = None
    for middleware in agent.resolvers:
        if (given := middleware.resolve(turn, name)) is None:
            continue
        tool = as_tool(given)
        if tool.name != name:
            met = f"middleware {type(middleware).__name__}, asked for tool {name!r}, resolved {tool.name!r}"
            raise InvalidAgentError(met, f"a tool named {name!r}, or None", "correct its resolve(turn, name)")
        if found is not None:
            raise _claimed_twice(name, middleware)
        found = tool
    if found is None:
        met = f"has no middleware that resolves the tool {name}, which a waiting call needs"
        raise AgentDriftError(agent.id, agent.version, met, "register it with the middleware that brought the tool")
    return found


def _is_shown(group: ToolGroup, turn: Turn) -> bool:
    if group.condition is None:
        return True
    said = awaited(group.condition(turn))
    if said is True or said is False:
        return bool(said)
    raise TypeError(f"the condition of tool group {group.name} returned {said!r}: expected True or False")


def _claimed_twice(name: str, middleware: AgentMiddleware) -> InvalidAgentError:
    met = f"middleware {type(middleware).__name__} offers a tool named {name!r}, which another one is called already"
    return InvalidAgentError(met, "names that differ", "rename one of them")
