// @ts-check
/**
 * A model's Markdown as HTML that cannot do harm. Code in a page of Jupyter can run code in its kernel, so this is
 * stricter than usual: no pictures (their address carries data out), no forms and buttons (JupyterLab runs commands
 * for some), no styles and ids (overlays that look like Approve).
 */
import createDOMPurify from "dompurify";
import { Marked } from "marked";

const STRICT = {
  USE_PROFILES: { html: true },
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  FORBID_TAGS: [
    "style",
    "form",
    "input",
    "button",
    "textarea",
    "select",
    "option",
    "iframe",
    "img",
    "video",
    "audio",
    "source",
    "picture",
    "dialog",
    "details",
  ],
  FORBID_ATTR: ["style", "class", "id", "name", "srcset", "src"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
  SANITIZE_NAMED_PROPS: true,
  RETURN_DOM_FRAGMENT: true,
};

const marked = new Marked({ gfm: true, breaks: true, async: false });
let purify;

function purifier() {
  if (!purify) {
    purify = createDOMPurify(window);
    purify.addHook("afterSanitizeAttributes", (node) => {
      if (node.tagName === "A") {
        node.setAttribute("target", "_blank");
        node.setAttribute("rel", "noopener noreferrer nofollow");
      }
    });
  }
  return purify;
}

/** @param {string} text @returns {DocumentFragment} */
export function markdown(text) {
  return purifier().sanitize(/** @type {string} */ (marked.parse(text)), STRICT);
}
