// The page: questions in, answers out, and what is kept of them.

import { failed, loadModels, said } from "./connection.js";
import { Attached } from "./documents.js";
import { forgotten, removing } from "./forgetting.js";
import * as history from "./history.js";
import { exchange, showList, side } from "./list.js";
import { announce, tell } from "./notices.js";
import { saveAnswer } from "./saving.js";
import { ask } from "./server.js";
import { AnswerView, comparison, element } from "./view.js";
import { welcome } from "./welcome.js";

const $ = (id) => document.getElementById(id);
const SHOWN_TURNS = 20; // of a conversation, until earlier ones are asked for
const KEEP_MS = 3_000; // between two times that an answer is kept while it is written
const LEFT = "The page was left before the answer was complete.";
const LONGEST_MARKED = 60; // characters of a question in the list

let conversation = history.newConversation();
let wanted = null; // the id of the conversation that was asked for last
let running = null; // AbortController
let left = false; // the browser is leaving the page, which breaks its calls off
let ended = Promise.resolve(); // the last answer, whether it was complete or not

const chosen = (id) => $(id).value;
const attached = new Attached($("documents"));

// Whether an answer is being written, which is said: what was asked for has to wait.
function isBusy() {
  if (running) tell("An answer is being written. Stop it first, or open this page once more.");
  return Boolean(running);
}

// Asking

function send(question, documents, turn = null) {
  if (isBusy()) return;
  ended = answer(question, documents, turn).catch((error) => tell(`This page has a defect: ${error?.message}`));
}

async function answer(...asked) {
  try {
    running = new AbortController();
    busy(true);
    await asking(...asked);
  } finally { // whatever went wrong: the page can be asked again
    running = null;
    busy(false);
  }
}

async function asking(question, documents, turn) {
  tell("");
  const asked = turn ?? { question, documents, answers: [] };
  if (!turn) conversation.turns.push(asked);
  conversation.title ||= question.slice(0, LONGEST_MARKED);
  const place = turn ? shownTurns.get(turn) : showTurn(asked);
  place.answers.replaceChildren();
  place.compared?.remove();
  scrollDown();
  const messages = history.messagesBefore(conversation, asked);
  const compare = $("compare").checked;
  place.answers.classList.toggle("two", compare);
  await keep();
  try {
    const first = await answered(place, asked, messages, chosen("strategy"), "Answer");
    asked.answers.push(first);
    if (compare && first.route?.strategy === "direct") {
      place.answers.classList.remove("two");
      tell("There is nothing to compare: the answer was written straight on. Choose another strategy.");
    } else if (compare && !first.stopped) {
      const straight = await answered(place, asked, messages, "direct", "Straight generation");
      if (!straight.stopped) {
        first.straight = straight;
        showComparison(place, first);
      }
    }
    addActions(place, asked);
  } finally {
    await keep(); // while the page is busy: nothing else is asked for before the answer is kept
  }
}

// Keep the conversation as it stands.
async function keep() {
  await write(conversation.turns);
  history.tellOthers();
  await listConversations();
}

async function write(turns) {
  try {
    if (await history.keep(conversation, turns)) tell("This conversation went on in another tab too. From here on, this is a separate one.");
    window.history.replaceState(null, "", `#${conversation.id}`);
  } catch (error) {
    tell(`This conversation is not kept: ${error?.message}`);
  }
}

// With what there is of an answer. The lists of conversations show nothing of it, and stay.
function keepUnfinished(turn, answer) {
  const unfinished = { ...turn, answers: [...turn.answers, { ...answer, stopped: LEFT }] };
  return write(conversation.turns.map((each) => (each === turn ? unfinished : each)));
}

function showComparison(place, answer) {
  place.compared = comparison(answer, answer.straight);
  place.answers.after(place.compared);
}

async function answered(place, turn, messages, strategy, title) {
  const view = new AnswerView(titleOf(title, turn), announce);
  if ($("compare").checked) view.root.prepend(element("h3", { class: "dim" }, strategy === "direct" ? "Straight generation" : strategy));
  place.answers.append(view.root);
  const documents = turn.documents.map(({ title: name, text }) => ({ title: name, text }));
  const request = {
    model: chosen("model"),
    messages,
    stretto: { strategy, preference: chosen("preference"), ...(documents.length ? { documents } : {}) },
  };
  const { signal } = running;
  let keptAt = performance.now();
  try {
    for await (const event of ask(request, signal)) {
      const down = isDown();
      view.see(event);
      if (down) scrollDown();
      if (!turn.answers.length && performance.now() - keptAt > KEEP_MS) {
        keptAt = performance.now();
        keepUnfinished(turn, view.record());
      }
    }
    if (!view.answer) view.end({ stopped: "The connection was lost.", problem: "The answer broke off. Ask again with Retry." });
  } catch (error) {
    const down = isDown();
    if (left) view.end({ stopped: LEFT });
    else if (signal.aborted) view.end({ stopped: `Stopped after ${view.seconds.toFixed(1)} s.` });
    else {
      view.end({ stopped: "Not complete.", problem: said(error) });
      failed(error);
    }
    if (down) scrollDown();
    announce(view.figures.textContent);
  }
  return view.record();
}

function busy(is) {
  $("send").disabled = is;
  const lost = [document.body, $("stop"), $("send")].includes(document.activeElement); // it was on a button that goes
  $("stop").hidden = !is;
  const touched = matchMedia("(pointer: coarse)").matches; // where a keyboard would cover the answer
  if (!is && lost && !touched) $("question").focus({ preventScroll: true });
}

// Showing a conversation

const shownTurns = new Map();

function showTurn(turn) {
  document.querySelector(".welcome")?.remove();
  const documents = turn.documents.map((each) => each.title).join(", ");
  const edit = element("button", { type: "button", class: "quiet", onclick: () => editTurn(turn) }, "Edit");
  const asked = element("div", { class: "asked" }, element("h2", { dir: "auto" }, turn.question),
    element("div", { class: "bar" }, documents ? element("span", { class: "dim" }, `with ${documents}`) : null, element("span", { class: "grow" }), edit));
  const answers = element("div", { class: "sides" });
  const root = element("article", { "aria-label": `Question: ${turn.question.slice(0, LONGEST_MARKED)}` }, asked, answers);
  $("conversation").append(root);
  const place = { root, answers, compared: null };
  shownTurns.set(turn, place);
  return place;
}

function showStored(turn, place) {
  const answer = turn.answers.at(-1) ?? { text: "", branches: [], stopped: "There is no answer: the page was left." };
  try {
    showWhole(answer, place, turn);
  } catch { // of another version, or out of a file that somebody changed
    place.answers.replaceChildren();
    AnswerView.of(titleOf("Answer", turn), { text: answer.text, branches: [], stopped: "Its figures cannot be shown." }, place.answers);
  }
  addActions(place, turn);
}

// Regions of a page have names of their own.
const titleOf = (title, turn) => `${title} ${conversation.turns.indexOf(turn) + 1}`;

function showWhole(answer, place, turn) {
  place.answers.classList.toggle("two", Boolean(answer.straight));
  AnswerView.of(titleOf("Answer", turn), answer, place.answers);
  if (!answer.straight) return;
  AnswerView.of(titleOf("Straight generation", turn), answer.straight, place.answers);
  showComparison(place, answer);
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
  if (!conversation.turns.length) return $("conversation").append(welcome((question) => send(question, [])));
  if (from > 0) {
    const earlier = element("button", { type: "button", onclick: () => show(Math.max(0, from - SHOWN_TURNS)) }, `Show ${from} earlier questions`);
    $("conversation").append(element("p", {}, earlier));
  }
  for (const turn of conversation.turns.slice(from)) showStored(turn, showTurn(turn));
  scrollDown();
}

function retry(turn) {
  if (isBusy()) return;
  const later = conversation.turns.slice(conversation.turns.indexOf(turn) + 1);
  if (later.length) branchAt(turn);
  const again = conversation.turns.at(-1);
  send(again.question, again.documents, again);
}

// Go on from an earlier question in a separate conversation; the one it comes from stays as it is.
function branchAt(turn) {
  const until = conversation.turns.indexOf(turn) + 1;
  const turns = structuredClone(conversation.turns.slice(0, until));
  conversation = { ...history.newConversation(), title: conversation.title, turns };
  show();
}

function editTurn(turn) {
  if (isBusy()) return;
  const { question, documents } = turn;
  branchAt(turn);
  conversation.turns.pop();
  show();
  attached.put(documents);
  $("question").value = question;
  $("question").focus();
  tell("Change the question and send it. The conversation so far stays in the list.");
}

const isDown = () => {
  const room = $("conversation");
  return room.scrollHeight - room.scrollTop - room.clientHeight < 120;
};
const scrollDown = () => ($("conversation").scrollTop = $("conversation").scrollHeight);

// The list of conversations

async function listConversations() {
  const kept = await history.all().catch((error) => (tell(`This browser keeps no conversations: ${error?.message}`), []));
  showList(kept, conversation.id, { open, forget });
}

// The conversation that the address names; its other fragments are places of the page.
const named = () => location.hash.match(/^#([0-9a-f-]{32,36})$/)?.[1];

async function open(id) {
  if (id === conversation.id || isBusy()) return side(false);
  const before = conversation;
  wanted = id;
  const found = await history.one(id).catch(() => null); // as it is now: another tab may have gone on with it
  if (wanted !== id || conversation !== before || isBusy()) return; // something else was asked for meanwhile
  if (!found) return startNew();
  conversation = found;
  location.hash = id;
  tell("");
  show();
  side(false);
  await listConversations();
}

async function forget(each) {
  wanted = null;
  if (each.id === conversation.id) await leave();
  if (each.id === conversation.id) startNew(); // first: a question that comes now belongs to the new one
  await forgotten(each.id, listConversations);
}

async function leave() {
  running?.abort();
  await ended;
}

function startNew() {
  if (isBusy()) return;
  tell("");
  conversation = history.newConversation();
  window.history.replaceState(null, "", location.pathname);
  show();
  side(false);
  $("question").focus();
}

// Wiring

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question || isBusy()) return;
  if (attached.reading) return tell("A document is still being read. Send the question when it is there.");
  $("question").value = "";
  send(question, attached.take());
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
exchange(listConversations);
$("delete-all").addEventListener("click", async () => {
  if (!confirm("Delete all conversations of this browser?")) return;
  wanted = null;
  await leave();
  startNew();
  await removing(history.removeAll(), listConversations);
});
attached.takeFrom($("attach"), $("question"), $("composer"));
addEventListener("hashchange", () => named() && open(named())); // back and forward
addEventListener("pagehide", () => (left = true));
addEventListener("pageshow", () => (left = false));
history.onChange(listConversations);

await loadModels();
await listConversations();
if (named()) await open(named());
else if (!running) show();
