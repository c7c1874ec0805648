import { describe, expect, test } from "vitest";
import { initial, plan, planArguments, read, readArguments } from "../src/form.js";

const filled = (schema, edit = () => {}) => {
  const part = plan(schema);
  const raw = initial(part);
  edit(raw);
  return read(part, raw);
};
const object = (properties, required = Object.keys(properties), more = {}) => ({
  type: "object",
  properties,
  required,
  ...more,
});

describe("what pydantic emits", () => {
  test.each([
    [{ type: "string" }, "text"],
    [{ type: "integer" }, "number"],
    [{ type: "number" }, "number"],
    [{ type: "boolean" }, "boolean"],
    [{ enum: ["a", "b"], type: "string" }, "choice"],
    [{ const: "fixed" }, "const"],
    [{ type: "array", items: { type: "string" } }, "array"],
    [{ anyOf: [{ type: "string" }, { type: "null" }] }, "text"],
    [{ anyOf: [{ type: "boolean" }, { type: "null" }] }, "choice"],
    [{ type: ["integer", "null"] }, "number"],
    [{ anyOf: [{ type: "array", items: { type: "string" } }, { type: "null" }] }, "maybe"],
    [{ oneOf: [{ const: 1 }, { const: 2 }] }, "choice"],
  ])("%o is asked for as %s", (schema, kind) => {
    expect(plan(schema).kind).toBe(kind);
  });

  test.each([
    [{ type: "object", additionalProperties: { type: "integer" } }],
    [{ anyOf: [{ type: "string" }, { type: "integer" }] }],
    [{ type: "array", prefixItems: [{ type: "string" }] }],
    [{ not: { type: "null" } }],
    [true],
    [{ $ref: "#/$defs/Nowhere" }],
    [{ $ref: "https://example.org/schema" }],
  ])("%o is beyond the subset and asked for as JSON", (schema) => {
    expect(plan(schema).kind).toBe("json");
  });

  test.each([
    ["date", "date"],
    ["date-time", "datetime-local"],
    ["email", "email"],
    ["unheard-of", "text"],
  ])("the format %s has an input of type %s", (format, input) => {
    expect(plan({ type: "string", format }).input).toBe(input);
  });

  test("definitions are followed, with what stands beside the reference", () => {
    const schema = object({ to: { $ref: "#/$defs/Address", description: "Where it goes" } }, ["to"], {
      $defs: { Address: { title: "Address", ...object({ city: { type: "string" } }) } },
    });

    const [{ plan: to }] = plan(schema).fields;

    expect([to.kind, to.title, to.description]).toEqual(["object", "Address", "Where it goes"]);
    expect(to.fields[0].key).toBe("city");
  });

  test("a schema that contains itself ends as JSON", () => {
    const schema = {
      $ref: "#/$defs/Node",
      $defs: { Node: object({ next: { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }] } }, []) },
    };
    let part = plan(schema);
    let levels = 0;
    while (part.kind === "object" || part.kind === "maybe") {
      part = part.kind === "object" ? part.fields[0].plan : part.inner;
      levels += 1;
    }

    expect(part.kind).toBe("json");
    expect(levels).toBeLessThan(20);
  });

  test("a reference that goes in a circle ends", () => {
    expect(plan({ $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/B" }, B: { $ref: "#/$defs/A" } } }).kind).toBe(
      "json",
    );
  });
});

describe("what is read", () => {
  test("defaults stand in the form and are submitted", () => {
    const schema = object(
      {
        n: { type: "integer", default: 3 },
        s: { type: "string", default: "x" },
        b: { type: "boolean", default: true },
        l: { type: "array", items: { type: "string" }, default: ["a"] },
        e: { enum: ["p", "q"], default: "q" },
      },
      [],
    );

    expect(filled(schema)).toEqual({ value: { n: 3, s: "x", b: true, l: ["a"], e: "q" }, errors: [] });
  });

  test("what is optional and empty is left out; what is due is marked by its pointer", () => {
    const schema = object({ due: { type: "string" }, free: { type: "string" }, "a/b~c": { type: "integer" } }, [
      "due",
      "a/b~c",
    ]);

    const { value, errors } = filled(schema);

    expect(value).toEqual({});
    expect(errors.map(({ pointer }) => pointer)).toEqual(["/due", "/a~1b~0c"]);
  });

  test.each([
    ["3", 3],
    [" 4 ", 4],
    ["1e3", 1000],
    ["-2", -2],
  ])("the integer %o is %o", (said, value) => {
    expect(
      filled({ type: "object", properties: { n: { type: "integer" } } }, (raw) => raw.set("n", said)).value,
    ).toEqual({ n: value });
  });

  test.each(["3.5", "three", "0x10", "NaN", "Infinity", "1,5"])("%o is no integer", (said) => {
    const { errors } = filled({ type: "object", properties: { n: { type: "integer" } } }, (raw) => raw.set("n", said));

    expect(errors[0].pointer).toBe("/n");
  });

  test("an empty input of what may be null says null", () => {
    const schema = object({ note: { anyOf: [{ type: "string" }, { type: "null" }], default: null } }, []);

    expect(filled(schema).value).toEqual({ note: null });
  });

  test("entries of a list keep their places in pointers", () => {
    const schema = object({ ns: { type: "array", items: { type: "integer" } } });

    const { errors } = filled(schema, (raw) => raw.get("ns").push("1", "x"));

    expect(errors.map(({ pointer }) => pointer)).toEqual(["/ns/1"]);
  });

  test("a moment is submitted with its zone", () => {
    const { value } = filled(object({ at: { type: "string", format: "date-time" } }), (raw) =>
      raw.set("at", "2026-03-01T12:00"),
    );

    expect(value.at).toMatch(/^2026-0[23]-\d\dT\d\d:\d\d:00\.000Z$/);
  });

  test("JSON that is none is marked", () => {
    const { errors } = filled(object({ any: {} }), (raw) => raw.set("any", "{broken"));

    expect(errors[0].message).toMatch(/not JSON/);
  });

  test("a field called __proto__ is a field", () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}',
    );

    const { value } = filled(schema, (raw) => raw.set("__proto__", "x"));

    expect(JSON.stringify(value)).toBe('{"__proto__":"x"}');
    expect({}.x).toBeUndefined();
  });
});

describe("arguments of a call", () => {
  const schema = {
    type: "object",
    properties: {
      order: { type: "string" },
      at: { type: "string", format: "date-time" },
      limit: { anyOf: [{ type: "integer" }, { type: "null" }], default: 5 },
    },
    required: ["order"],
  };
  const changed = (given, edit = () => {}) => {
    const part = planArguments(schema, given);
    const raw = initial(part);
    edit(raw);
    return readArguments(part, raw, given);
  };

  test.each([
    [{ order: "O-1" }],
    [{ order: "" }],
    [{ order: "O-1", at: "2026-01-01T00:00:00.123456+02:00" }],
    [{ order: "O-1", limit: null }],
    [{ order: "O-1", limit: 7 }],
  ])("%o that nobody touched are what was given", (given) => {
    expect(changed(given)).toEqual({ value: given, errors: [] });
  });

  test("only what was touched changes", () => {
    const given = { order: "O-1", at: "2026-01-01T00:00:00.123456+02:00" };

    expect(changed(given, (raw) => raw.set("order", "O-2")).value).toEqual({ ...given, order: "O-2" });
    expect(changed(given, (raw) => raw.set("limit", "9")).value).toEqual({ ...given, limit: 9 });
  });

  test("what was emptied is left out", () => {
    expect(changed({ order: "O-1", at: "2026-01-01T00:00:00Z" }, (raw) => raw.set("at", "")).value).toEqual({
      order: "O-1",
    });
  });

  test("a name that the schema does not have is not lost: the whole is edited as JSON", () => {
    const part = planArguments(schema, { order: "O-1", more: 1 });

    expect(part.kind).toBe("json");
    expect(readArguments(part, initial(part), {}).value).toEqual({ order: "O-1", more: 1 });
  });
});

test("a number that a page cannot hold exactly is refused, also within JSON", () => {
  const integer = plan({ type: "integer" });
  expect(read(integer, "9007199254740993").errors).toHaveLength(1);
  expect(read(integer, "9007199254740991").value).toBe(9007199254740991);
  expect(read(plan({}), '{"a": [9007199254740993]}').errors).toHaveLength(1);
  expect(read(plan({}), '{"a": [1.5, null]}').value).toEqual({ a: [1.5, null] });
});

test("an optional object or a list with a least length can be left out", () => {
  const part = plan({
    type: "object",
    properties: {
      v: { type: "object", properties: { street: { type: "string" } }, required: ["street"] },
      w: { type: "array", items: { type: "string" }, minItems: 1 },
      "": { type: "string" },
    },
  });
  expect(read(part, initial(part))).toEqual({ value: {}, errors: [] });
  const given = initial(part);
  given.set("v", { given: true, inner: new Map([["street", "High Street"]]) });
  expect(read(part, given).value).toEqual({ v: { street: "High Street" } });
});
