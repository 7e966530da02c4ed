// Conversations, kept in this browser only.

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
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    base.close();
  }
}

export const newConversation = () => ({ id: crypto.randomUUID(), title: "", changed: Date.now(), turns: [] });

export const all = async () => (await inStore("readonly", (store) => store.getAll())).sort((a, b) => b.changed - a.changed);
export const keep = (conversation) => inStore("readwrite", (store) => store.put({ ...conversation, changed: Date.now() }));
export const remove = (id) => inStore("readwrite", (store) => store.delete(id));
export const removeAll = () => inStore("readwrite", (store) => store.clear());

export const exported = async () =>
  new Blob([JSON.stringify({ stretto: 1, conversations: await all() }, null, 1)], { type: "application/json" });

// Read an export. What is not a conversation is refused as a whole: nothing is kept of a file that is only half right.
export async function imported(text) {
  const found = JSON.parse(text);
  const conversations = found?.conversations;
  const isText = (value) => typeof value === "string";
  const right = Array.isArray(conversations) && conversations.every((each) =>
    isText(each?.id) && isText(each.title) && Array.isArray(each.turns) && each.turns.every((turn) =>
      isText(turn?.question) && Array.isArray(turn.documents) && Array.isArray(turn.answers)));
  if (!right) throw new Error("This file holds no conversations that were exported here.");
  for (const each of conversations) await keep(each);
  return conversations.length;
}

export function saveFile(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
