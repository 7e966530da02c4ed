// Where a question is written: it grows with its text, takes long pastes as documents, and keeps questions that wait.

import { announce } from "./notices.js";
import { element } from "./element.js";

const $ = (id) => document.getElementById(id);
const ROOMY = matchMedia("(pointer: fine) and (min-width: 600px)");
const LONG_PASTE = 6_000; // characters, from which a paste is a document

export const queue = []; // {question, documents}
let invited = false; // to ask more

export function showQueue() {
  $("queue").replaceChildren(...queue.map((each) => element("li", { dir: "auto" }, `Next: ${each.question.slice(0, 80)}`,
    element("button", { type: "button", class: "quiet", "aria-label": `Take back: ${each.question.slice(0, 80)}`, onclick: () => takeBack(each) }, "✕"))));
}

export function enqueue(question, documents) {
  queue.push({ question, documents });
  showQueue();
  announce("The question is sent when this answer is complete.");
}

function takeBack(each) {
  queue.splice(queue.indexOf(each), 1);
  $("question").value ||= each.question;
  showQueue();
  $("question").focus();
}

// Browsers that do not size a field by its text yet.
function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  $("question").style.height = "auto";
  $("question").style.height = `${$("question").scrollHeight}px`;
}

// What is written in the field while it is empty. `followUp`: there is an answer.
export function invite(followUp) {
  invited = followUp;
  const first = ROOMY.matches ? "Ask a question. Shift+Enter begins a new line." : "Ask a question";
  $("question").placeholder = followUp ? "Ask a follow-up" : first;
}

// `attached` takes what is too long for a question.
export function compose(attached) {
  $("question").addEventListener("input", grow);
  $("question").addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text/plain");
    if (event.clipboardData.files.length || text.length < LONG_PASTE) return;
    event.preventDefault();
    attached.addText(text);
    announce("The pasted text is attached as a document.");
  });
  $("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $("composer").requestSubmit();
  });
  ROOMY.addEventListener("change", () => invite(invited));
}
