// The questions of a conversation as data. A question that was changed, or asked again after others followed, keeps what
// came of it before: `versions` of a turn are {at, tails}, where each tail is that question with all that followed it, and
// the one that is shown is in the conversation itself.

import { isPictureData } from "./pictures.js";

// Put another version of a question in its place. Returns the new turn, which has no answer yet.
export function newVersion(conversation, turn, question, documents) {
  const versions = turn.versions ?? { at: 0, tails: [null] };
  away(conversation, turn, versions);
  versions.at = versions.tails.push(null) - 1;
  const fresh = { question, documents, answers: [], versions };
  conversation.turns.push(fresh);
  return fresh;
}

// Show another version of a question.
export function turnTo(conversation, turn, at) {
  const { versions } = turn;
  away(conversation, turn, versions);
  const tail = versions.tails[at];
  versions.at = at;
  versions.tails[at] = null;
  tail[0].versions = versions;
  conversation.turns.push(...tail);
}

function away(conversation, turn, versions) {
  const tail = conversation.turns.splice(conversation.turns.indexOf(turn));
  delete turn.versions;
  versions.tails[versions.at] = tail;
}

// The answer that is shown: the last, unless the reader went back to another one.
export const shownIndex = (turn) => turn.shown ?? turn.answers.length - 1;
export const shownAnswer = (turn) => turn.answers[shownIndex(turn)];

// What was attached to a question: texts, and pictures as data URLs.
export const textsOf = (turn) => turn.documents.filter((each) => each.text !== undefined);
export const picturesOf = (turn) => turn.documents.filter((each) => each.picture !== undefined);

// A question as OpenAI's API takes it: text alone, or parts where there are pictures.
function contentOf(turn) {
  const pictures = picturesOf(turn).map(({ picture }) => ({ type: "image_url", image_url: { url: picture } }));
  return pictures.length ? [{ type: "text", text: turn.question }, ...pictures] : turn.question;
}

// What a model gets of a conversation: the questions up to one, and the answer that is shown of each before it.
export function messagesBefore(conversation, turn) {
  const messages = [];
  for (const each of conversation.turns) {
    messages.push({ role: "user", content: contentOf(each) });
    if (each === turn) return messages;
    const text = shownAnswer(each)?.text;
    if (text) messages.push({ role: "assistant", content: text });
    else messages.pop(); // a question without an answer
  }
  return messages;
}

const isText = (value) => typeof value === "string";

// Whether it may be the JSON schema of a conversation; the server says whether it is one.
export const isSchema = (value) => Object(value) === value && !Array.isArray(value);

const isDocument = (each) => isText(each?.title) && (isText(each.text) || isPictureData(each.picture));

// Whether something out of a file has the form of a turn.
export const isTurn = (turn) =>
  isText(turn?.question) && Array.isArray(turn.documents) && turn.documents.every(isDocument) && Array.isArray(turn.answers) &&
  turn.answers.every((answer) => isText(answer?.text) && Array.isArray(answer.branches)) &&
  (turn.shown === undefined || turn.shown in turn.answers) &&
  (turn.versions === undefined || areVersions(turn.versions));

const areVersions = (versions) =>
  Array.isArray(versions?.tails) && versions.tails[versions.at] === null &&
  versions.tails.every((tail, at) => at === versions.at || (Array.isArray(tail) && tail.length > 0 && tail.every(isTurn)));
