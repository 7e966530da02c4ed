// The list of conversations at the side, with its files, and what opens where the page is narrow: this list, and the
// choices above.

import { exported, imported, saveFile } from "./history.js";
import { tell } from "./notices.js";
import { element } from "./view.js";

const $ = (id) => document.getElementById(id);

// Show those that hold the words that are searched for; `current` is the id of the one that is open.
export function showList(conversations, current, { open, forget }) {
  const words = $("search").value.trim().toLowerCase();
  const text = (each) => JSON.stringify(each.turns.map((turn) => [turn.question, turn.answers.at(-1)?.text])).toLowerCase();
  const found = conversations.filter((each) => !words || text(each).includes(words));
  const focused = $("conversations").contains(document.activeElement) ? document.activeElement : null;
  $("conversations").replaceChildren(...found.map((each) => element("li", {},
    element("button", { type: "button", id: `open-${each.id}`, dir: "auto", "aria-current": each.id === current ? "true" : null, onclick: () => open(each.id) }, each.title || "Untitled"),
    element("button", { type: "button", id: `delete-${each.id}`, class: "quiet", "aria-label": `Delete ${each.title}`, onclick: () => forget(each) }, "✕"))));
  if (focused) $(focused.id)?.focus({ preventScroll: true });
}

// Export to a file and import from one; `list` shows what is there then.
export function exchange(list) {
  $("export").addEventListener("click", async () => saveFile("conversations.json", await exported()));
  $("import").addEventListener("change", async (event) => {
    try {
      tell(`${await imported(await event.target.files[0].text())} conversations were imported.`);
    } catch (error) {
      tell(`Nothing was imported: ${error?.message}`);
    }
    event.target.value = "";
    await list();
  });
}

export function side(isOpen) {
  $("side").classList.toggle("open", isOpen);
  $("open-side").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) $("close-side").focus();
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
$("open-choices").addEventListener("click", () => {
  const isOpen = $("choices").classList.toggle("open");
  $("open-choices").setAttribute("aria-expanded", String(isOpen));
});
