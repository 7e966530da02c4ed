// The server this page came from: its models, its key, and what to do while it is away.

import { restoreChoices } from "./choices.js";
import { announce, notify } from "./notices.js";
import { Refused, hasKey, isThere, models, setKey } from "./server.js";
import { element } from "./element.js";
import { isDemonstration } from "./examples.js";

const $ = (id) => document.getElementById(id);
const AGAIN_MS = 2_000; // between two looks whether the server is back

let waiting = null;
let known = new Map(); // of the names that are served, whether they take pictures

// The name of the model that answers; empty while none is known.
export const model = () => $("model").selectedOptions[0]?.textContent ?? "";

export const takesPictures = () => known.get($("model").value) ?? true; // the server says it otherwise

const PREFIX = "stretto:"; // before the name of each model that is served

export async function loadModels() {
  try {
    known = await models();
    const served = [...known.keys()].filter((name) => name.startsWith(PREFIX)).map((name) => name.slice(PREFIX.length));
    const options = served.length === 1
      ? [["stretto", served[0]]]
      : [["stretto", "Chosen for each question"], ...served.map((name) => [PREFIX + name, name])];
    $("model").replaceChildren(...options.map(([value, name]) => element("option", { value }, name)));
    restoreChoices();
    showModel();
    $("key-form").hidden = true;
    $("away").hidden = true;
  } catch (error) {
    failed(error);
  }
}

function showModel() {
  $("demonstration").hidden = !isDemonstration(model());
}

// A call failed: ask for the key, or wait until the server is back. The refusal is shown elsewhere.
export function failed(error) {
  if (!(error instanceof Refused)) waitForServer();
  else if (error.status === 401) showKeyForm();
  else if (!$("model").options.length) waitForServer(); // it is there, and not ready yet
}

export const messageOf = (error) => (error instanceof Refused ? error.message : "The server cannot be reached.");

function showKeyForm() {
  if (hasKey()) notify("The server does not know this key.");
  $("key-form").hidden = false;
  $("key").focus();
}

function waitForServer() {
  if (waiting) return;
  $("away").textContent = "The server is away. This page looks for it and goes on when it is back.";
  $("away").hidden = false;
  waiting = setInterval(async () => {
    if (!(await isThere())) return;
    clearInterval(waiting);
    waiting = null;
    $("away").hidden = true;
    announce("The server is back.");
    if (!$("model").options.length) loadModels();
  }, AGAIN_MS);
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey($("key").value.trim());
  $("key").value = "";
  notify("");
  loadModels();
});
$("model").addEventListener("change", showModel);
