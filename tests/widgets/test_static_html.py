"""What stays in a saved notebook: all of it readable, none of it able to do harm."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from agentflex_nb.core.agent import AgentExecutionPolicy, AgentRetryPolicy
from agentflex_nb.core.errors import ErrorSummary
from agentflex_nb.core.frozen import FrozenDict
from agentflex_nb.core.inputs import AgentResumeCommand, ModelFailed, Proceed, Suspend, ToolFailed
from agentflex_nb.core.verdicts import ALLOWED, Strictness, Verdict
from agentflex_nb.widgets.items import View
from agentflex_nb.widgets.static_html import turn_html
from agentflex_nb.widgets.view import show_all

EVIL = "<script>hurt()</script><img src=x onerror=hurt()>\"'</style></div>"


class Tags(HTMLParser):
    """Every tag and attribute of a page, and whether the tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return tags


def test_a_finished_turn_reads_from_its_prompt_to_its_answer(shop):
    view = show_all(View(turn_id="t1", prompt="Refund O-1"), shop.events(*shop.approved()))

    text = " ".join(parsed(turn_html(view)).text)

    shown = [
        "Completed",
        "shop",
        "Refund O-1",
        "which order?",
        "I look it up.",
        "lookup",
        "refund",
        "Approved by bob",
        "Done.",
    ]
    for words in shown:
        assert words in text
    assert [text.index(words) for words in shown] == sorted(text.index(words) for words in shown)


def test_a_waiting_turn_shows_its_question_and_the_code_that_answers_it(shop):
    """K14"""
    text = "".join(parsed(turn_html(shop.view(*shop.asked()))).text)

    assert "refund 120.0?" in text
    assert "over 50" in text
    assert "lab.restore('t1').approve()" in text


def test_a_form_shows_the_code_with_its_fields(shop):
    assert "lab.restore('t1').submit({\"city\": ...})" in "".join(parsed(turn_html(shop.view(*shop.formed()))).text)


def evil_views(shop):
    ask = Verdict(strictness=Strictness.ASK, code=EVIL, message=EVIL, reason=EVIL, metadata=FrozenDict({EVIL: EVIL}))
    error = ErrorSummary(kind=EVIL, message=EVIL)
    start = View(turn_id="t1", prompt=EVIL)
    calls = (
        Proceed(),
        shop.reasoning(EVIL),
        shop.text(EVIL),
        shop.reply(EVIL, ("refund", {EVIL: EVIL}), ("lookup", {})),
    )
    asked = (*calls, shop.checked(_1_0=ask, _1_1=ALLOWED))
    rejected = (*asked, AgentResumeCommand.reject_tool("t1.1.0", EVIL, by=EVIL))
    failed = (
        Proceed(),
        shop.reply("", (EVIL, {"a": EVIL}), ("lookup", {})),
        shop.checked(_1_1=ALLOWED),
        ToolFailed("t1.1.1", error, EVIL),
    )
    plain = (Proceed(), Suspend(correlation_id="q", message=EVIL), shop.reply("ok"))
    outside = (*shop.outside(), AgentResumeCommand.external_result("t1.1.0", error=EVIL, by=EVIL), Proceed())
    broken = ErrorSummary(kind=EVIL, message=EVIL, code=EVIL, retryable=True, provider_code=EVIL, request_id=EVIL)
    policy = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))
    views = [show_all(start, shop.events(*inputs)) for inputs in (asked, rejected, failed, plain, outside)]
    return [*views, show_all(start, shop.events(Proceed(), ModelFailed(error=broken), policy=policy))]


@pytest.mark.parametrize("n", range(6))
def test_everything_from_outside_is_escaped(shop, n):
    html = turn_html(evil_views(shop)[n])

    page = parsed(html)

    assert page.tags <= {
        "style", "div", "span", "strong", "details", "summary", "pre", "code", "table", "tbody",
        "thead", "tr", "th", "td", "p", "br", "em", "del", "a", "ul", "ol", "li", "h3",
        "h4", "h5", "h6", "blockquote", "hr",
    }  # fmt: skip
    assert page.attributes <= {"class", "open", "href", "target", "rel"}
    assert html.count("hurt()") == html.count("hurt()&lt;") + html.count("hurt()&gt;")


def test_a_turn_of_any_size_stays_a_small_page(shop):
    view = shop.view(Proceed(), *[shop.text("<" * 50_000)] * 20)

    html = turn_html(view)

    assert len(html) < 300_000
    assert "the first 60,000 of 1,000,000 characters" in html


def test_a_question_says_what_happens_by_itself_and_every_way_to_answer_it(shop):
    """A16"""
    limited = Verdict(strictness=Strictness.ASK, expires_in=60.0, when_expired="APPROVE")
    asked = (Proceed(), shop.reply("", ("refund", {"n": 1})), shop.checked(_1_0=limited))

    text = "\n".join(parsed(turn_html(shop.view(*asked))).text)

    assert "If nobody answers, it is approved on 2026-01-01 at 00:01:00 UTC." in text
    assert "lab.restore('t1').approve()\nlab.restore('t1').approve(arguments={\"n\": ...})\nlab" in text


def test_a_model_that_failed_shows_how(shop):
    """E18"""
    policy = AgentExecutionPolicy(retry=AgentRetryPolicy(max_retries=0, when_exhausted="SUSPEND"))

    text = "\n".join(parsed(turn_html(shop.view(*shop.failing(), policy=policy))).text)

    assert "HTTP status\n529" in text
    assert "lab.restore('t1').retry()" in text


def test_listeners_that_raised_stand_on_the_page_as_text(shop):
    view = replace(shop.view(*shop.approved()), failing=(("<b>log</b>", 3),))

    html = turn_html(view)

    assert "Listeners that raised: <b>log</b> (3 times)" in "".join(parsed(html).text)
    assert "<b>log" not in html
    assert "raised" not in turn_html(shop.view(*shop.approved()))
