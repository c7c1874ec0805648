// @ts-check
/**
 * A JSON Schema as a form: what to ask (`plan`), what stands in it at first (`initial`), what was said (`read`).
 *
 * The subset is what pydantic emits; any part beyond it is asked for as JSON text. Whether the data fits the schema is
 * judged by the kernel: here only what cannot be said at all is caught (no number, no JSON, nothing where something is due).
 */

const DEEPEST = 8; // levels of nested objects; a schema that contains itself ends as JSON text
const INPUTS = {
  date: "date",
  "date-time": "datetime-local",
  email: "email",
  time: "time",
  uri: "url",
  password: "password",
};

/**
 * @typedef {object} Plan one part of a form
 * @property {"object" | "array" | "text" | "number" | "boolean" | "choice" | "const" | "maybe" | "json"} kind
 * @property {string} title
 * @property {string} description
 * @property {boolean} required
 * @property {any} [initial] the schema's default; undefined where it has none
 * @property {any} [schema] the part of the schema it was made from
 * @property {{key: string, plan: Plan}[]} [fields] of an object
 * @property {Plan} [inner] of an array: an entry; of a maybe: the value when there is one
 * @property {any[]} [options] of a choice
 * @property {any} [value] of a const
 * @property {string} [input] the type of a text's input element
 * @property {boolean} [nullable] whether nothing is said as null
 * @property {boolean} [whole] whether a number is an integer
 * @property {boolean} [absent] of a maybe: whether nothing is left out, and not said as null
 */

/** @param {any} schema @param {any} [root] @returns {Plan} */
export function plan(schema, root = schema, { title = "", required = true, depth = 0 } = {}) {
  const part = resolve(schema, root);
  const common = {
    title: part.title ?? title,
    description: part.description ?? "",
    required,
    initial: part.default,
    schema: part,
  };
  const json = { ...common, kind: /** @type {const} */ ("json") };
  if (depth > DEEPEST) return json;
  const below = (inner, more = {}) => plan(inner, root, { depth: depth + 1, ...more });

  if ("const" in part) return { ...common, kind: "const", value: part.const };
  if (Array.isArray(part.enum)) return { ...common, kind: "choice", options: part.enum };
  const choices =
    part.anyOf ??
    part.oneOf ??
    (Array.isArray(part.type)
      ? part.type.map((type) => ({ ...part, type, title: undefined, description: undefined, default: undefined }))
      : null);
  if (choices) {
    const rest = choices.filter((choice) => resolve(choice, root).type !== "null");
    if (rest.length === 1 && rest.length < choices.length) {
      return orNull(common, below(rest[0]));
    }
    const consts = rest.map((choice) => resolve(choice, root));
    if (rest.length === choices.length && consts.every((choice) => "const" in choice)) {
      return { ...common, kind: "choice", options: consts.map((choice) => choice.const) };
    }
    return json;
  }
  switch (part.type) {
    case "object": {
      if (!part.properties) return json;
      const due = new Set(part.required ?? []);
      const fields = Object.entries(part.properties).map(([key, inner]) => ({
        key,
        plan: orNothing(below(inner, { title: spoken(key), required: due.has(key) })),
      }));
      return { ...common, kind: "object", fields };
    }
    case "array":
      return part.items && !part.prefixItems ? { ...common, kind: "array", inner: below(part.items) } : json;
    case "string":
      return { ...common, kind: "text", input: INPUTS[part.format] ?? (long(part) ? "area" : "text") };
    case "integer":
    case "number":
      return { ...common, kind: "number", whole: part.type === "integer" };
    case "boolean":
      return { ...common, kind: "boolean" };
    default:
      return json;
  }
}

/** What may be left out, and cannot be left empty: a box to tick gives it. */
function orNothing(inner) {
  const whole = inner.kind === "object" || (inner.kind === "array" && inner.schema.minItems > 0);
  if (inner.required || inner.initial !== undefined || !whole) return inner;
  return { ...inner, kind: /** @type {const} */ ("maybe"), inner, absent: true };
}

/** What may be null: an empty input says so; an object or a list gets a box to tick. */
function orNull(common, inner) {
  if (inner.kind === "object" || inner.kind === "array")
    return { ...common, kind: /** @type {const} */ ("maybe"), inner };
  const known = {
    ...inner,
    ...common,
    schema: inner.schema,
    description: common.description || inner.description,
    required: false,
    nullable: true,
  };
  return inner.kind === "boolean" ? { ...known, kind: /** @type {const} */ ("choice"), options: [true, false] } : known;
}

/** A part with its local reference followed; what stands beside the reference wins. */
function resolve(schema, root, hops = 0) {
  if (schema === true || schema === null || typeof schema !== "object") return {};
  const only = Array.isArray(schema.allOf) && schema.allOf.length === 1 ? schema.allOf[0] : null;
  const target = only ?? (typeof schema.$ref === "string" ? follow(schema.$ref, root) : null);
  if (!target || hops > DEEPEST) return schema;
  const { $ref, allOf, ...beside } = schema;
  return { ...resolve(target, root, hops + 1), ...beside };
}

function follow(reference, root) {
  if (!reference.startsWith("#")) return null;
  const steps = reference
    .slice(1)
    .split("/")
    .slice(1)
    .map((step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~"));
  return steps.reduce((found, step) => (found && Object.hasOwn(found, step) ? found[step] : null), root);
}

const long = (part) => (part.maxLength ?? 0) > 200 || String(part.default ?? "").includes("\n");

/** @param {string} key a property's name, as people say it */
function spoken(key) {
  const words = key.replaceAll("_", " ").trim() || key;
  return words ? words[0].toUpperCase() + words.slice(1) : "(no name)";
}

/**
 * What stands in the form at first, as the inputs hold it: text for text, numbers and JSON, the place of a choice.
 * @param {Plan} part @param {any} [value]
 */
export function initial(part, value = part.initial) {
  const known = value !== undefined && value !== null;
  switch (part.kind) {
    case "object":
      // entries, not properties: a field may be called __proto__
      return new Map(
        part.fields.map(({ key, plan: inner }) => [
          key,
          initial(inner, known && Object.hasOwn(value, key) ? value[key] : inner.initial),
        ]),
      );
    case "array":
      if (Array.isArray(value)) return value.map((entry) => initial(part.inner, entry));
      return Array.from({ length: part.required ? Math.min(part.schema.minItems ?? 0, 20) : 0 }, () =>
        initial(part.inner),
      );
    case "maybe":
      return { given: known, inner: initial(part.inner, known ? value : part.inner.initial) };
    case "boolean":
      return known ? value === true : false;
    case "choice": {
      const at = part.options.findIndex((option) => JSON.stringify(option) === JSON.stringify(value));
      return at >= 0 ? String(at) : "";
    }
    case "const":
      return null;
    case "json":
      return value === undefined ? "" : JSON.stringify(value, null, 2);
    case "text":
      return known ? (part.input === "datetime-local" ? localTime(String(value)) : String(value)) : "";
    default:
      return known ? String(value) : "";
  }
}

/**
 * The data that the inputs say, and what is wrong with them.
 * @param {Plan} part @param {any} raw @param {string} [pointer] a JSON pointer
 * @returns {{value: any, errors: {pointer: string, message: string}[]}} value undefined: leave it out
 */
export function read(part, raw, pointer = "") {
  const fault = (message) => ({ value: undefined, errors: [{ pointer, message }] });
  const good = (value) => ({ value, errors: [] });
  const missing = () => (part.nullable ? good(null) : part.required ? fault("Please fill this in.") : good(undefined));
  switch (part.kind) {
    case "object": {
      const found = part.fields.map(({ key, plan: inner }) => [
        key,
        read(inner, raw.get(key), `${pointer}/${escaped(key)}`),
      ]);
      const errors = found.flatMap(([, { errors }]) => errors);
      const entries = found.filter(([, { value }]) => value !== undefined).map(([key, { value }]) => [key, value]);
      const empty = entries.length === 0 && !part.required && errors.length === 0;
      return { value: empty ? undefined : Object.fromEntries(entries), errors };
    }
    case "array": {
      const found = raw.map((entry, n) => read(part.inner, entry, `${pointer}/${n}`));
      return { value: found.map(({ value }) => value ?? null), errors: found.flatMap(({ errors }) => errors) };
    }
    case "maybe":
      return raw.given ? read({ ...part.inner, required: true }, raw.inner, pointer) : good(part.absent ? undefined : null);
    case "boolean":
      return good(raw);
    case "choice":
      return raw === "" ? missing() : good(part.options[Number(raw)]);
    case "const":
      return good(part.value);
    case "number": {
      const said = raw.trim();
      if (said === "") return missing();
      const number = Number(said);
      if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(said) || !Number.isFinite(number))
        return fault("This is not a number.");
      if (part.whole && !Number.isInteger(number)) return fault("This must be a whole number.");
      return tooLarge(number) ? fault(TOO_LARGE) : good(number);
    }
    case "json":
      if (raw.trim() === "") return missing();
      try {
        const said = JSON.parse(raw);
        return anyTooLarge(said) ? fault(TOO_LARGE) : good(said);
      } catch (error) {
        return fault(`This is not JSON: ${/** @type {Error} */ (error).message}`);
      }
    default:
      if (raw === "" && part.initial !== "") return missing();
      return good(part.input === "datetime-local" && raw ? withZone(raw) : raw);
  }
}

const TOO_LARGE = "A page cannot hold so large a number exactly: answer in code.";
const tooLarge = (number) => Number.isInteger(number) && !Number.isSafeInteger(number);
const anyTooLarge = (value) =>
  typeof value === "number"
    ? tooLarge(value)
    : value !== null && typeof value === "object" && Object.values(value).some(anyTooLarge);

/** @param {string} key as a step of a JSON pointer */
export const escaped = (key) => key.replaceAll("~", "~0").replaceAll("/", "~1");

/** @param {string} iso @returns {string} as an input of type datetime-local holds it: the reader's own time */
function localTime(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.valueOf())) return "";
  return new Date(at.valueOf() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** @param {string} local @returns {string} the same moment with its zone, as JSON Schema's date-time demands */
function withZone(local) {
  const at = new Date(local);
  return Number.isNaN(at.valueOf()) ? local : at.toISOString();
}

/**
 * The arguments of a call as a form, filled in as they are.
 * @param {any} schema the JSON Schema of the tool; null where it is not known
 * @param {Record<string, any>} given
 * @returns {Plan}
 */
export function planArguments(schema, given) {
  const part = plan(schema ?? {});
  const places = new Set(part.fields?.map(({ key }) => key));
  if (part.kind !== "object" || !Object.keys(given).every((key) => places.has(key)))
    return { kind: "json", title: "Arguments, as JSON", description: "", required: true, initial: given, schema: {} };
  const fields = part.fields.map(({ key, plan: inner }) => ({
    key,
    plan: Object.hasOwn(given, key) ? { ...inner, initial: given[key] } : inner,
  }));
  return { ...part, required: true, fields };
}

/**
 * The arguments as they were changed. What nobody touched is what was given: an input may not hold it exactly.
 * @param {Plan} part @param {any} raw @param {Record<string, any>} given
 * @returns {{value: any, errors: {pointer: string, message: string}[]}}
 */
export function readArguments(part, raw, given) {
  const { value, errors } = read(part, raw);
  if (errors.length) return { value: undefined, errors };
  if (part.kind !== "object") {
    const named = value !== null && typeof value === "object" && !Array.isArray(value);
    return named
      ? { value, errors }
      : { value: undefined, errors: [{ pointer: "", message: "Arguments are named values: {…}" }] };
  }
  const now = value ?? {};
  const before = read(part, initial(part)).value ?? {};
  const of = (data, key) => (Object.hasOwn(data, key) ? data[key] : undefined);
  const entries = part.fields
    .map(({ key }) => [key, same(of(now, key), of(before, key)) ? of(given, key) : of(now, key)])
    .filter(([, said]) => said !== undefined);
  return { value: Object.fromEntries(entries), errors };
}

/** Whether two values are the same JSON. */
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
