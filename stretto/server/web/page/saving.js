// An answer as a page of its own, in a file.

import { messageOf } from "./connection.js";
import { saveFile } from "./history.js";
import { notify } from "./notices.js";
import { pageOf } from "./server.js";
import { shownAnswer } from "./turns.js";

export async function saveAnswer(turn) {
  const answer = shownAnswer(turn);
  const { direct, straight, ...whole } = answer;
  try {
    saveFile("answer.html", await pageOf(turn.question, whole));
  } catch (error) {
    notify(messageOf(error));
  }
}
