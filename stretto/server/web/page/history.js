// Conversations, kept in this browser only.

import { isSchema, isTurn, shownAnswer } from "./turns.js";

// A conversation and its questions are apart: the list needs no questions, and a new one is written without the others.
const NAME = "stretto", VERSION = 2, HEADS = "conversations", TURNS = "turns"; // a turn's key is [conversation, number]

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => upgrade(request.result, request.transaction);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// Version 1 kept each conversation with its turns in one.
function upgrade(base, transaction) {
  if (!base.objectStoreNames.contains(HEADS)) base.createObjectStore(HEADS, { keyPath: "id" });
  const turns = base.createObjectStore(TURNS);
  transaction.objectStore(HEADS).openCursor().onsuccess = ({ target: { result: cursor } }) => {
    if (!cursor) return;
    cursor.value.turns.forEach((turn, at) => turns.put(turn, [cursor.value.id, at]));
    cursor.update(headOf(cursor.value));
    cursor.continue();
  };
}

async function inStore(mode, act) {
  const base = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = base.transaction([HEADS, TURNS], mode);
      const request = act(transaction.objectStore(HEADS), transaction.objectStore(TURNS));
      transaction.oncomplete = () => resolve(request?.result);
      transaction.onabort = () => reject(transaction.error ?? new Error("The browser did not write it."));
    });
  } finally {
    base.close();
  }
}

const headOf = ({ turns, unkept, ...head }) => head;
const turnsOf = (id, from = 0) => IDBKeyRange.bound([id, from], [id, Infinity]);

function write(heads, turns, conversation, from = 0) {
  turns.delete(turnsOf(conversation.id, from));
  conversation.turns.slice(from).forEach((turn, at) => turns.put(turn, [conversation.id, from + at]));
  heads.put(headOf(conversation));
}

// Not crypto.randomUUID: a page that came over the network without encryption does not have it.
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const others = new BroadcastChannel(NAME); // pages of this browser that show the same list

export const onChange = (act) => (others.onmessage = act);
export const notifyOthers = () => others.postMessage("changed");
export const newConversation = () => ({ id: newId(), title: "", changed: 0, turns: [] });

// All without their turns, the one that changed last first.
export const all = async () => (await inStore("readonly", (heads) => heads.getAll())).sort((a, b) => b.changed - a.changed);

export async function one(id) {
  let turns;
  const head = await inStore("readonly", (heads, kept) => {
    turns = kept.getAll(turnsOf(id));
    return heads.get(id);
  });
  return head && { ...head, turns: turns.result };
}

const whole = async () => Promise.all((await all()).map((each) => one(each.id)));

// The ids of those that have these words in a question or in the answer that is shown.
export async function having(words) {
  let keys;
  const turns = await inStore("readonly", (heads, kept) => {
    keys = kept.getAllKeys();
    return kept.getAll();
  });
  const has = (turn) => `${turn.question}\n${shownAnswer(turn)?.text ?? ""}`.toLowerCase().includes(words);
  return new Set(keys.result.filter((key, at) => has(turns[at])).map(([id]) => id));
}

// Keep a conversation whose turns changed from one on, with `turns` instead of its own if they are given. If another page
// wrote the same one since it was read here, this one goes on under another id, so that neither is lost. Returns whether
// that was so.
export function keep(conversation, from, turns = conversation.turns) {
  keeping = keeping.catch(() => {}).then(() => put(conversation, from, turns)); // one after the other: each reads what the last wrote
  return keeping;
}

let keeping = Promise.resolve();

async function put(conversation, from, turns) {
  const first = Math.min(from, conversation.unkept ?? Infinity); // what could not be written before is written now
  conversation.unkept = first;
  let written;
  await inStore("readwrite", (heads, kept) => {
    const before = heads.get(conversation.id);
    before.onsuccess = () => {
      const apart = before.result !== undefined && before.result.changed !== conversation.changed;
      const changed = Math.max(Date.now(), conversation.changed + 1);
      written = { ...conversation, id: apart ? newId() : conversation.id, changed, turns };
      write(heads, kept, written, apart || !before.result ? 0 : first); // all, where another page deleted it meanwhile
    };
  });
  const apart = written.id !== conversation.id;
  Object.assign(conversation, { id: written.id, changed: written.changed, unkept: Infinity }); // only now: it is written
  return apart;
}

async function changing(act) {
  await inStore("readwrite", act);
  notifyOthers();
}

export const remove = (id) => changing((heads, turns) => {
  heads.delete(id);
  turns.delete(turnsOf(id));
});
// Put back one that was removed. Where another page went on with it meanwhile, that one stays as it is.
export const restore = (conversation) => changing((heads, turns) => {
  const kept = heads.get(conversation.id);
  kept.onsuccess = () => kept.result ?? write(heads, turns, conversation);
});
// Give it another title; when it last changed stays, and so does its place in the list.
export const rename = (id, title) => changing((heads) => {
  const kept = heads.get(id);
  kept.onsuccess = () => kept.result && heads.put({ ...kept.result, title, named: true });
});
export const removeAll = () => changing((heads, turns) => {
  heads.clear();
  turns.clear();
});

export const exported = async () =>
  new Blob([JSON.stringify({ stretto: 1, conversations: await whole() }, null, 1)], { type: "application/json" });

// Read an export. What is not a conversation is refused as a whole: nothing is kept of a file that is only half right.
// A conversation that went on since it was exported is not overwritten; the one of the file is added next to it, once. Returns
// how many were added.
export async function imported(text) {
  const found = JSON.parse(text);
  const conversations = found?.conversations;
  const isText = (value) => typeof value === "string";
  const right = Array.isArray(conversations) && conversations.every((each) =>
    isText(each?.id) && isText(each.title) && (each.schema === undefined || isSchema(each.schema)) && Array.isArray(each.turns) && each.turns.every(isTurn));
  if (!right) throw new Error("This file holds no conversations that were exported here.");
  const kept = await whole();
  const ids = new Set(kept.map((each) => each.id));
  const seen = new Set(kept.flatMap((each) => [each.from, asText(each)])); // `from` says of what a copy was made
  const added = [];
  for (const each of conversations) {
    const from = `${each.id} ${each.changed}`;
    if (seen.has(from) || seen.has(asText(each))) continue;
    const changed = Number.isFinite(each.changed) ? each.changed : 0;
    added.push(ids.has(each.id) ? { ...each, id: newId(), changed, from } : { ...each, changed });
    seen.add(asText(each));
    ids.add(each.id);
  }
  if (added.length) await changing((heads, turns) => void added.forEach((each) => write(heads, turns, each)));
  return added.length;
}

const asText = ({ id, turns }) => `${id} ${JSON.stringify(turns)}`;

export function saveFile(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
