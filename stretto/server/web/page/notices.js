// What the page says of itself.

const $ = (id) => document.getElementById(id);

// To those who hear the page.
export const announce = (text) => ($("status").textContent = text);

// To everyone, until there is another notice; with a button that takes back what was done, if it can be taken back.
export function notify(text, undo = null) {
  $("notice").textContent = text;
  if (undo) $("notice").append(undoButton(undo));
  $("notice").hidden = !text;
  if (text) announce(undo ? `${text} The button Undo brings it back.` : text);
}

function undoButton(undo) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Undo";
  button.addEventListener("click", () => (notify(""), undo()));
  return button;
}
