// Calls to the server this page came from.

import { events } from "./sse.js";

const KEY = "stretto-key";

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const setKey = (key) => sessionStorage.setItem(KEY, key);
export const hasKey = () => Boolean(sessionStorage.getItem(KEY));

// A header holds bytes, which `fetch` takes as the characters up to 255; the server compares the UTF-8 of a key.
const utf8 = (text) => String.fromCharCode(...new TextEncoder().encode(text));

function headers() {
  const key = sessionStorage.getItem(KEY);
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${utf8(key)}` } : {}) };
}

async function call(path, how = {}) {
  const response = await fetch(path, { ...how, headers: { ...headers(), ...how.headers } });
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new Refused(body?.error?.message ?? `The server answered ${response.status}.`, response.status);
}

// The names of what is served, and whether each takes pictures.
export const models = async () =>
  new Map((await (await call("v1/models")).json()).data.map((each) => [each.id, each.architecture.input_modalities.includes("image")]));

// What is done while models are being loaded, for which the first answer waits; empty once they are loaded. And what
// requests of local models wait for. A browser reports a 503 of /ready as an error.
export const whatWaits = async () => {
  try {
    const { prepared, loading, waiting } = await (await fetch("health")).json();
    return { loading: prepared === false ? loading || "a moment" : "", waiting: waiting ?? "" };
  } catch {
    return { loading: "", waiting: "" };
  }
};

export const isThere = async () => {
  try {
    return (await fetch("health")).ok;
  } catch {
    return false;
  }
};

// Throws why answers cannot have this form.
export const checkForm = (model, form) => call("v1/route", {
  method: "POST",
  body: JSON.stringify({ model, messages: [{ role: "user", content: "Is this a schema?" }], response_format: form, stretto: { strategy: "direct" } }),
});

export async function readDocument(file) {
  const path = `web/read?name=${encodeURIComponent(file.name)}`;
  const response = await call(path, { method: "POST", body: file, headers: { "content-type": "application/octet-stream" } });
  return response.json();
}

export const pageOf = async (question, answer) =>
  (await call("web/page", { method: "POST", body: JSON.stringify({ question, answer }) })).blob();

// Ask, and give every event of the answer: those of its branches, and {type: "text"} for its text.
export async function* ask(request, signal) {
  const body = { ...request, stream: true, stretto: { events: true, ...request.stretto } };
  const bytes = new Blob([JSON.stringify(body)]); // a string would be copied while the page waits
  const response = await call("v1/chat/completions", { method: "POST", body: bytes, signal });
  for await (const { name, data } of events(response)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new Refused(event.error.message, 0);
    if (name.startsWith("stretto.")) yield event;
    else {
      const delta = event.choices?.[0]?.delta ?? {};
      const thought = delta.reasoning_content ?? delta.reasoning;
      if (thought) yield { type: "reasoning", text: thought };
      if (delta.content) yield { type: "text", text: delta.content };
    }
  }
}
