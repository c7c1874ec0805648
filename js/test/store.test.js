import { describe, expect, test } from "vitest";
import { emptyPicture, phaseOf, take } from "../src/store.js";
import { grownBy, patchOf, snapshotOf, textItem } from "./fakes.js";

const after = (...messages) => {
  const picture = emptyPicture();
  return [picture, messages.map((message) => take(picture, message))];
};

describe("taking messages", () => {
  test("patches in order grow the text", () => {
    const [picture, became] = after(
      snapshotOf(0),
      patchOf(1, { put: [textItem(0, "he")] }),
      patchOf(2, { grown: [grownBy(0, 2, "llo")] }),
    );

    expect(became).toEqual(["taken", "taken", "taken"]);
    expect(picture.items.get(0).text).toBe("hello");
  });

  test("a patch that comes twice is taken once", () => {
    const grown = patchOf(2, { grown: [grownBy(0, 2, "llo")] });
    const [picture, became] = after(snapshotOf(0), patchOf(1, { put: [textItem(0, "he")] }), grown, grown);

    expect(became.at(-1)).toBe("old");
    expect(picture.items.get(0).text).toBe("hello");
  });

  test("a patch after a lost one is a gap, and changes nothing", () => {
    const [picture, became] = after(snapshotOf(0, [textItem(0, "he")]), patchOf(2, { grown: [grownBy(0, 4, "o")] }));

    expect(became.at(-1)).toBe("gap");
    expect(picture.items.get(0).text).toBe("he");
    expect(picture.n).toBe(0);
  });

  test("a snapshot mends a gap, and an older one is not taken", () => {
    const [picture, became] = after(
      snapshotOf(0),
      patchOf(4),
      snapshotOf(5, [textItem(0, "hello")]),
      snapshotOf(3, [textItem(0, "he")]),
    );

    expect(became).toEqual(["taken", "gap", "taken", "old"]);
    expect(picture.items.get(0).text).toBe("hello");
  });

  test("growth of what is not there is a gap", () => {
    const [, became] = after(snapshotOf(0), patchOf(1, { grown: [grownBy(3, 0, "x")] }));

    expect(became.at(-1)).toBe("gap");
  });

  test("offsets count as JavaScript does, so that an emoji does not shift the text", () => {
    const [picture] = after(snapshotOf(0, [textItem(0, "a😀")]), patchOf(1, { grown: [grownBy(0, 3, "b")] }));

    expect(picture.items.get(0).text).toBe("a😀b");
  });

  test("items that were dropped at the front go", () => {
    const [picture] = after(
      snapshotOf(0, [textItem(0, "a"), textItem(1, "b")]),
      patchOf(1, { put: [textItem(2, "c")], dropped: 2 }),
    );

    expect([...picture.items.keys()]).toEqual([2]);
  });

  test("another version is not guessed at", () => {
    expect(take(emptyPicture(), { ...snapshotOf(0), v: 3 })).toBe("foreign");
  });
});

test.each([
  [undefined, undefined, "idle"],
  [{ press: "a", busy: false }, undefined, "sending"],
  [{ press: "a", busy: true }, undefined, "busy"],
  [{ press: "a", busy: true }, { press: "a", phase: "sent" }, "sent"],
  [{ press: "b", busy: false }, { press: "a", phase: "refused" }, "sending"],
  [undefined, { press: "a", phase: "refused" }, "refused"],
])("a press %o of which the kernel says %o is %s", (pressed, answering, phase) => {
  expect(phaseOf(pressed, answering)).toBe(phase);
});
