// Pictures of a question. They are drawn anew before anything else sees them: what is no picture is refused, what a camera
// wrote into it (the place, for instance) is removed, and a large one is smaller. The page shows them by object URLs only.

import { element } from "./element.js";

export const MOST = 4; // of one question
const LARGEST_FILE = 30_000_000; // bytes that are read at all
const LONGEST_SIDE = 1_600; // pixels, about what models look at
const LARGEST = 1_500_000; // bytes of what is sent
const QUALITIES = [0.9, 0.75, 0.5]; // of JPEG, one after the other
const DATA = /^data:(image\/(?:png|jpeg));base64,([A-Za-z0-9+/]+={0,2})$/;

export const isPictureFile = (file) => /^image\/(?!svg)/.test(file.type);
export const isPictureData = (data) => typeof data === "string" && DATA.test(data);

// The picture of a file as a data URL. Raises an Error that says what is wrong, to be shown after the name of the file.
export async function pictureOf(file) {
  if (file.size > LARGEST_FILE) throw new Error(`it is larger than ${LARGEST_FILE / 1e6} MB`);
  const drawn = await createImageBitmap(file).catch(() => null);
  if (!drawn) throw new Error("this browser cannot read it as a picture");
  const scale = Math.min(1, LONGEST_SIDE / Math.max(drawn.width, drawn.height));
  const canvas = element("canvas", { width: Math.max(1, Math.round(drawn.width * scale)), height: Math.max(1, Math.round(drawn.height * scale)) });
  const pencil = canvas.getContext("2d");
  if (file.type === "image/png") {
    pencil.drawImage(drawn, 0, 0, canvas.width, canvas.height);
    const blob = await encoded(canvas, "image/png");
    if (blob.size <= LARGEST) return dataOf(blob);
  }
  pencil.fillStyle = "white"; // JPEG knows no transparent ground
  pencil.fillRect(0, 0, canvas.width, canvas.height);
  pencil.drawImage(drawn, 0, 0, canvas.width, canvas.height);
  for (const quality of QUALITIES) {
    const blob = await encoded(canvas, "image/jpeg", quality);
    if (blob.size <= LARGEST) return dataOf(blob);
  }
  throw new Error("it stays too large when it is drawn smaller");
}

const encoded = (canvas, type, quality) => new Promise((resolve, reject) =>
  canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("this browser cannot draw it"))), type, quality));

const dataOf = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

// Its picture on the page; null where the data are none. The address is given up once the picture is there.
export function shownPicture({ title, picture }) {
  const found = isPictureData(picture) && picture.match(DATA);
  if (!found) return null;
  const bytes = Uint8Array.from(atob(found[2]), (sign) => sign.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([bytes], { type: found[1] }));
  const done = () => URL.revokeObjectURL(url);
  return element("img", { class: "picture", src: url, alt: title, title, onload: done, onerror: done });
}
