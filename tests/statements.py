"""What the runtime promises, a sentence each, and the tests that name it.

    python tests/statements.py      # writes docs/contract.md

A test names a statement in its docstring: \"\"\"A8, P17: ...\"\"\" or \"\"\"R1 to R3\"\"\". What a store promises
stands in tests of the package, which each store of tests/store inherits.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
STORES = TESTS.parent / "agentflex_nb" / "testing" / "store_contract.py"
PAGE = TESTS.parent / "docs" / "contract.md"

GROUPS = {
    "I": "Always, after everything",
    "E": "Events",
    "A": "Approvals",
    "F": "Forms",
    "P": "Snapshots and versions",
    "R": "Retries",
    "B": "Budgets and limits",
    "O": "Work outside, and models that fail",
    "X": "Cancelling, interrupting, closing",
    "T": "Tools and middlewares",
    "V": "Inputs and conversations",
    "Y": "Around the runtime",
    "Z": "Faults that were seen elsewhere, and do not happen here",
}

STATEMENTS = {
    "I1": "Each call in a history has one result, right after its message and in order, or waits.",
    "I2": "A call takes effect at most once, or once a key where its tool says that this is safe.",
    "I3": "Whatever `run` or `resume` does or raises, the turn then waits or has ended; it never stays RUNNING.",
    "I4": "What is stored is what was returned.",
    "I5": "The conversation goes on with the next message.",
    "I6": "A turn ends once, and takes no step afterwards.",
    "I7": "The log alone tells the status; only a turn that runs asks for work.",
    "E1": "A plain answer without streaming is told in eight events, in this order.",
    "E2": "A tool's start and end are told before the model is asked again.",
    "E3": "Numbers begin at 1 for each turn and grow by one; only a crash leaves a gap.",
    "E4": "No number is used twice, whatever dies and whoever goes on; no acknowledged decision is ever lost.",
    "E5": "Listeners hear a turn's events in order, whichever threads tell them, and no lock is held meanwhile.",
    "E6": "Steps begin and end in pairs, under numbers that never come twice.",
    "E7": "A wait is told after the step that led to it has ended.",
    "E8": "One final event comes last; what is said later is dropped.",
    "E9": "A listener that raises, whatever it raises, changes nothing and stops nobody.",
    "E10": "A listener that was removed hears nothing more.",
    "E11": "What an event carries is a copy that cannot change; circles are cut.",
    "E12": "Each event says whose it is: turn, root, parent, agent, version.",
    "E13": "The start of a model call says which round it is and how many are left.",
    "E14": "Text that was shown before a stream broke stays, under its attempt, and the failure is told.",
    "E15": "Text that comes within a beat is one event; any other event lets it go; put together it is exact.",
    "E16": "Reasoning and pieces of calls are told apart from text.",
    "E17": "A tool says how far it is without changing its result.",
    "E18": "A wait carries all that is needed to answer it, and what failed if a model did.",
    "E19": "A tool that asks for a form has neither completed nor failed until it runs again.",
    "E20": "Asked, answered, started, completed: in this order, over any number of runners.",
    "E21": "A snapshot that is told is saved; that does not mean finished.",
    "E22": "That somebody asked to cancel is told before the end.",
    "E23": "Listeners run where the events are told, or on an executor that the runner never shuts down.",
    "E24": "Work outside is asked to stop only after the state that says so is saved, and before the end is told.",
    "E26": "A call that is refused, by a person or a policy, is told.",
    "E27": "What a commit announces is told only if the commit has won.",
    "E28": "A tool call is told with its commits in their places: the start is on disk before the tool runs.",
    "A1": "A guarded call does not run; what it is stands in the question.",
    "A2": "Ids of calls are the runtime's; the question about a call has its id, the provider's is kept beside it.",
    "A3": "Approved, it runs once, without asking the model first, and the model hears the result.",
    "A4": "Rejected, it does not run; the model is told code and reason.",
    "A5": "A policy's own no is told to the model without asking anybody.",
    "A6": "The order of the calls is kept over the wait.",
    "A7": "An answer to a question that is not there changes nothing.",
    "A8": "A second answer is refused, with who gave the first one and when.",
    "A9": "Of two answers at once one counts, and the effect happens once.",
    "A10": "Another runner on the same store can answer.",
    "A11": "An answer can be recorded without running anything.",
    "A12": "Moving on a turn that waits returns it as it is.",
    "A13": "Who answered, why and with what is kept for good.",
    "A14": "A provider's id that comes again is another call, and is asked about again.",
    "A15": "Changed arguments must fit the tool, and are judged again.",
    "A16": "A question that nobody answers in time resolves as it said, once.",
    "A17": "After the end nothing can be answered any more.",
    "A18": "An approval policy that raises ends the turn; nothing hangs.",
    "A19": "A wait holds its questions in order; answers may come one by one; of two judgements the stricter wins.",
    "F1": "A model chooses among the agent's forms only, and the question keeps a copy of the schema.",
    "F2": "What was filled in is the call's one result, and the model goes on with it.",
    "F3": "A tool that asked for a form runs again from its start with the data, under the same id, counted once.",
    "F4": "A tool that asks again for what it was given breaks the protocol.",
    "F5": "A plain question is answered with text, and with nothing else.",
    "F6": "A form is submitted once, and who did it is kept; none of that reaches the model.",
    "F7": "A form needs a key, a description and a schema, and cannot change.",
    "F8": "Data is held against the schema as it was when the question was asked; faults say where.",
    "F9": "Nothing filled in is data where the schema allows it; it is not the same as no form.",
    "F10": "A form can be declined, and the model is told.",
    "P1": "The first save makes version 0, and each further one the next.",
    "P2": "Who saves what is out of date is refused, and the newer state stands.",
    "P3": "A snapshot does not change with what it was made of.",
    "P4": "Calls are saved before the first one runs, and a restore runs them without asking the model.",
    "P5": "A tool that had finished before a crash is not run again.",
    "P6": "What was used up is part of the state.",
    "P7": "Each kind of wait survives saving.",
    "P8": "A turn's own limits, streaming and metadata survive.",
    "P9": "Metadata that is no JSON is refused when it is given, however deep.",
    "P10": "A message's class survives if it was registered; nothing else is ever rebuilt.",
    "P11": "A turn goes on with exactly the version it was made with.",
    "P12": "An agent that is missing, another one, or lacks what a call needs, is a clear error.",
    "P13": "A wish to cancel is raised once and never falls.",
    "P14": "A turn that has ended cannot be taken up or answered.",
    "P15": "After a conflict the handle shows what the store has.",
    "P16": "What a turn writes grows with its steps, not with their square.",
    "P17": "A call that had started when its process died is asked about, unless its tool is safe to repeat.",
    "P18": "A commit that fails stops everything and is raised.",
    "P19": "The state holds data only; models, tools and code come back with the agent.",
    "P20": "Saving tells the version; copying saves nothing.",
    "R1": "What may succeed later is scheduled, and the turn goes on where it stood.",
    "R2": "Waits grow by a factor up to a longest one; policies that make no sense are refused.",
    "R3": "After the last attempt the turn fails.",
    "R4": "Wrong arguments, unknown tools, spent quotas, programming errors and interruptions are not tried again.",
    "R5": "A retry before its time is refused; going on at once is another command.",
    "R6": "A spent budget ends a scheduled retry before anything happens twice.",
    "R7": "A model that says nothing at all fails the turn in order.",
    "R8": "Attempts count for one operation, and begin anew after a success.",
    "R9": "Jitter follows from a seed.",
    "R10": "After the last attempt a person may be asked instead.",
    "B1": "0 is no limit; less is refused.",
    "B2": "A limit that is passed ends the turn with its name, what was used and what was allowed.",
    "B3": "When a reply passes the limit none of its calls run, and each is answered.",
    "B4": "The call beyond the limit does not run; attempts of one call count once.",
    "B5": "Rounds with the model and steps have limits and ends of their own.",
    "B6": "A turn's own policy replaces the agent's, and is saved.",
    "B8": "Waiting for a person or for a retry is not work.",
    "B9": "What failed and cancelled attempts used counts.",
    "O1": "A tool that is carried out elsewhere runs nothing here; the turn waits for it.",
    "O2": "Its result or error ends the wait; one under a wrong or old id changes nothing.",
    "O3": "Its key is the same over attempts, its id is not.",
    "O4": "A model that gave up may wait for a person, who retries or cancels.",
    "O5": "A wait for the outside can be cancelled or interrupted, and the outside is told.",
    "X1": "Cancelled before the first model call, there is none.",
    "X2": "Cancelled during a tool, its result is kept and the model is not asked again.",
    "X3": "However a turn ends early, its calls get results that say why and an assistant has the last word.",
    "X4": "What the runtime writes then can be worded by the policy.",
    "X5": "A message of the user closes what is open and is gone on with.",
    "X6": "Each end leaves each call answered.",
    "T1": "The first middleware is the outermost.",
    "T2": "A middleware may change what goes in and what comes out, or do without.",
    "T3": "It may clean up after a failure, which reaches the caller after the turn has ended in order.",
    "T4": "An error of a middleware around a tool is told to the model where the policy says so.",
    "T5": "Middlewares may bring tools; two that claim one name are refused.",
    "T6": "Results stand in the model's order.",
    "T7": "A tool that is not there fails the turn, or is told to the model.",
    "T8": "However an error is worded, it stays under its call's id.",
    "T9": "Arguments that do not fit are told to the model.",
    "T10": "Names of tools are used once, and reserved ones not at all.",
    "T11": "A group shows its tools while its condition holds, and runs them also later.",
    "T12": "A tool knows the call that it serves, and its key; outside a tool there is nothing to know.",
    "T13": "A tool sees that somebody elsewhere wants to cancel.",
    "T14": "A result becomes well-formed text once, and is never shortened behind the tool's back.",
    "T15": "Interceptors stand between the middlewares and the function, in their order.",
    "T16": "Asking a user for a form bypasses approval and tools.",
    "T17": "A turn may have limits of its own, never tools or approvals of its own.",
    "V1": "What goes in is copied.",
    "V3": "One turn of a conversation at a time; a second is told which one it is.",
    "V5": "A conversation keeps what was said, once.",
    "Y1": "A turn that runs can be asked to wait for a plain answer.",
    "Y2": "Agents can be assembled from data, or one error says all that is missing.",
    "Y3": "One agent serves many turns at a time; listeners may come and go meanwhile.",
    "Y5": "Logging, metrics and OpenTelemetry are ready.",
    "Y6": "What leaves may be redacted, bounded, sampled or withheld.",
    "Y7": "User code never runs inside the core; the stop button waits while something is saved or told.",
    "Y8": "A blocking call on the runtime's own loop is refused, and told what to use.",
    "Z1": "A budget that ends with a reply leaves that reply's calls open.",
    "Z2": "A cancelled turn stays until its retry would have been due.",
    "Z3": "A yes to one call lets another through to which the provider gave the same id.",
    "Z4": "A tool that asks whether to stop never hears of it.",
    "Z7": "What a turn asked can be answered after its end.",
    "Z8": "A stream that takes too long fails the turn, or talks on after its end.",
    "Z9": "A save takes a wish to cancel away.",
    "Z10": "Failures that were got over add up.",
    "Z11": "What was used before a cancellation is forgotten.",
    "Z13": "A listener's error, or data in a circle, ends the run.",
    "Z14": "After a middleware's error the log stops short of the state.",
    "Z17": "An empty form is refused, or one that does not fit is taken.",
    "Z19": "A policy's error leaves the turn running for ever.",
    "Z20": "Events told by two threads are heard out of order.",
    "Z21": "Two steps have one number.",
    "Z22": "A slow listener keeps others from the turn.",
    "Z23": "A policy's no stands nowhere in the log.",
    "Z24": "A tool that the model made up ends a turn whose errors are for the model.",
    "Z25": "Attempts of one call use up the allowance for several.",
    "Z27": "A programming error is tried again.",
    "Z28": "A model call that began never ends in the log.",
}

WAITING = {
    "C1 to C16": "plans and child agents, which do not exist yet; with them the rest of Y1, R8, T10 and T16",
    "M1 to M11": "windows, compaction and compressors",
    "V2, V4, V6 to V8": "multimodal models, memory providers and windows",
    "W1 to W13": "leases and workers",
    "E25": "compression events, with compression",
    "B7": "budgets of children",
    "Y4": "the queue of messages for a busy conversation",
    "Z5": "workers: one turn that cannot be loaded keeps the others from running",
    "Z6, Z12, Z15, Z18, Z26, Z29": "plans and child agents: their counts, results, failures and cancellation",
    "Z16": "compressors: a summary of one conversation in another",
}

_NAMED = re.compile(r"\b([A-Z])(\d{1,2})\b(?: to \1(\d{1,2})\b)?")


@cache
def named() -> dict[str, list[str]]:
    """What the tests name in their docstrings, statements and other ids -> the tests that do."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in (*sorted(TESTS.rglob("test_*.py")), STORES):
        name = path.relative_to(TESTS if path is not STORES else TESTS.parent).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for id in ids(ast.get_docstring(node) or ""):
                    found[id].append(f"{name}::{node.name}")
    return dict(found)


def page() -> str:
    """docs/contract.md."""
    tests = named()
    lines = [
        "# The contract",
        "",
        "What the runtime promises, and the tests that hold it to that. This page is written by",
        "`python tests/statements.py`; a test sees to it that every statement has a test, and that the page is true.",
    ]
    for letter, title in GROUPS.items():
        lines += ["", f"## {title}", "", "| | statement | tests |", "|---|---|---|"]
        for id, text in STATEMENTS.items():
            if id[0] == letter:
                listed = "<br>".join(f"`{test}`" for test in dict.fromkeys(tests.get(id, ())))
                lines.append(f"| {id} | {text} | {listed} |")
    lines += ["", "## What waits", "", "| | for |", "|---|---|"]
    lines += [f"| {ids} | {why} |" for ids, why in WAITING.items()]
    return "\n".join(lines) + "\n"


def ids(text: str) -> list[str]:
    """The ids in a text: R1, and each of R1 to R3."""
    return [
        f"{letter}{number}"
        for letter, first, last in _NAMED.findall(text)
        for number in range(int(first), int(last or first) + 1)
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
