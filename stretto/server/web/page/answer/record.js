// Records: what is read of their fields while they are written, and the JSON that they are.

import { rendered } from "../markdown.js";

const KINDS = new Set(["fields", "field", "element", "lookup"]);
const STEP = /\.?([\p{L}_][\p{L}\p{M}\p{N}_]*)|\[(\d{1,6})\]|\[("(?:[^"\\]|\\.)*")\]/gu; // of a path: chapters[1].text
const TOKENS = /("(?:[^"\\]|\\.)*"?)|([{[])\s*([}\]])?|([}\]])|(,)|(:)|\s+/gs;
const MOST_TURNS = 8; // of references that lead to others

// Whether a branch writes fields of a record.
export const isOfRecord = (branch) => KINDS.has(branch.kind);

export const isBegun = (text) => /^\s*[{[]/.test(text);

// Whether a text is an object of JSON, or a list of them.
export function isRecord(text) {
  const value = isBegun(text) ? parsed(text) : undefined;
  return Array.isArray(value) ? Object(value[0]) === value[0] : Object(value) === value;
}

// JSON as a block of code, on indented lines, as far as it is there. Its values stay as they were written: a number may
// have more digits than JavaScript keeps.
export function asLines(text) {
  let depth = 0;
  const line = (change) => `\n${"  ".repeat(depth = Math.max(0, depth + change))}`;
  const lines = text.trim().replace(TOKENS, (all, string, open, empty, shut, comma, colon) => {
    if (string) return string;
    if (open) return empty ? open + empty : open + line(1);
    if (shut) return line(-1) + shut;
    return comma ? `,${line(0)}` : colon ? ": " : "";
  });
  const block = rendered(`\`\`\`json\n${lines}\n\`\`\``);
  block.querySelector("pre")?.classList.add("wrapped"); // texts are long
  block.querySelector(".wrap")?.setAttribute("aria-pressed", "true");
  return block;
}

// What a call wrote of a record, for people: the value of its field, or each field with its name.
export function fieldsText(text) {
  const value = jsonSoFar(text);
  if (Array.isArray(value) || Object(value) !== value) return plain(value ?? "");
  const fields = Object.entries(value);
  return fields.length === 1 ? plain(fields[0][1]) : fields.map(([name, each]) => `**${name}**: ${plain(each)}`).join("\n");
}

function plain(value) {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map((each) => `\n- ${plain(each)}`).join("");
  if (Object(value) !== value) return JSON.stringify(value);
  return Object.entries(value).map(([name, each]) => `${name}: ${plain(each)}`).join(", ");
}

// The JSON of a record that ended too early: what is there of each field. Empty where nothing is.
export function recordSoFar(branches, text, schema) {
  const root = branches.findLast((branch) => (branch.kind === "fields" || branch.kind === "direct") && branch.received);
  const names = namesOf(schema);
  let record = jsonSoFar(root?.received ?? text);
  // A call may write more than the record, for the writers of other fields.
  if (names && Object(record) === record && !Array.isArray(record)) record = Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)));
  for (const { kind, title, received } of branches) {
    if (kind !== "field" && kind !== "element") continue;
    const value = jsonSoFar(received ?? "");
    const path = pathOf(title ?? "");
    if (Object(value) === value) record = put(record, kind === "field" ? path.slice(0, -1) : path, value);
  }
  return Object.keys(record ?? {}).length ? JSON.stringify(record) : "";
}

const pathOf = (name) => [...name.matchAll(STEP)].map(([, word, number, quoted]) => word ?? (number ? Number(number) : parsed(quoted)));

function put(whole, [step, ...rest], value) {
  if (step === undefined) return { ...whole, ...value };
  const copy = Array.isArray(whole) ? [...whole] : Number.isInteger(step) ? [] : { ...whole };
  copy[step] = put(copy[step], rest, value);
  return copy;
}

// The fields at the root of a schema; none where it does not name them.
function namesOf(schema) {
  let found = schema;
  for (let turn = 0; typeof found?.$ref === "string" && turn < MOST_TURNS; turn += 1) {
    found = found.$ref.split("/").slice(1).reduce((part, step) => part?.[step], schema);
  }
  return Object(found?.properties) === found?.properties ? Object.keys(found.properties) : null;
}

// The value of JSON as far as it is there, also after words; undefined where none begins.
function jsonSoFar(text) {
  const from = text.search(/[{[]/);
  if (from < 0) return undefined;
  const open = [];
  let [quoted, end, cut] = [false, text.length, from];
  for (let at = from; at < end; at += 1) {
    const sign = text[at];
    if (quoted && sign === "\\") {
      const long = text[at + 1] === "u" ? 6 : 2;
      if (at + long > text.length) end = at; // half of an escape
      else at += long - 1;
    } else if (sign === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (sign === "{" || sign === "[") {
      open.unshift(sign === "{" ? "}" : "]");
      cut = at + 1;
    } else if (sign === ",") cut = at;
    else if (sign === "}" || sign === "]") {
      open.shift();
      if (!open.length) return parsed(text.slice(from, at + 1));
    }
  }
  const begun = text.slice(from, end) + (quoted ? '"' : "");
  return parsed(begun + open.join("")) ?? parsed(text.slice(from, cut) + open.join(""));
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
