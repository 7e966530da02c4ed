// What was chosen last, kept in this browser.

const KEY = "stretto-choices";
const choices = ["model", "strategy", "preference"].map((id) => document.getElementById(id));

export function restoreChoices() {
  const kept = read();
  for (const choice of choices) {
    if ([...choice.options].some((option) => option.value === kept[choice.id])) choice.value = kept[choice.id];
  }
}

// Models that are not served now stay chosen for when they are again, unless another one is chosen.
function keepChoice({ target }) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...read(), [target.id]: target.value }));
  } catch { // this browser keeps nothing
  }
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch { // nothing can be read, or somebody changed it
    return {};
  }
}

for (const choice of choices) choice.addEventListener("change", keepChoice);
