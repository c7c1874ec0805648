"""Documents and code may not drift apart: the words are explained, the diagram is the table."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from agentflex_nb.core.events import EventType
from agentflex_nb.core.machine import AgentPhase, AgentStatus, SuspensionType, mermaid

DOCS = Path(__file__).parents[1] / "docs"
ROOT = DOCS.parent


def words_of(*pages: str) -> set[str]:
    return {word for page in pages for word in re.findall(r"\b[A-Z][A-Z_]+\b", (DOCS / page).read_text("utf-8"))}


@pytest.mark.parametrize("words", [EventType, AgentStatus, AgentPhase, SuspensionType])
def test_every_word_of_the_domain_is_explained(words: type[StrEnum]):
    assert {word.value for word in words} - words_of("glossary.md", "how-it-works.md") == set()


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("Statuses", AgentStatus),
        ("Phases", AgentPhase),
        ("Suspension types", SuspensionType),
        ("Event types", EventType),
    ],
)
def test_the_tables_of_the_glossary_hold_the_words_of_the_code_and_no_others(heading: str, words: type[StrEnum]):
    section = (DOCS / "glossary.md").read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]

    assert re.findall(r"^\| `([A-Z_]+)` \|", section, flags=re.MULTILINE) == [word.value for word in words]


def test_the_diagram_is_drawn_from_the_table():
    page = (DOCS / "how-it-works.md").read_text("utf-8")

    drawn = re.findall(r"```mermaid\n(stateDiagram-v2\n.*?)\n```", page, flags=re.DOTALL)

    assert drawn == [mermaid()], "run `just diagram`"


def test_links_between_documents_lead_somewhere():
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
        for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []


@pytest.mark.parametrize("record", sorted(DOCS.glob("decisions/*.md")), ids=lambda record: record.stem)
def test_a_decision_record_is_short_and_has_its_three_parts(record: Path):
    text = record.read_text("utf-8")

    assert re.fullmatch(r"\d{4}-[a-z0-9-]+", record.stem)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert 20 <= len(text.splitlines()) <= 40


def test_decision_records_are_numbered_without_gaps():
    numbers = [int(record.stem[:4]) for record in sorted(DOCS.glob("decisions/*.md"))]

    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", ["approvals.md", "listeners.md", "tools.md"])
def test_what_a_page_shows_works_as_it_stands(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), flags=re.DOTALL)
    names: dict[str, Any] = {}

    try:
        for block in blocks:
            exec(block, names)
    finally:
        names["lab"].close()

    assert names["turn"].status == "COMPLETED"
