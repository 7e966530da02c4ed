// Conversations, kept in this browser only.

import { isTurn } from "./turns.js";

const NAME = "stretto", STORE = "conversations";

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function inStore(mode, act) {
  const base = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = base.transaction(STORE, mode);
      const request = act(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request?.result);
      transaction.onabort = () => reject(transaction.error ?? new Error("The browser did not write it."));
    });
  } finally {
    base.close();
  }
}

// Not crypto.randomUUID: a page that came over the network without encryption does not have it.
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const others = new BroadcastChannel(NAME); // pages of this browser that show the same list

export const onChange = (act) => (others.onmessage = act);
export const tellOthers = () => others.postMessage("changed");
export const newConversation = () => ({ id: newId(), title: "", changed: 0, turns: [] });

export const all = async () => (await inStore("readonly", (store) => store.getAll())).sort((a, b) => b.changed - a.changed);
export const one = (id) => inStore("readonly", (store) => store.get(id));

// Keep a conversation, with `turns` instead of its own if they are given. If another page wrote the same one since it was
// read here, this one goes on under another id, so that neither is lost. Returns whether that was so.
export function keep(conversation, turns = conversation.turns) {
  keeping = keeping.catch(() => {}).then(() => put(conversation, turns)); // one after the other: each reads what the last wrote
  return keeping;
}

let keeping = Promise.resolve();

async function put(conversation, turns) {
  let written;
  await inStore("readwrite", (store) => {
    const kept = store.get(conversation.id);
    kept.onsuccess = () => {
      const apart = kept.result !== undefined && kept.result.changed !== conversation.changed;
      const changed = Math.max(Date.now(), conversation.changed + 1);
      written = { ...conversation, id: apart ? newId() : conversation.id, changed, turns };
      store.put(written);
    };
  });
  const apart = written.id !== conversation.id;
  Object.assign(conversation, { id: written.id, changed: written.changed }); // only now: it is written
  return apart;
}

async function changing(act) {
  await inStore("readwrite", act);
  tellOthers();
}

export const remove = (id) => changing((store) => store.delete(id));
// Put back one that was removed. Where another page went on with it meanwhile, that one stays as it is.
export const restore = (conversation) => changing((store) => {
  const kept = store.get(conversation.id);
  kept.onsuccess = () => kept.result ?? store.put(conversation);
});
// Give it another title; when it last changed stays, and so does its place in the list.
export const rename = (id, title) => changing((store) => {
  const kept = store.get(id);
  kept.onsuccess = () => kept.result && store.put({ ...kept.result, title, named: true });
});
export const removeAll = () => changing((store) => store.clear());

export const exported = async () =>
  new Blob([JSON.stringify({ stretto: 1, conversations: await all() }, null, 1)], { type: "application/json" });

// Read an export. What is not a conversation is refused as a whole: nothing is kept of a file that is only half right.
// A conversation that went on since it was exported is not overwritten; the one of the file comes beside it, once. Returns
// how many were added.
export async function imported(text) {
  const found = JSON.parse(text);
  const conversations = found?.conversations;
  const isText = (value) => typeof value === "string";
  const right = Array.isArray(conversations) && conversations.every((each) =>
    isText(each?.id) && isText(each.title) && Array.isArray(each.turns) && each.turns.every(isTurn));
  if (!right) throw new Error("This file holds no conversations that were exported here.");
  const kept = await all();
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
  if (added.length) await changing((store) => void added.forEach((each) => store.put(each)));
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
