"""A model's Markdown as HTML that cannot do harm, for saved notebooks: a small subset, escaped before anything else.

Rule: every character of the text passes `html.escape` before a tag is put around it, and no attribute is written but
the address of an http, https or mailto link. What is not understood stays as it was written.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from html import escape

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
_BULLET = re.compile(r"^\s*([-*+]|\d{1,9}[.)])\s+(.*)$")
_RULE = re.compile(r"^\s{0,3}([-*_])(\s*\1){2,}\s*$")
_DASHES = re.compile(r"\s*:?-+:?\s*")
_TICKS = re.compile(r"(`+)")
_LINK = re.compile(r"\[([^\[\]\n]{1,500})\]\(((?:https?://|mailto:)[^\s()<>\"']{1,2000})\)")
# mark -> tag; the longer marks first
_MARKS = (
    (re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*"), "strong"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"), "em"),
    (re.compile(r"(?<![\w_])_(?=\S)([^_\n]+?)(?<=\S)_(?![\w_])"), "em"),
    (re.compile(r"~~(?=\S)([^~\n]+?)(?<=\S)~~"), "del"),
)


def markdown(text: str) -> str:
    """The text as HTML: paragraphs, headings, lists, quotes, fenced code, tables, emphasis, code and links."""
    return "".join(_blocks(text.splitlines()))


def _blocks(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif fence := _FENCE.match(line):
            end = _first(lines, at + 1, partial(_closes, fence[1]))
            yield f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>"
            at = end + 1
        elif heading := _HEADING.match(line):
            # a panel is part of a page: its headings begin below the page's own
            level = min(6, len(heading[1]) + 2)
            yield f"<h{level}>{_inline(_unclosed(heading[2]))}</h{level}>"
            at += 1
        elif _RULE.match(line):
            yield "<hr>"
            at += 1
        elif line.lstrip().startswith(">"):
            end = _first(lines, at, lambda later: not later.lstrip().startswith(">"))
            quoted = [later.lstrip()[1:].removeprefix(" ") for later in lines[at:end]]
            yield f"<blockquote>{_paragraph(quoted)}</blockquote>"
            at = end
        elif _BULLET.match(line):
            end = _first(lines, at, lambda later: not (_BULLET.match(later) or later.startswith("  ")))
            yield _list(lines[at:end])
            at = end
        elif "|" in line and at + 1 < len(lines) and "|" in lines[at + 1] and _is_rule_of_table(lines[at + 1]):
            end = _first(lines, at, lambda later: "|" not in later)
            yield _table(lines[at], lines[at + 2 : end])
            at = end
        else:
            end = _first(lines, at + 1, _begins)
            yield _paragraph(lines[at:end])
            at = end


def _first(lines: list[str], start: int, stops: Callable[[str], object]) -> int:
    return next((n for n in range(start, len(lines)) if stops(lines[n])), len(lines))


def _closes(fence: str, line: str) -> bool:
    return line.strip().startswith(fence)


def _begins(line: str) -> bool:
    """Whether another block begins here."""
    starts = (_FENCE, _HEADING, _BULLET, _RULE)
    return not line.strip() or line.lstrip().startswith(">") or any(start.match(line) for start in starts)


def _paragraph(lines: list[str]) -> str:
    return f"<p>{'<br>'.join(_inline(line.strip()) for line in lines)}</p>"


def _list(lines: list[str]) -> str:
    items: list[list[str]] = []
    tag = "ul"
    for line in lines:
        bullet = _BULLET.match(line)
        if bullet:
            tag = tag if items or not bullet[1][0].isdigit() else "ol"
            items.append([bullet[2]])
        else:
            items[-1].append(line.strip())
    inner = "".join(f"<li>{_inline(' '.join(item))}</li>" for item in items)
    return f"<{tag}>{inner}</{tag}>"


def _table(head: str, rows: list[str]) -> str:
    body = "".join(f"<tr>{_row(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{_row(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _row(line: str, tag: str) -> str:
    return "".join(f"<{tag}>{_inline(cell.strip())}</{tag}>" for cell in _cells(line))


def _cells(line: str) -> list[str]:
    return line.strip().removeprefix("|").removesuffix("|").split("|")


def _is_rule_of_table(line: str) -> bool:
    return all(_DASHES.fullmatch(cell) for cell in _cells(line))


def _unclosed(heading: str) -> str:
    """A heading without the marks that may close it."""
    text = heading.strip()
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else text


def _inline(text: str) -> str:
    """Code and links are cut out first, so that marks inside them stay as written."""
    pieces = _TICKS.split(text)  # text, a run of backticks, text, ...
    closing: dict[int, int] = {}  # length of a run -> where the next one of that length stands
    closed_by = [0] * len(pieces)
    for at in range(len(pieces) - 2, 0, -2):
        closed_by[at], closing[len(pieces[at])] = closing.get(len(pieces[at]), 0), at
    parts, plain, at = [], pieces[0], 1
    while at < len(pieces):
        if end := closed_by[at]:
            code = "".join(pieces[at + 1 : end])
            parts += [_linked(plain), f"<code>{escape(code.strip())}</code>"]
            plain, at = pieces[end + 1], end + 2
        else:
            plain, at = plain + pieces[at] + pieces[at + 1], at + 2
    return "".join([*parts, _linked(plain)])


def _linked(text: str) -> str:
    parts: list[str] = []
    at = 0
    for link in _LINK.finditer(text):
        parts += [
            _marked(text[at : link.start()]),
            f'<a href="{escape(link[2])}" target="_blank" rel="noopener noreferrer nofollow">{_marked(link[1])}</a>',
        ]
        at = link.end()
    return "".join([*parts, _marked(text[at:])])


def _marked(text: str) -> str:
    safe = escape(text)
    for mark, tag in _MARKS:
        safe = mark.sub(rf"<{tag}>\1</{tag}>", safe)
    return safe
