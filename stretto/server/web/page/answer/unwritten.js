// What an answer that ended too early has: its text, and what its parts hold beyond that.

const LEAD = /^[^\p{L}\p{N}]*(?:\p{Nd}{1,3}[.):])?[^\p{L}\p{N}]*/u; // a number that a model wrote, and the merge may have taken away
const MARK = /^\s*(?:#{1,6}|[-*+•]|\p{Nd}{1,4}[.):\]])(?:\s+|$)/u; // of a list or a heading
const HEADED = /^## /m; // a section, as answers head them
const NUMBERED = /^(\d{1,3})\. \*\*/gm; // a point, as answers number them
const AFTER_NAME = /^[*_"”“»']{0,3}\s*(?:[:：=]|→|->|=>|[-–—]\s|\n|$)[*_]{0,3}\s*/u;
const LETTER = /[\p{L}\p{N}]/gu;

// Titles, labels, indents and notes depend on the form of the answer, so only the letters of a part are looked for,
// each part after the one before it. The first that is not there may have begun: it is written to its end.
export function withUnwritten(text, parts) {
  if (!parts.length) return text; // which may be long
  const { letters, places } = lettersOf(text);
  const later = [];
  let number = Number([...text.matchAll(NUMBERED)].at(-1)?.[1] ?? 0); // of the last point that is there, where points have numbers
  let read = 0;
  const headed = HEADED.test(text);
  for (const { title, text: part } of parts) {
    const own = lettersOf(part, afterLabel(title ?? "", part));
    const at = letters.indexOf(own.letters, read);
    const begun = at < 0 && !later.length ? begunIn(text, own.letters, letters, places, read) : 0;
    if (at >= 0) {
      read = at + own.letters.length;
    } else if (begun) {
      const [rest, end] = [part.slice(own.places[begun - 1] + 1), places.at(-1) + 1];
      text = text.slice(0, end) + (rest.startsWith(text.slice(end)) ? rest : text.slice(end).trimEnd() + rest);
      read = letters.length;
    } else if (!later.length && endsInLabel(text, title ?? "", read ? places[read - 1] + 1 : 0)) {
      text = joined(text, title ?? "", withoutLabel(title ?? "", part));
      read = letters.length;
    } else {
      if (number) number += 1;
      const label = headed ? `## ${title}\n\n` : `${number ? `${number}. ` : ""}**${title}**: `;
      later.push(title ? label + withoutLabel(title, part) : part);
    }
  }
  return [text, ...later].filter(Boolean).join("\n\n");
}

// How many letters of a part the text ends with, which must begin where a word does.
function begunIn(text, own, letters, places, read) {
  for (let count = Math.min(own.length, letters.length - read); count > 0; count -= 1) {
    const start = letters.length - count;
    const atWord = start === read || places[start] - places[start - 1] > 1;
    if (atWord && letters.endsWith(own.slice(0, count))) return count;
  }
  return 0;
}

// Whether a text ends in the mark or name of a part, after which nothing of the part is there yet.
function endsInLabel(text, title, since) {
  const start = text.trimEnd().lastIndexOf("\n") + 1;
  const line = text.slice(start).trim();
  const name = bare(line.replace(MARK, ""));
  return start >= since && Boolean(line) && (!name || name === bare(title));
}

// The text of a part after its number and title, where a model wrote these, too; null where it did not.
export function afterName(title, part) {
  const name = part.replace(MARK, "").trimStart().replace(/^[*_"“„«']{0,3}/, "");
  const separator = title && name.startsWith(title) && name.slice(title.length).match(AFTER_NAME);
  return separator ? name.slice(title.length + separator[0].length) : null;
}

const withoutLabel = (title, part) => afterName(title, part) ?? part.replace(MARK, "").trimStart();

// A part after its mark or name, where the name may be the part's own first word.
function joined(text, title, part) {
  if (title && text.endsWith(title) && part.startsWith(title)) return text + part.slice(title.length);
  return text + (/[\s：]$/.test(text) ? "" : " ") + part;
}

const bare = (name) => name.replace(/^[\s*_]+|[\s*_:：]+$/g, "");

// Where a part begins after its own number and title.
function afterLabel(title, part) {
  let start = LEAD.exec(part)[0].length;
  if (part.startsWith(title, start)) start += title.length;
  return lettersOf(part, start).letters ? start : 0;
}

// Letters and digits, and where each is, in units of UTF-16.
function lettersOf(text, start = 0) {
  const places = [];
  for (const { 0: letter, index } of text.slice(start).matchAll(LETTER)) {
    for (let unit = 0; unit < letter.length; unit += 1) places.push(start + index + unit);
  }
  return { letters: places.map((at) => text[at]).join(""), places };
}
