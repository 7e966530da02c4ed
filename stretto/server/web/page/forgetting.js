// Conversations that are deleted, and brought back.

import * as history from "./history.js";
import { announce, notify } from "./notices.js";

const $ = (id) => document.getElementById(id);

// Delete a conversation, and offer to take that back. `list` shows the conversations that there are then.
export async function forgotten(id, list) {
  const removed = await history.one(id).catch(() => null);
  if (!(await removing(history.remove(id), list))) return;
  if (removed) notify(`“${removed.title || "Untitled"}” was deleted.`, () => bringBack(removed, list));
  focusOn("search"); // its own button was removed
}

// Returns whether it was deleted.
export async function removing(removed, list) {
  const deleted = await removed.then(() => true, (error) => notify(`Nothing was deleted: ${error?.message}`));
  await list();
  return deleted;
}

async function bringBack(removed, list) {
  const problem = await history.restore(removed).then(() => null, (error) => `It stays deleted: ${error?.message}`);
  await list();
  if (problem) notify(problem);
  else announce("It is back.");
  focusOn(`open-${removed.id}`, "search");
}

// The first of these that can be seen, unless something else has the focus. Where a keyboard would cover the page, no field.
function focusOn(...ids) {
  const touched = matchMedia("(pointer: coarse)").matches;
  for (const id of ids) {
    if (document.activeElement !== document.body) return;
    if (!touched || $(id)?.tagName === "BUTTON") $(id)?.focus({ preventScroll: true });
  }
}
