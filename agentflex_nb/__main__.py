"""The command line: `agentflex replay FILE --lab LAB`, or `python -m agentflex_nb replay ...`.

It ends with 0 when all was done, 1 when something stood in the way (said in one line on stderr), 2 when the command
itself was not understood, 130 when it was stopped.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from .core.errors import AgentFlexError

if TYPE_CHECKING:
    from .experiments.replay import Replay
    from .store.sqlite_file import Durability


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command; the exit code."""
    command = _parser().parse_args(argv)
    try:
        replay(command.file, command.lab, command.limit, command.durability, command.by)
    except AgentFlexError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename or command.file}: {error.strerror or error}")
    except KeyboardInterrupt:
        _failed(f"stopped; what was played until now stands in {command.lab}")
        return 130
    return 0


def replay(file: Path, lab_path: Path, limit: int | None, durability: "Durability", by: Sequence[str]) -> None:
    """Play a file of recorded conversations into a lab, and print what came of it.

    Raises:
        AgentFlexError: the file or the lab cannot be used; says why.
        OSError: the file cannot be read.
    """
    from .experiments.checks import broken
    from .experiments.recordings import read_recordings
    from .experiments.replay import play
    from .lab import Lab

    recordings = list(islice(read_recordings(file, by=by), limit))
    if not recordings:
        raise AgentFlexError(f"{file} holds no conversation")
    with Lab(lab_path, durability=durability, display=False) as lab:
        played = play(recordings, lab.runner)
        faults = broken(lab.sql)
    print(_summary(file, lab_path, played))
    if faults:
        raise AgentFlexError(f"{lab_path} breaks what it promises: {', '.join(faults)}. Please report this.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agentflex", description="A research toolkit for LLM agents in notebooks.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    verb = commands.add_parser(
        "replay",
        help="play recorded conversations into a lab",
        description="Play recorded conversations of any agent into a lab: OpenAI chat messages as JSON lines or "
        "parquet. The model says what it said and the tools answer as they did; no key and no network is needed.",
    )
    verb.add_argument("file", type=Path, help="JSON lines (a conversation a line), or .parquet")
    verb.add_argument(
        "--lab", type=Path, required=True, metavar="LAB.duckdb", help="the lab; made when it is not there"
    )
    verb.add_argument("--limit", type=_positive, metavar="N", help="play the first N conversations only")
    verb.add_argument(
        "--durability",
        choices=("process", "power"),
        default="process",
        help="what a commit survives: a killed process (default, faster), or a loss of power",
    )
    verb.add_argument(
        "--by",
        type=_names,
        default=(),
        metavar="COLUMN,...",
        help="columns that tell conversations of message rows apart",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _summary(file: Path, lab: Path, played: "Replay") -> str:
    turns = sum(played.turns.values())
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(played.turns.items()))
    stops = "; FAILED are those whose recording stops before the answer" if "FAILED" in played.turns else ""
    changed = played.messages - played.unchanged
    speed = f"{turns / played.seconds:,.0f} turns a second"
    return f"""\
{file.name}: {played.conversations:,} conversations in {played.seconds:.2f} s, {speed}
{turns:>9,} turns: {statuses}{stops}
{played.tool_calls:>9,} tool calls
{played.messages:>9,} recorded messages, {f"{changed:,} of them changed" if changed else "all unchanged"}
{played.unanswered:>9,} messages of users that nobody answered; they have no turn

{lab} has {lab.stat().st_size / 1e6:.1f} MB. Ask it, in a notebook or in Python:

    import agentflex_nb as af
    lab = af.Lab({str(lab)!r})
    lab.turns()
    lab.sql("select tool_name, count(*) as calls from tool_calls group by all order by calls desc")"""


def _failed(why: str) -> int:
    print(f"agentflex: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
