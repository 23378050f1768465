// Elements from data. Text becomes text nodes, never markup, and control characters become visible.

/** Messages in the page's language, by name. */
const { messages: MESSAGES } = JSON.parse(document.getElementById("config").textContent);

/** A message as pieces: `{name}` stands for a value, which may be an element. A number `n` chooses the form. */
function pieces(name, values) {
  const message = MESSAGES[name];
  const template = typeof message === "string" ? message : message[values.n === 1 ? "one" : "other"];
  return template.split(/\{(\w+)\}/).map((piece, at) => (at % 2 ? shownValue(values[piece]) : piece));
}

function shownValue(value) {
  return typeof value === "number" ? grouped(value) : value;
}

/** The same as one string. */
function t(name, values = {}) {
  return pieces(name, values).join("");
}

/** The characters that `localjudge/words.py` escapes: controls, writing directions, separators, surrogates. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/u;
const UNSAFE_IN_LINES = new RegExp(UNSAFE.source.replace("\\u0000-\\u001f", "\\u0000-\\u0008\\u000b-\\u001f"), "u");
const SHORT_ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** An element with attributes (functions listen to events, booleans are switches) and children (strings are text). */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** The escape for a character: `\x1b`, `\u202e`. */
function escapeOf(character) {
  const code = character.codePointAt(0);
  const hex = code.toString(16);
  return SHORT_ESCAPES[character] ?? (code < 256 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`);
}

/** The text as nodes, with escapes for control characters. With `lines`, line ends and tabs stay. */
function visible(text, { lines = false } = {}) {
  const split = new RegExp(`(${(lines ? UNSAFE_IN_LINES : UNSAFE).source})`, "u");
  return text
    .split(split)
    .map((part, at) =>
      at % 2 ? element("span", { class: "escape", title: t("control_character") }, escapeOf(part)) : part,
    );
}

/** The same as one string, for places without elements. */
function visibleText(text) {
  return element("span", {}, ...visible(text)).textContent;
}

/** A user text in a line, isolated so that its direction does not affect its surroundings. */
function inLine(text) {
  return element("bdi", {}, ...visible(text));
}

/** The first `length` code units of a text, one less if that would cut a character. */
function firstOf(text, length) {
  const cut = text.slice(0, length);
  return text.length > length && /[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut;
}

const MOST_SHOWN = 20_000;

/** A block with a user text. A long text is shown in part, with a button for all of it. */
function textBlock(text, drawn, most = MOST_SHOWN) {
  const shown = firstOf(text, most);
  const holder = element("div", { class: "text", dir: "auto" }, ...drawn(shown));
  if (shown.length < text.length) {
    const all = () => {
      const whole = textBlock(text, drawn, Infinity);
      whole.tabIndex = -1;
      holder.replaceWith(whole);
      whole.focus();
    };
    holder.append(
      element("button", { type: "button", class: "more", click: all }, t("show_all", { n: text.length })),
    );
  }
  return holder;
}

function remark(...words) {
  return element("p", { class: "remark" }, ...words);
}

/** Three digits, half rounded away from 0, as in the terminal. */
function threeDigits(value) {
  return (value + Math.sign(value) * 1e-9).toFixed(3);
}

/** A difference with its sign. A value that rounds to 0 has no sign. */
function signed(value) {
  const digits = threeDigits(Math.abs(value));
  return Number(digits) === 0 ? digits : `${value > 0 ? "+" : "-"}${digits}`;
}

/** A count with the thousands sign of the page's language: 20,000. */
function grouped(count) {
  return count.toLocaleString("en").replaceAll(",", MESSAGES.thousands);
}
