// The page: questions in, answers out, and what is kept of them.

import * as history from "./history.js";
import { Refused, ask, isThere, models, pageOf, readDocument, setKey } from "./server.js";
import { AnswerView, comparison, element } from "./view.js";

const $ = (id) => document.getElementById(id);
const SHOWN_TURNS = 20; // of a conversation, until earlier ones are asked for
const AGAIN_MS = 2_000; // between two looks whether the server is back
const LONGEST_MARKED = 60; // characters of a question in the list
const EXAMPLES = ["How do I look after a bicycle?", "Why is the sky blue?", "What should I pack for a week by the sea?"];

let conversation = history.newConversation();
let attached = []; // {title, text}
let running = null; // AbortController
let waitingForServer = null;

const announce = (text) => ($("status").textContent = text);
const chosen = (id) => $(id).value;

// Asking

async function send(question, documents, turn = null) {
  if (running) return;
  running = new AbortController();
  busy(true);
  const asked = turn ?? { question, documents, answers: [] };
  if (!turn) conversation.turns.push(asked);
  conversation.title ||= question.slice(0, LONGEST_MARKED);
  const place = turn ? shownTurns.get(turn) : showTurn(asked);
  place.answers.replaceChildren();
  scrollDown();
  const messages = messagesBefore(asked);
  const compare = $("compare").checked;
  place.answers.classList.toggle("two", compare);
  try {
    const answer = await answered(place, asked, messages, chosen("strategy"), "The answer");
    if (answer) asked.answers.push(answer);
    if (compare && answer && !answer.stopped) {
      const straight = await answered(place, asked, messages, "direct", "Straight generation");
      if (straight && !straight.stopped) {
        answer.straight = straight;
        place.answers.after(comparison(answer, straight));
      }
    }
    if (answer) addActions(place, asked);
  } finally {
    running = null;
    busy(false);
    await history.keep(conversation).catch((error) => announce(`This conversation is not kept: ${error}`));
    await listConversations();
  }
}

async function answered(place, turn, messages, strategy, title) {
  const view = new AnswerView(title, announce);
  if ($("compare").checked) view.root.prepend(element("h3", { class: "dim" }, strategy === "direct" ? "Straight generation" : strategy));
  place.answers.append(view.root);
  const documents = turn.documents.map(({ title: name, text }) => ({ title: name, text }));
  const request = {
    model: chosen("model"),
    messages,
    stretto: { strategy, preference: chosen("preference"), ...(documents.length ? { documents } : {}) },
  };
  const { signal } = running;
  try {
    for await (const event of ask(request, signal)) {
      const down = isDown();
      view.see(event);
      if (down) scrollDown();
    }
    if (!view.answer) view.end({ stopped: "The connection was lost.", problem: "The answer broke off. Ask again with Retry." });
  } catch (error) {
    if (signal.aborted) view.end({ stopped: `Stopped after ${view.seconds.toFixed(1)} s.` });
    else {
      view.end({ stopped: "Not complete.", problem: said(error) });
      if (error instanceof Refused && error.status === 401) showKeyForm();
      else if (!(error instanceof Refused)) waitForServer();
    }
    announce(view.figures.textContent);
  }
  return view.record();
}

const said = (error) => (error instanceof Refused ? error.message : "The server cannot be reached. Retry asks again when it is back.");

function messagesBefore(turn) {
  const messages = [];
  for (const each of conversation.turns) {
    messages.push({ role: "user", content: each.question });
    if (each === turn) return messages;
    const text = each.answers.at(-1)?.text;
    if (text) messages.push({ role: "assistant", content: text });
    else messages.pop(); // a question without an answer
  }
  return messages;
}

function busy(is) {
  $("send").disabled = is;
  $("stop").hidden = !is;
  if (!is) $("question").focus({ preventScroll: true });
}

// Showing a conversation

const shownTurns = new Map();

function showTurn(turn) {
  document.querySelector(".welcome")?.remove();
  const documents = turn.documents.map((each) => each.title).join(", ");
  const edit = element("button", { type: "button", class: "quiet", onclick: () => editTurn(turn) }, "Edit");
  const asked = element("div", { class: "asked" }, element("h2", {}, turn.question),
    element("div", { class: "bar" }, documents ? element("span", { class: "dim" }, `with ${documents}`) : null, element("span", { class: "grow" }), edit));
  const answers = element("div", { class: "sides" });
  const root = element("article", { "aria-label": `Question: ${turn.question.slice(0, LONGEST_MARKED)}` }, asked, answers);
  $("conversation").append(root);
  const place = { root, answers };
  shownTurns.set(turn, place);
  return place;
}

function showStored(turn, place) {
  const answer = turn.answers.at(-1);
  if (!answer) return;
  place.answers.append(AnswerView.of("The answer", answer).root);
  if (answer.straight) {
    place.answers.classList.add("two");
    place.answers.append(AnswerView.of("Straight generation", answer.straight).root);
    place.answers.after(comparison(answer, answer.straight));
  }
  addActions(place, turn);
}

function addActions(place, turn) {
  const actions = place.answers.querySelector(".actions");
  actions.append(
    element("button", { type: "button", class: "quiet", onclick: () => retry(turn) }, "Retry"),
    element("button", { type: "button", class: "quiet", onclick: () => saveAnswer(turn) }, "Save as a page"),
  );
  if (turn.answers.length > 1) actions.append(element("span", { class: "dim" }, `answer ${turn.answers.length} of ${turn.answers.length}`));
}

function show(from = Math.max(0, conversation.turns.length - SHOWN_TURNS)) {
  shownTurns.clear();
  $("conversation").replaceChildren();
  if (!conversation.turns.length) return welcome();
  if (from > 0) {
    const earlier = element("button", { type: "button", onclick: () => show(Math.max(0, from - SHOWN_TURNS)) }, `Show ${from} earlier questions`);
    $("conversation").append(element("p", {}, earlier));
  }
  for (const turn of conversation.turns.slice(from)) showStored(turn, showTurn(turn));
  scrollDown();
}

function welcome() {
  const buttons = EXAMPLES.map((question) => element("button", { type: "button", onclick: () => send(question, []) }, question));
  $("conversation").append(element("div", { class: "welcome" },
    element("p", {}, "Answers are written in several places at once, where that does them good."), ...buttons));
}

async function retry(turn) {
  if (running) return;
  const later = conversation.turns.slice(conversation.turns.indexOf(turn) + 1);
  if (later.length) branchAt(turn);
  const again = conversation.turns.at(-1);
  await send(again.question, again.documents, again);
}

// Go on from an earlier question in a conversation of its own; the one it comes from stays as it is.
function branchAt(turn) {
  const until = conversation.turns.indexOf(turn) + 1;
  const turns = structuredClone(conversation.turns.slice(0, until));
  conversation = { ...history.newConversation(), title: conversation.title, turns };
  show();
}

function editTurn(turn) {
  if (running) return;
  const { question, documents } = turn;
  branchAt(turn);
  conversation.turns.pop();
  show();
  attached = [...documents];
  showAttached();
  $("question").value = question;
  $("question").focus();
  announce("Change the question and send it. The conversation so far stays in the list.");
}

async function saveAnswer(turn) {
  const answer = turn.answers.at(-1);
  if (answer.stopped) return announce("Only a complete answer can be saved as a page.");
  const { straight, ...whole } = answer;
  try {
    history.saveFile("answer.html", await pageOf(turn.question, whole));
  } catch (error) {
    announce(said(error));
  }
}

const isDown = () => {
  const room = $("conversation");
  return room.scrollHeight - room.scrollTop - room.clientHeight < 120;
};
const scrollDown = () => ($("conversation").scrollTop = $("conversation").scrollHeight);

// The list of conversations

async function listConversations() {
  const words = $("search").value.trim().toLowerCase();
  const found = (await history.all()).filter((each) => !words || JSON.stringify(each.turns.map((turn) => [turn.question, turn.answers.at(-1)?.text])).toLowerCase().includes(words));
  $("conversations").replaceChildren(...found.map((each) => element("li", {},
    element("button", { type: "button", "aria-current": each.id === conversation.id ? "true" : null, onclick: () => open(each) }, each.title || "Untitled"),
    element("button", { type: "button", class: "quiet", "aria-label": `Delete ${each.title}`, onclick: () => forget(each) }, "✕"))));
}

function open(other) {
  if (running) return;
  conversation = other;
  location.hash = other.id;
  show();
  side(false);
  listConversations();
}

async function forget(each) {
  await history.remove(each.id);
  if (each.id === conversation.id) startNew();
  await listConversations();
}

function startNew() {
  if (running) return;
  conversation = history.newConversation();
  window.history.replaceState(null, "", location.pathname);
  show();
  side(false);
  $("question").focus();
}

function side(isOpen) {
  $("side").classList.toggle("open", isOpen);
  $("open-side").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) $("close-side").focus();
}

// Documents

async function attach(files) {
  for (const file of files) {
    try {
      attached.push(await readDocument(file));
    } catch (error) {
      announce(said(error));
      $("documents").append(element("li", { class: "problem" }, said(error)));
      return;
    }
  }
  showAttached();
}

function showAttached() {
  $("documents").replaceChildren(...attached.map((each, index) => element("li", {}, each.title,
    element("button", { type: "button", class: "quiet", "aria-label": `Take ${each.title} out`, onclick: () => { attached.splice(index, 1); showAttached(); } }, "✕"))));
}

// The server

async function loadModels() {
  try {
    const names = (await models()).filter((name) => !name.startsWith("stretto-")); // the strategy is chosen beside
    $("model").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    $("key-form").hidden = true;
    $("away").hidden = true;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) showKeyForm();
    else waitForServer();
  }
}

function showKeyForm() {
  $("key-form").hidden = false;
  $("key").focus();
}

function waitForServer() {
  if (waitingForServer) return;
  $("away").textContent = "The server is away. This page looks for it and goes on when it is back.";
  $("away").hidden = false;
  waitingForServer = setInterval(async () => {
    if (!(await isThere())) return;
    clearInterval(waitingForServer);
    waitingForServer = null;
    $("away").hidden = true;
    announce("The server is back.");
    if (!$("model").options.length) loadModels();
  }, AGAIN_MS);
}

// Wiring

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question || running) return;
  $("question").value = "";
  const documents = attached;
  attached = [];
  showAttached();
  send(question, documents);
});
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (running) running.abort();
  else side(false);
});
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", startNew);
$("search").addEventListener("input", listConversations);
$("open-side").addEventListener("click", () => side(true));
$("close-side").addEventListener("click", () => { side(false); $("open-side").focus(); });
$("export").addEventListener("click", async () => history.saveFile("conversations.json", await history.exported()));
$("import").addEventListener("change", async (event) => {
  try {
    announce(`${await history.imported(await event.target.files[0].text())} conversations were imported.`);
  } catch (error) {
    announce(`Nothing was imported: ${error.message}`);
  }
  event.target.value = "";
  await listConversations();
});
$("delete-all").addEventListener("click", async () => {
  if (!confirm("Delete all conversations of this browser?")) return;
  await history.removeAll();
  startNew();
  await listConversations();
});
$("attach").addEventListener("change", async (event) => {
  await attach([...event.target.files]);
  event.target.value = "";
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  $("composer").addEventListener(kind, (event) => {
    event.preventDefault();
    $("composer").classList.toggle("drop", kind === "dragover");
    if (kind === "drop") attach([...event.dataTransfer.files]);
  });
}
$("question").addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) {
    event.preventDefault();
    attach([...event.clipboardData.files]);
  }
});
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey($("key").value.trim());
  $("key").value = "";
  loadModels();
});

await loadModels();
await listConversations();
const named = (await history.all()).find((each) => `#${each.id}` === location.hash);
if (named) open(named);
else show();
