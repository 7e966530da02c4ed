// What the page says of itself.

const $ = (id) => document.getElementById(id);

// To those who hear the page.
export const announce = (text) => ($("status").textContent = text);

// To everyone, until the next question.
export function tell(text) {
  $("told").textContent = text;
  $("told").hidden = !text;
  if (text) announce(text);
}
