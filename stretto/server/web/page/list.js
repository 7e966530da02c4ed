// The list of conversations at the side, with its files. Where the page is narrow, it is a drawer.

import { element } from "./element.js";
import { exported, having, imported, saveFile } from "./history.js";
import { notify } from "./notices.js";

const $ = (id) => document.getElementById(id);
const DAY_MS = 86_400_000;
const RECENT_DAYS = 7;

const wordsOf = () => $("search").value.trim().toLowerCase();

// Show those that hold the words that are searched for; `current` is the id of the one that is open.
export async function showList(conversations, current, acts) {
  const words = wordsOf();
  const ids = words && (await having(words).catch(() => new Set()));
  if (words !== wordsOf() || $("conversations").querySelector("input")) return; // other words, or one is being renamed
  const found = conversations.filter((each) => !words || ids.has(each.id) || each.title.toLowerCase().includes(words));
  const focused = $("conversations").contains(document.activeElement) ? document.activeElement : null;
  const groups = Map.groupBy(found, (each) => dayOf(each.changed));
  $("conversations").replaceChildren(...[...groups].flatMap(([day, some]) => [
    element("h2", {}, day),
    element("ul", { "aria-label": day }, ...some.map((each) => row(each, current, acts))),
  ]));
  if (words && !found.length) $("conversations").append(element("p", { class: "dim" }, "No conversation has these words."));
  if (focused) $(focused.id)?.focus({ preventScroll: true });
}

function row(each, current, { open, forget, rename }) {
  const title = each.title || "Untitled";
  const root = element("li", {},
    element("button", { type: "button", id: `open-${each.id}`, dir: "auto", title, "aria-current": each.id === current ? "true" : null, onclick: () => open(each.id) }, title),
    element("button", { type: "button", id: `rename-${each.id}`, class: "quiet", title: "Rename", "aria-label": `Rename ${title}`, onclick: () => renamed(root, each, rename) }, "✎"),
    element("button", { type: "button", id: `delete-${each.id}`, class: "quiet", title: "Delete", "aria-label": `Delete ${title}`, onclick: () => forget(each) }, "✕"));
  return root;
}

// In its own place: Enter keeps the new title, Escape the old one.
function renamed(root, each, rename) {
  const field = element("input", { type: "text", "aria-label": `New name of ${each.title}`, maxlength: "200" });
  field.value = each.title;
  let done = false;
  const finish = async (title) => {
    if (done) return;
    done = true;
    field.remove();
    await rename(each, title || each.title);
    $(`rename-${each.id}`)?.focus({ preventScroll: true });
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") finish(field.value.trim());
    if (event.key !== "Escape") return;
    event.stopPropagation();
    finish(each.title);
  });
  field.addEventListener("blur", () => finish(field.value.trim()));
  root.replaceChildren(field);
  field.select();
}

function dayOf(time) {
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / DAY_MS);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= RECENT_DAYS) return `Last ${RECENT_DAYS} days`;
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

// Export to a file and import from one; `list` shows what is there then.
export function exchange(list) {
  $("export").addEventListener("click", async () => saveFile("conversations.json", await exported()));
  $("import").addEventListener("change", async (event) => {
    $("files").hidePopover();
    try {
      notify(`${await imported(await event.target.files[0].text())} conversations were imported.`);
    } catch (error) {
      notify(`Nothing was imported: ${error?.message}`);
    }
    event.target.value = "";
    await list();
  });
}

export function side(isOpen) {
  $("side").classList.toggle("open", isOpen);
  $("open-side").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) $("new").focus();
}

$("open-side").addEventListener("click", (event) => {
  event.stopPropagation();
  side(true);
});
$("right").addEventListener("click", () => side(false)); // beside it
$("close-side").addEventListener("click", () => {
  side(false);
  $("open-side").focus();
});
