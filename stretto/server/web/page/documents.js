// The documents of the next question: read on the server, and shown above the question until it is sent.

import { said } from "./connection.js";
import { element } from "./element.js";
import { announce } from "./notices.js";
import { readDocument } from "./server.js";

export class Attached {
  // `list` is where they are shown.
  constructor(list) {
    this.list = list;
    this.items = []; // {title, text}; without a text while it is read, with a problem where that failed
  }

  get reading() {
    return this.items.some((each) => each.text === undefined && !each.problem);
  }

  // Read files, several at a time. One that cannot be read is named, and the others are there.
  async read(files) {
    const added = [...files].map((file) => ({ title: file.name, file }));
    this.items.push(...added);
    this.show();
    await Promise.all(added.map(async (item) => {
      try {
        Object.assign(item, await readDocument(item.file));
      } catch (error) {
        item.problem = said(error).includes(item.title) ? said(error) : `${item.title}: ${said(error)}`;
        announce(item.problem);
      }
      delete item.file;
      this.show();
    }));
  }

  // From a button, from the clipboard, and from wherever a file is dropped: beside the composer, the browser would leave
  // the page and show the file.
  takeFrom(button, question) {
    button.addEventListener("change", () => {
      this.read(button.files);
      button.value = "";
    });
    question.addEventListener("paste", (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.read(event.clipboardData.files);
    });
    for (const kind of ["dragover", "dragleave", "drop"]) {
      document.addEventListener(kind, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        document.body.classList.toggle("dropping", kind === "dragover");
        if (kind === "drop") this.read(event.dataTransfer.files);
      });
    }
  }

  // A text that was pasted.
  addText(text) {
    const line = text.trim().split("\n", 1)[0].slice(0, 40).trim();
    this.items.push({ title: line ? `${line} …` : "Pasted text", text });
    this.show();
  }

  put(documents) {
    this.items = [...documents];
    this.show();
  }

  // Those that were read, which go with the question that is sent now.
  take() {
    const found = this.items.filter((each) => each.text !== undefined);
    this.put([]);
    return found;
  }

  show() {
    this.list.replaceChildren(...this.items.map((each) => element("li", { class: each.problem ? "problem" : null, dir: "auto" },
      each.problem ?? (each.text === undefined ? `Reading ${each.title} …` : each.title),
      element("button", { type: "button", class: "quiet", "aria-label": `Take ${each.title} out`, onclick: () => this.put(this.items.filter((item) => item !== each)) }, "✕"))));
  }
}
