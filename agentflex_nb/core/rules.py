"""Approval policies as data: rules that are read from top to bottom, the first that fits decides.

Rule 1: a rule is plain JSON, so it can be kept in a file, compared, and replayed over calls of the past.
Rule 2: in doubt a call is held back. A condition that compares what cannot be compared fits where the rule asks or
denies, and does not fit where it allows.
Rule 3: every decision names its rule, in its metadata: the log tells which one it was.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Protocol, Self

from .agent import ToolDefinition
from .conditions import checked, holds
from .errors import InvalidAgentError
from .frozen import EMPTY, FrozenDict, freeze_strict, well_formed
from .messages import ToolCall
from .verdicts import Strictness, Verdict

DEFAULT = "default"
"""The name under which a decision is on record that no rule made."""

_DECISIONS = {decision.name: decision for decision in (Strictness.ALLOW, Strictness.ASK, Strictness.DENY)}
_CODES = {Strictness.ALLOW: "", Strictness.ASK: "APPROVAL_REQUIRED", Strictness.DENY: "DENIED"}
_EXPIRES_TO = ("REJECT", "APPROVE")


class Defined(Protocol):
    """What a rule asks of a tool."""

    @property
    def definition(self) -> ToolDefinition: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """If a call of `tool` has arguments such that `when`, then `decision`.

    >>> rule = ApprovalRule(tool="refund", when={"/amount": {">": 50}}, decision="ASK")
    >>> rule.decision.name
    'ASK'
    """

    decision: Strictness
    """ALLOW, ASK or DENY; the word will do."""
    tool: str = "*"
    """The tool's name; * stands for any text, ? for one character."""
    when: FrozenDict = EMPTY
    """JSON pointer into the arguments -> a value, or {operator: operand}; all must hold.

    Operators: == != < <= > >= in, not in, contains, like, not like (* and ? are wildcards, and case does not count),
    exists. An argument that the model left out counts as its default.
    """
    name: str = ""
    """How the record calls it; by default after its place: "rule 1"."""
    code: str = ""
    message: str = ""
    """What a person is asked."""
    reason: str = ""
    """Why; a model whose call is denied is told it."""
    expires_in: float | None = None
    """Seconds after which what is asked resolves by itself, to `when_expired`."""
    when_expired: str = "REJECT"
    metadata: FrozenDict = EMPTY

    def __post_init__(self) -> None:
        what = f"approval rule {self.name!r}" if self.name else "an approval rule"
        object.__setattr__(self, "decision", _decision(self.decision, what))
        for name in ("tool", "name", "code", "message", "reason"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidAgentError(f"{what}: {name}={value!r}", "text", "correct it")
            object.__setattr__(self, name, well_formed(value))
        if not self.tool:
            raise InvalidAgentError(f"{what}: tool=''", 'the name of a tool, or "*"', "name the tool")
        if self.when_expired not in _EXPIRES_TO:
            known = " or ".join(_EXPIRES_TO)
            raise InvalidAgentError(f"{what}: when_expired={self.when_expired!r}", known, "correct it")
        if self.expires_in is not None:
            self._check_expiry(self.expires_in, what)
        object.__setattr__(self, "when", checked(self.when, what))
        object.__setattr__(self, "metadata", freeze_strict(dict(self.metadata), f"{what}: metadata"))

    def _check_expiry(self, seconds: object, what: str) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise InvalidAgentError(f"{what}: expires_in={seconds!r}", "seconds, more than 0", "correct it")
        if self.decision is not Strictness.ASK:
            met = f"{what}: expires_in={seconds!r} with decision {self.decision.name}"
            raise InvalidAgentError(met, "decision ASK", "only what is asked can expire: leave it out")

    def fits(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it decides about a call of this tool with these arguments."""
        if not fnmatchcase(name, self.tool):
            return False
        found = holds(self.when, arguments)
        return self.decision is not Strictness.ALLOW if found is None else found

    def verdict(self, name: str) -> Verdict:
        """Its decision, on record under this name."""
        return Verdict(
            strictness=self.decision,
            code=self.code or _CODES[self.decision],
            message=self.message,
            reason=self.reason,
            metadata=FrozenDict({**self.metadata, "rule": name}),
            expires_in=self.expires_in,
            when_expired=self.when_expired,
        )

    def to_data(self) -> dict[str, Any]:
        """The rule as plain JSON data, without what is as it is by default."""
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "decision"}
        defaults = {field.name: field.default for field in fields(self)}
        kept = {name: _thawed(value) for name, value in told.items() if value != defaults[name]}
        return {**kept, "decision": self.decision.name}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The rule that such data describe.

        Raises:
            InvalidAgentError: a key that is not known, a decision that is missing, or a value that does not fit.
        """
        _check_keys(data, [field.name for field in fields(cls)], "an approval rule")
        due = [field.name for field in fields(cls) if field.default is MISSING]
        if missing := [name for name in due if name not in data]:
            raise InvalidAgentError(f"an approval rule without {', '.join(missing)}", "one with it", "add it")
        return cls(**data)


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """An approval policy: the first rule that fits a call decides, and `default` where none fits.

    Pass it as `Agent(approval_policy=rules)`, and try it on the past with `lab.what_if(rules)`.
    """

    rules: tuple[ApprovalRule, ...] = ()
    """In order; each an `ApprovalRule`, or a mapping that describes one."""
    default: Strictness = Strictness.ALLOW

    def __post_init__(self) -> None:
        given: Iterable[Any] = self.rules
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            raise InvalidAgentError(f"rules={given!r}", "a list of ApprovalRule", "put the rules into a list")
        made = tuple(rule if isinstance(rule, ApprovalRule) else ApprovalRule.from_data(rule) for rule in given)
        object.__setattr__(self, "rules", made)
        object.__setattr__(self, "default", _decision(self.default, "the default of approval rules"))
        names = [self.name_of(place) for place in range(len(made))]
        for name in names:
            if name == DEFAULT or names.count(name) > 1:
                met = f"an approval rule named {name!r}"
                raise InvalidAgentError(met, f"names that differ from one another and from {DEFAULT!r}", "rename it")

    def name_of(self, place: int) -> str:
        """How the record calls the rule at this place, 0 for the first."""
        return self.rules[place].name or f"rule {place + 1}"

    def __call__(self, turn: object, call: ToolCall, tool: Defined) -> Verdict:
        """What an agent asks about a call before it runs."""
        return self.judge(call.name, call.arguments, tool.definition.parameters)

    def judge(self, name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any] = EMPTY) -> Verdict:
        """The decision on a call of the tool `name`; `schema`, that of its arguments, has their defaults."""
        whole = {**_defaults(schema), **arguments}
        for place, rule in enumerate(self.rules):
            if rule.fits(name, whole):
                return rule.verdict(self.name_of(place))
        return Verdict(strictness=self.default, code=_CODES[self.default], metadata=FrozenDict(rule=DEFAULT))

    def to_data(self) -> dict[str, Any]:
        """The rules as plain JSON data: `json.dumps(rules.to_data())` is a file of them."""
        return {"rules": [rule.to_data() for rule in self.rules], "default": self.default.name}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The rules that such data describe: `ApprovalRules.from_data(json.load(file))`.

        Raises:
            InvalidAgentError: something in them is not known, or does not fit.
        """
        _check_keys(data, ["rules", "default"], "approval rules")
        return cls(**data)


def _decision(value: Any, what: str) -> Strictness:
    name = value.name if isinstance(value, Strictness) else value
    if not isinstance(name, str) or name not in _DECISIONS:
        raise InvalidAgentError(f"{what}: decision {name!r}", ", ".join(_DECISIONS), "choose one of them")
    return _DECISIONS[name]


def _check_keys(data: Any, known: list[str], what: str) -> None:
    if not isinstance(data, Mapping):
        raise InvalidAgentError(f"{what}: {data!r}", f"a mapping with {', '.join(known)}", "correct it")
    if unknown := [key for key in data if key not in known]:
        met = f"{what} with {', '.join(map(repr, unknown))}"
        raise InvalidAgentError(met, f"only {', '.join(known)}", "correct the name, or put it into metadata")


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: part["default"] for name, part in properties.items() if isinstance(part, Mapping) and "default" in part
    }


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(item) for key, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, tuple) else value
