// Documents and pictures of the next question, shown above it until it is sent. Documents are read on the server.

import { messageOf } from "./connection.js";
import { element } from "./element.js";
import { announce, notify } from "./notices.js";
import { MOST, isPictureFile, pictureOf, shownPicture } from "./pictures.js";
import { readDocument } from "./server.js";

const isRead = (item) => item.text !== undefined || item.picture !== undefined;

export class Attached {
  // `list` is where they are shown. `pictured` is called when there is a picture, which not every model takes.
  constructor(list, pictured = () => {}) {
    Object.assign(this, { list, pictured });
    this.items = []; // {title, text, warnings} or {title, picture}; neither while it is read, a problem where that failed
  }

  get reading() {
    return this.items.some((each) => !isRead(each) && !each.problem);
  }

  // Read files, several at a time. One that cannot be read is named, and the others are there.
  async read(files) {
    const room = MOST - this.items.filter((each) => each.isPicture).length;
    const pictures = [...files].filter(isPictureFile);
    if (pictures.length > room) notify(`A question takes ${MOST} pictures at most. The others were left out.`);
    const kept = [...files].filter((file) => !pictures.includes(file) || pictures.indexOf(file) < room);
    const added = kept.map((file) => ({ title: file.name, file, isPicture: pictures.includes(file) }));
    this.items.push(...added);
    this.show();
    await Promise.all(added.map(async (item) => {
      try {
        if (item.isPicture) item.picture = await pictureOf(item.file);
        else Object.assign(item, await readDocument(item.file));
      } catch (error) {
        const problem = item.isPicture ? `${error.message}.` : messageOf(error);
        item.problem = problem.includes(item.title) ? problem : `${item.title}: ${problem}`;
        announce(item.problem);
      }
      delete item.file;
      this.show();
    }));
    if (added.some((item) => item.picture)) this.pictured();
  }

  // From a button, from the clipboard, and from wherever a file is dropped: outside of the composer, the browser would leave
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
    const found = this.items.filter(isRead);
    this.put([]);
    return found;
  }

  show() {
    this.list.replaceChildren(...this.items.map((each) => element("li", { class: each.problem ? "problem" : null, dir: "auto" },
      each.picture ? shownPicture(each) : null,
      each.problem ?? (isRead(each) ? each.title : `Reading ${each.title} …`),
      element("button", { type: "button", class: "quiet", "aria-label": `Take ${each.title} out`, onclick: () => this.put(this.items.filter((item) => item !== each)) }, "✕"))));
  }
}
