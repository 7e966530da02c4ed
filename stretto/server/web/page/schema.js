// The form of a conversation's answers: text, or records that fit a JSON schema.

import { messageOf } from "./connection.js";
import { announce } from "./notices.js";
import { Refused, checkForm } from "./server.js";
import { isSchema } from "./turns.js";

const $ = (id) => document.getElementById(id);
const REMEDY = 'Give one such as {"type": "object", "properties": {"name": {"type": "string"}}}.';

// As OpenAI's API takes it.
export const formOf = (schema) => ({ type: "json_schema", json_schema: { name: "record", schema } });

// Show which schema the conversation has.
export function showForm(schema) {
  $("form").setAttribute("aria-pressed", String(Boolean(schema)));
  $("schema-text").value = schema ? JSON.stringify(schema, null, 2) : "";
  $("schema-remove").hidden = !schema;
  complain("");
}

function complain(problem) {
  $("schema-problem").textContent = problem;
  $("schema-problem").hidden = !problem;
}

// The schema of a text. Throws what is wrong with it.
async function read(text) {
  const refuse = (cause) => { throw new Refused(`It cannot be used: ${cause}`, 0); };
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    refuse(`it is no JSON: ${error.message}`);
  }
  const schema = given?.type === "json_schema" ? given.json_schema?.schema ?? given.schema : given; // the form above
  if (!isSchema(schema)) refuse("it is no object");
  await checkForm($("model").value, formOf(schema));
  return schema;
}

// The server names what it was sent, and what a program may give.
function problemOf(error) {
  const cause = /cannot be used: (.*?)\.?(?: Give a JSON schema.*)?$/s.exec(messageOf(error))?.[1];
  return cause ? `This schema cannot be used: ${cause}. ${REMEDY}` : messageOf(error);
}

// `current` gives the conversation; `changed` is called once it has another schema, or none.
export function chooseForm(current, changed) {
  const use = (conversation, schema) => {
    if (schema) conversation.schema = schema;
    else delete conversation.schema;
    changed(conversation);
    $("schema").hidePopover();
    announce(schema ? "The answers are records from now on." : "The answers are text from now on.");
  };
  $("schema").addEventListener("submit", async (event) => {
    event.preventDefault();
    const conversation = current();
    const text = $("schema-text").value.trim();
    try {
      const schema = text ? await read(text) : null;
      if (conversation === current()) use(conversation, schema); // and no other one was opened meanwhile
    } catch (error) {
      complain(problemOf(error));
    }
  });
  $("schema-remove").addEventListener("click", () => use(current(), null));
  $("schema-file").addEventListener("change", async ({ target }) => {
    $("schema-text").value = await target.files[0].text();
    target.value = "";
    $("schema").requestSubmit();
  });
  $("schema").addEventListener("toggle", ({ newState }) => newState === "closed" && showForm(current().schema));
}
