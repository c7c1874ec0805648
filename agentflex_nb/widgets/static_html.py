"""A turn as HTML that needs nothing but a page: what stays in a saved notebook when the kernel is gone.

Rule: no script, and every word from outside is escaped. The classes are those of the live panel, and its style sheet
stands in the page, so that the picture does not change when the widget is replaced; where a site removes the style
sheet, headings, tables and disclosures are left.
"""

from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import assert_never

from .code import in_code
from .items import Answered, Asked, Call, CallState, Fields, Item, Level, Note, Prose, ProseKind, Step, View
from .prose import markdown
from .words import SIGNS, STATUS, deadline, duration, failing_line, figures, foot_line, is_no, left_out, said


def turn_html(view: View) -> str:
    """The whole turn; where it waits, with its questions and the lines of Python that answer them."""
    word, tone = STATUS[view.status]
    head = (
        f'<div class="afx-head"><span class="afx-status afx-{tone}"><span class="afx-dot"></span>{escape(word)}</span> '
        f'<strong class="afx-agent">{escape(view.agent_id)}</strong> '
        f'<span class="afx-figures">{escape(" · ".join(figures(view)))}</span></div>'
    )
    body = "".join([_prompt(view), _dropped(view), *(_item(view, item) for item in view.items), _error(view)])
    cards = "".join(_card(view, question) for question in view.questions)
    notice = f'<div class="afx-notices">{escape(failing)}</div>' if (failing := failing_line(view)) else ""
    foot = f'{notice}<div class="afx-foot">{escape(foot_line(view))}</div>'
    inner = f'{head}<div class="afx-log">{body}</div>{cards}{foot}'
    return f'<style>{_style()}</style><div class="afx afx-still">{inner}</div>'


@cache
def _style() -> str:
    return (Path(__file__).parent / "static" / "panel.css").read_text("utf-8")


def _prompt(view: View) -> str:
    return f'<div class="afx-prompt">{escape(view.prompt)}</div>' if view.prompt else ""


def _dropped(view: View) -> str:
    if not view.dropped:
        return ""
    code = f"lab.events(turn={view.turn_id!r})"
    return f'<div class="afx-note">{view.dropped:,} earlier items are left out: <code>{escape(code)}</code></div>'


def _error(view: View) -> str:
    if view.error is None:
        return ""
    return (
        f'<div class="afx-note afx-error"><strong>{escape(view.error.kind)}</strong> {escape(view.error.message)}</div>'
    )


def _item(view: View, item: Item) -> str:
    match item:
        case Step():
            return f'<div class="afx-step">step {item.number}{_took(item)}</div>'
        case Prose():
            return _prose(view, item)
        case Call():
            return _call(item)
        case Answered():
            no = " afx-no" if is_no(item) else ""
            return f'<div class="afx-answered{no}">{escape(said(item))}{_table(item.fields)}</div>'
        case Note():
            level = "" if item.level is Level.INFO else f" afx-{item.level}"
            return f'<div class="afx-note{level}">{escape(item.text)}</div>'
        case _:
            assert_never(item)


def _prose(view: View, item: Prose) -> str:
    short = left_out(item, view.turn_id)
    rest = f'<div class="afx-rest">{escape(short)}</div>' if short else ""
    if item.kind is ProseKind.REASONING:
        summary = f"<summary>Reasoning{_took(item)}</summary>"
        return f'<details class="afx-reasoning">{summary}<pre>{escape(item.text)}</pre>{rest}</details>'
    return f'<div class="afx-text">{markdown(item.text)}{rest}</div>'


def _call(call: Call) -> str:
    inline = call.raw or ", ".join(f"{name}={value}" for name, value in call.arguments)
    summary = (
        f'<summary><span class="afx-sign">{SIGNS[call.state]}</span> <code class="afx-name">{escape(call.name)}</code> '
        f'<span class="afx-args">{escape(_flat(inline))}</span>{_took(call)}</summary>'
    )
    parts = [_table(call.arguments), f"<pre>{escape(call.raw)}</pre>" if call.raw else ""]
    if call.result:
        parts.append(f'<pre class="afx-result">{escape(call.result)}</pre>')
        if call.result_length > len(call.result):
            more = f"… the first {len(call.result):,} of {call.result_length:,} characters"
            parts.append(f'<div class="afx-rest">{more}</div>')
    if call.problem:
        parts.append(f'<pre class="afx-problem">{escape(call.problem)}</pre>')
    opened = " open" if call.state in (CallState.FAILED, CallState.DENIED) else ""
    body = f'<div class="afx-body">{"".join(parts)}</div>'
    return f'<details class="afx-call afx-{call.state}"{opened}>{summary}{body}</details>'


def _card(view: View, question: Asked) -> str:
    code = f'<pre class="afx-code">{escape(chr(10).join(in_code(view, question)))}</pre>'
    title = f'<div class="afx-title">{escape(question.message)}</div>'
    reason = f'<div class="afx-why">{escape(question.reason)}</div>' if question.reason else ""
    told = _table(question.arguments) if question.tool_name and not question.form_key else ""
    by_itself = f'<div class="afx-deadline">{escape(deadline(question))}</div>' if deadline(question) else ""
    how = '<div class="afx-how">Answer it in code, with one of:</div>'
    return f'<div class="afx-card">{title}{reason}{told}{_table(question.failure)}{by_itself}{how}{code}</div>'


def _table(fields: Fields) -> str:
    if not fields:
        return ""
    rows: Iterable[str] = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in fields)
    return f'<table class="afx-fields"><tbody>{"".join(rows)}</tbody></table>'


def _took(item: Step | Prose | Call) -> str:
    if not (item.began and item.ended):
        return ""
    return f' <span class="afx-took">{duration(item.ended - item.began)}</span>'


def _flat(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 160 else f"{flat[:160]}…"
