"""What went wrong for others, what happens here instead, and the tests that show it: python tests/cases.py.

It writes docs/cases.md. A test names a case in its docstring, or for all of its file in the file's.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "cases.md"

# case -> (what goes wrong elsewhere, what happens here)
CASES = {
    "K01": (
        "A blocking call in a cell meets the kernel's event loop.",
        "It runs in the caller's thread; no loop is patched.",
    ),
    "K02": (
        "A cell waits for a click that cannot come while it waits.",
        "The cell ends with a question; the click moves the turn on.",
    ),
    "K03": ("A cell run again doubles listeners, agents and panels.", "What is the same is registered once."),
    "K04": ("Two processes open one lab.", "The second is told who holds it, since when."),
    "K05": (
        "The stop button leaves a turn running, or kills the kernel.",
        "The turn is closed and saved, then the stop is felt.",
    ),
    "K06": (
        "A model invents a tool, or two tools share a name.",
        "The model is told, or the turn fails; doubles are refused.",
    ),
    "K07": (
        "Arguments are empty, cut off, or no JSON.",
        "They are kept as written and told to the model; nothing runs.",
    ),
    "K08": ("A tool returns something that is no JSON.", "It becomes well-formed text, once."),
    "K09": ("A frame's types depend on what is in it.", "Types are the same whether a table is empty or full."),
    "K10": (
        "SQL over JSON meets nulls, doubled keys, large numbers.",
        "Columns are typed; the rest is kept to the letter.",
    ),
    "K11": ("Of two parallel calls one needs an approval.", "The free one runs, the other waits, their order stays."),
    "K12": ("Two people approve, or one clicks twice.", "The first counts, the second is told who was first."),
    "K13": ("A flood of tokens drowns the page.", "Pieces are joined, and one thread sends at a bounded rate."),
    "K14": ("A notebook opened again has dead buttons.", "It shows the run and the code that answers it."),
    "K15": ("Token counts are missing, null or late.", "Unknown is not zero; late counts are heard."),
    "K16": ("Threads share a DuckDB connection.", "Each use has a cursor of its own; conflicts are one error."),
    "K17": ("A class is defined again, a module reloaded.", "Words and names are compared, not identities."),
    "K18": (
        "A notebook hangs in CI, or passes although it failed.",
        "Nothing waits for a person; what failed is raised where it is collected.",
    ),
    "K19": ("A thread loses its context, its output lands elsewhere.", "Context goes with the work."),
    "K20": ("A tool's result is huge.", "It is whole in the store; what is shown is bounded."),
    "K21": ("NaN and infinities break JSON.", "They become words."),
    "K22": ("Half an emoji, or a NUL, breaks a store or a page.", "Text is made well formed where it enters."),
    "K23": ("Pieces of a call come in any order.", "They are put together by index, whatever comes first."),
    "K24": ("A provider's call id comes again.", "Ids are the runtime's: it is another call, asked about again."),
    "K25": ("A stream dies half way, and is tried again.", "The failure is told, and each try's text is its own."),
    "K26": ("What cannot succeed is tried again.", "Errors say whether it may help; nothing is guessed."),
    "K27": ("A final reply is empty, or contradicts itself.", "Calls decide first; an empty answer is an answer."),
    "K28": ("A form's data does not fit its schema.", "It is refused with the place, and the turn waits on."),
    "K29": (
        "After a resume events count anew, or twice.",
        "A turn has one row and one order, over any number of kernels.",
    ),
    "K30": ("A listener raises, blocks or calls back.", "It changes nothing and stops nobody."),
    "K31": ("A kernel restarts while a turn runs.", "The next one finds it, and goes on or cancels."),
    "K32": ("A kernel dies between an effect and its record.", "The start is on disk first; then somebody is asked."),
    "K33": ("An approval comes after the end, or for something else.", "It is refused, and nothing changes."),
    "K34": ("A turn goes on with an agent that is gone or changed.", "It does not: the error says what differs."),
    "K35": (
        "A tool raises SystemExit, CancelledError or worse.",
        "It is a failure of the tool; only the stop button stops.",
    ),
    "K36": ("Two turns run at once on one conversation.", "The second is told which one it waits for."),
}

# case, what of it waits, for what
WAITING = (
    ("K09", "A row of zero runs in the comparison of two versions.", "Experiments, which compare versions."),
    ("K13", "A run with a panel costs at most half as much again as one without.", "The benchmarks, not a test."),
    ("K15", "Chunks without choices, and usage in chunks of their own.", "Providers, whose wire format that is."),
    ("K17", "`%autoreload 3` over this package itself, or over `from pydantic import BaseModel`.", "IPython."),
    ("K18", "Notebooks in random order and on several workers at once.", "The job in CI that runs them so."),
    ("K20", "A long conversation within a window of 8,000 tokens.", "Windows and compaction."),
    ("K21", "A metric of which some values are NaN.", "Experiments, which have metrics."),
    ("K26", "Errors of a provider by status, code and header; claims before a retry is due.", "Providers; workers."),
    ("K28", "A pattern that takes for ever ends by itself, not only by the stop button.", "A matcher with a bound."),
    ("K29", "Counts of turns, of two versions, of which some were resumed or tried again.", "Experiments."),
    (
        "K31",
        "The owner of a turn comes back when another kernel has taken it.",
        "Leases of workers; a lab has one owner.",
    ),
    ("K33", "Approving a turn that waits for a child.", "Children."),
    ("K36", "Two kernels on one conversation at once.", "Workers; a lab is open in one kernel."),
)

_NAMED = re.compile(r"\bK(\d\d)\b(?: to K(\d\d)\b)?")


@cache
def named() -> dict[str, list[str]]:
    """Case -> the tests, or files of tests, that name it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        tree, name = ast.parse(path.read_text("utf-8")), path.relative_to(TESTS).as_posix()
        for case in _cases(ast.get_docstring(tree) or ""):
            found[case].append(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for case in _cases(ast.get_docstring(node) or ""):
                    found[case].append(f"{name}::{node.name}")
    return dict(found)


def page() -> str:
    """docs/cases.md."""
    lines = [
        "# Cases",
        "",
        "What went wrong for people with tools of this kind, what happens here instead, and the tests that show it.",
        "This page is written by `python tests/cases.py`. The last section lists what waits for later work.",
        "",
        "| | what goes wrong | what happens here | tests |",
        "|---|---|---|---|",
    ]
    for case, (wrong, here) in CASES.items():
        tests = "<br>".join(f"`{test}`" for test in dict.fromkeys(named().get(case, ())))
        lines.append(f"| {case} | {wrong} | {here} | {tests} |")
    lines += ["", "## What waits, and for what", "", "| | what | for |", "|---|---|---|"]
    lines += [f"| {case} | {what} | {reason} |" for case, what, reason in WAITING]
    return "\n".join(lines) + "\n"


def _cases(text: str) -> list[str]:
    return [
        f"K{number:02}" for first, last in _NAMED.findall(text) for number in range(int(first), int(last or first) + 1)
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(PAGE)
