// The page: questions in, answers out, and what is kept of them.

import { compose, enqueue, invite, queue, showQueue } from "./composer.js";
import { failed, loadModels, messageOf, model, takesPictures } from "./connection.js";
import { Attached } from "./documents.js";
import { element } from "./element.js";
import { isDemonstration, isGreeting } from "./examples.js";
import { routeOf } from "./fields.js";
import { forgotten, removing } from "./forgetting.js";
import * as history from "./history.js";
import { exchange, showList, side } from "./list.js";
import { announce, notify } from "./notices.js";
import { chooseForm, formOf, showForm } from "./schema.js";
import { ask, whatWaits } from "./server.js";
import { TurnView } from "./turn_view.js";
import { messagesBefore, newVersion, textsOf, turnTo } from "./turns.js";
import { welcome } from "./welcome.js";
import { nameOf } from "./words.js";

const $ = (id) => document.getElementById(id);
const SHOWN_TURNS = 10; // of a conversation, until earlier ones are asked for
const KEEP_MS = 3_000; // between two times that an answer is kept while it is written
const LEFT = "The page was left before the answer was complete.";
const WAITS = "An answer is being written. Stop it first, or open this page once more.";
const LONGEST_MARKED = 60; // characters of a question in the list

let conversation = history.newConversation();
let wanted = null; // the id of the conversation that was asked for last
let running = null; // AbortController
let left = false; // the browser is leaving the page, which breaks its calls off
let ended = Promise.resolve(); // the last answer, whether it was complete or not

const chosen = (id) => $(id).value;
const attached = new Attached($("documents"), checkPictures);
const shownTurns = new Map();
const acts = { edit, retry, toVersion, toAnswer, isBusy };

const isAnswered = () => conversation.turns.some((turn) => turn.answers.some((each) => each.text));

// Whether an answer is being written; a notice says so: what was asked for has to wait.
function isBusy() {
  if (running) notify(WAITS);
  return Boolean(running);
}

// Asking

function checkPictures() {
  if (!takesPictures()) notify("This model takes no pictures. Take them out, or choose another model.");
}

function send(question, documents, turn = null, how = {}) {
  if (isBusy()) return;
  ended = answer(question, documents, turn, how)
    .catch((error) => notify(`This page has a defect: ${error?.message}`))
    .then(() => next());
}

// The question that waited, unless the server is away: then it can be changed.
function next() {
  if (!queue.length || running) return;
  const { question, documents } = queue.shift();
  showQueue();
  if ($("away").hidden) return send(question, documents);
  attached.put(documents);
  $("question").value ||= question;
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

async function asking(question, documents, turn, { race = $("compare").checked, way = chosen("strategy") }) {
  notify("");
  const asked = turn ?? { question, documents, answers: [] };
  if (!turn) conversation.turns.push(asked);
  conversation.title ||= question.slice(0, LONGEST_MARKED);
  const shown = shownTurns.get(asked) ?? showTurn(asked);
  shown.clear();
  toTop(shown);
  const messages = messagesBefore(conversation, asked);
  if (race && way === "direct") notify("There is nothing to compare: the answer is written in one piece. Choose another answer mode.");
  else if (race) shown.beginRace(way);
  keep(asked); // while the server is asked: one time of keeping waits for the one before it
  try {
    const first = await answered(shown, messages, way, 0);
    asked.answers.push(first);
    delete asked.shown;
    if (shown.race && first.route && routeOf(first.route).way === "direct") {
      shown.endRace();
      notify("There is nothing to compare: the answer was written in one piece. Choose another answer mode.");
    } else if (shown.race && first.stopped) {
      shown.race.stop();
    } else if (shown.race) {
      const direct = await answered(shown, messages, "direct", 1);
      if (direct.stopped) shown.race.stop();
      else {
        first.direct = direct;
        shown.race.decide(first, direct);
        announce(shown.race.verdict.textContent);
      }
    }
  } finally {
    await keep(asked); // while the page is busy: nothing else is asked for before the answer is kept
  }
  shown.addActions(); // now, since a page that is busy would not do what they ask for
}

// Keep the conversation as it is, whose questions changed from this one on.
async function keep(turn) {
  if (await write(turn, conversation.turns)) listThis();
  history.notifyOthers();
}

// Returns whether it was written.
async function write(turn, turns) {
  try {
    if (await history.keep(conversation, conversation.turns.indexOf(turn), turns)) notify("This conversation went on in another tab too. From here on, this is a separate one.");
    if (named() !== conversation.id) window.history.replaceState(null, "", `#${conversation.id}`);
    return true;
  } catch (error) {
    notify(`This conversation is not kept: ${error?.message}`);
    return false;
  }
}

// With what there is of an answer. The lists of conversations show nothing of it, and stay.
function keepUnfinished(turn, answer) {
  const unfinished = { ...turn, answers: [...turn.answers, { ...answer, stopped: LEFT }] };
  return write(turn, conversation.turns.map((each) => (each === turn ? unfinished : each)));
}

// One answer from its first event to its last. `lane` is its place in a race.
async function answered(shown, messages, way, lane) {
  const { turn, race } = shown;
  const title = lane ? "One piece" : "Answer";
  const view = shown.begin(title, announce, race && (lane ? nameOf("direct") : nameOf(way)));
  view.schema = conversation.schema;
  const documents = textsOf(turn).map(({ title: name, text, warnings = [] }) => ({ title: name, text, warnings }));
  const request = {
    model: chosen("model"),
    messages,
    ...(view.schema ? { response_format: formOf(view.schema) } : {}),
    stretto: { strategy: way, preference: chosen("preference"), ...(documents.length ? { documents } : {}) },
  };
  const { signal } = running;
  let keptAt = performance.now();
  const watchWaiting = async () => {
    Object.assign(view, await whatWaits());
    if ((view.loading || view.isSilent) && running?.signal === signal) setTimeout(watchWaiting, 1000);
  };
  watchWaiting();
  race?.begin(lane);
  try {
    for await (const event of ask(request, signal)) {
      view.see(event);
      if (!turn.answers.length && performance.now() - keptAt > KEEP_MS) {
        keptAt = performance.now();
        keepUnfinished(turn, view.record());
      }
    }
    if (!view.answer) view.end({ stopped: "The connection was lost.", problem: "The connection was lost before the answer was complete." });
    else race?.ended(lane, view.answer);
  } catch (error) {
    if (left) view.end({ stopped: LEFT });
    else if (signal.aborted) view.end({ stopped: `Stopped after ${view.seconds.toFixed(1)} s.` });
    else {
      view.end({ stopped: "Not complete.", problem: messageOf(error) });
      failed(error);
    }
    announce(view.stopped);
  }
  return view.record();
}

function busy(is) {
  invite(is || isAnswered());
  const lost = [document.body, $("stop"), $("send")].includes(document.activeElement); // it was on a button that goes
  $("send").disabled = is;
  $("send").hidden = is;
  $("stop").hidden = !is;
  if (!is && $("notice").textContent === WAITS) notify("");
  const touched = matchMedia("(pointer: coarse)").matches; // where a keyboard would cover the answer
  if (!is && lost && !touched) $("question").focus({ preventScroll: true });
}

// Showing a conversation

function showTurn(turn) {
  document.querySelector(".welcome")?.remove();
  const shown = new TurnView(turn, conversation.turns.indexOf(turn) + 1, acts);
  $("conversation").append(shown.root);
  shownTurns.set(turn, shown);
  return shown;
}

// The question goes to the top, and then only the reader scrolls.
const toTop = (shown) => shown.root.scrollIntoView({ block: "start" });

function show(from = Math.max(0, conversation.turns.length - SHOWN_TURNS)) {
  shownTurns.clear();
  $("conversation").replaceChildren();
  showForm(conversation.schema);
  invite(isAnswered());
  if (!conversation.turns.length) return showWelcome();
  if (from > 0) {
    const earlier = element("button", { type: "button", onclick: () => showEarlier(from) }, `Show ${from} earlier questions`);
    $("conversation").append(element("p", {}, earlier));
  }
  for (const turn of conversation.turns.slice(from)) showTurn(turn).showStored();
  toTop(shownTurns.get(conversation.turns.at(-1)));
}

// What is read now stays where it is; the earlier questions come above it.
function showEarlier(from) {
  const first = conversation.turns[from];
  show(Math.max(0, from - SHOWN_TURNS));
  toTop(shownTurns.get(first));
}

function showWelcome(greets = false) {
  const race = (question) => send(question, [], null, { race: true, way: "skeleton" });
  $("conversation").replaceChildren(welcome(model(), { ask: (question) => send(question, []), race, greets }));
}

function retry(turn) {
  if (isBusy()) return;
  if (turn === conversation.turns.at(-1)) return send(turn.question, turn.documents, turn);
  edit(turn, turn.question);
}

function edit(turn, question) {
  if (isBusy()) return;
  const fresh = newVersion(conversation, turn, question, turn.documents);
  show();
  send(question, fresh.documents, fresh);
}

async function toVersion(turn, at) {
  if (isBusy()) return;
  const place = conversation.turns.indexOf(turn);
  turnTo(conversation, turn, at);
  show(Math.max(0, place - SHOWN_TURNS + 1));
  const shown = shownTurns.get(conversation.turns[place]);
  toTop(shown);
  shown.asked.querySelector(".pages button:enabled")?.focus({ preventScroll: true });
  await keep(conversation.turns[place]);
}

async function toAnswer(turn, at) {
  if (isBusy()) return;
  turn.shown = at;
  const shown = shownTurns.get(turn);
  shown.showStored();
  shown.answers.querySelector(".pages button:enabled")?.focus({ preventScroll: true });
  await keep(turn);
}

// The list of conversations

let listed = []; // as they were read last

async function listConversations() {
  listed = await history.all().catch((error) => (notify(`This browser keeps no conversations: ${error?.message}`), []));
  showListed();
}

const showListed = () => showList(listed, conversation.id, { open, forget, rename })
  .catch((error) => notify(`The list of conversations cannot be shown: ${error?.message}`));

// This conversation was kept: the others need not be read anew for that.
function listThis() {
  listed = [conversation, ...listed.filter((each) => each.id !== conversation.id)];
  showListed();
}

// The conversation that the address names; its other fragments are places of the page.
const named = () => location.hash.match(/^#([0-9a-f-]{32,36})$/)?.[1];
const address = () => location.pathname + location.search;

async function open(id, { again = false } = {}) {
  wanted = id; // also if it is shown: one that is still being read for an earlier step is not
  if (id === conversation.id || isBusy()) return side(false);
  const before = conversation;
  const found = await history.one(id).catch(() => null); // as it is now: another tab may have gone on with it
  if (wanted !== id || conversation !== before || isBusy()) return; // something else was asked for meanwhile
  if (!found) return startNew({ again });
  conversation = found;
  if (!again) window.history.pushState(null, "", `#${id}`);
  notify("");
  show();
  side(false);
  showListed();
}

async function rename(each, title) {
  if (each.id === conversation.id) conversation.title = title;
  await history.rename(each.id, title).catch((error) => notify(`It keeps its name: ${error?.message}`));
  await listConversations();
}

async function forget(each) {
  wanted = null;
  if (each.id === conversation.id) await leave();
  if (each.id === conversation.id) startNew({ again: true }); // first: a question that comes now belongs to the new one
  await forgotten(each.id, listConversations);
}

async function leave() {
  running?.abort();
  await ended;
}

// `again`: the address has changed already, or its conversation was deleted.
function startNew({ again = false } = {}) {
  if (isBusy()) return;
  notify("");
  conversation = history.newConversation();
  if (again) window.history.replaceState(null, "", address());
  else if (named()) window.history.pushState(null, "", address());
  show();
  side(false);
  $("question").focus();
  showListed();
}

// Back and forward. While an answer is written, its conversation stays; links to places of the page leave none.
function revisit() {
  if (running) {
    isBusy();
    window.history.pushState(null, "", `#${conversation.id}`);
  } else if (named()) open(named(), { again: true });
  else if (!location.hash && conversation.turns.length) startNew({ again: true });
}

// Wiring

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (attached.reading) return notify("A document is still being read. Send the question when it is there.");
  if (!question) return attached.items.length ? notify("Write what you would like to know of what is attached.") : undefined;
  $("question").value = "";
  $("question").dispatchEvent(new Event("input"));
  if (running) return enqueue(question, attached.take());
  if (isDemonstration(model()) && isGreeting(question) && !conversation.turns.length) return showWelcome(true);
  send(question, attached.take());
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector(":popover-open")) return; // which it closes
  if (running) running.abort();
  else side(false);
});
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", () => startNew());
$("search").addEventListener("input", showListed);
$("model").addEventListener("change", () => conversation.turns.length || show());
exchange(listConversations);
$("delete-all").addEventListener("click", async () => {
  if (!confirm("Delete all conversations of this browser?")) return;
  wanted = null;
  await leave();
  startNew({ again: true });
  await removing(history.removeAll(), listConversations);
});
attached.takeFrom($("attach"), $("question"));
compose(attached);
chooseForm(() => conversation, () => {
  showForm(conversation.schema);
  if (conversation.turns.length) keep(conversation.turns.at(-1));
});
addEventListener("popstate", revisit);
addEventListener("pagehide", () => (left = true));
addEventListener("pageshow", () => (left = false));
history.onChange(listConversations);

$("compare").checked = new URLSearchParams(location.search).has("compare");
await loadModels();
await listConversations();
if (named()) await open(named(), { again: true });
else if (!running) show();
