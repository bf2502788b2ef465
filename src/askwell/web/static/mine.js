// One's own answers, newest first, to look at and to change; before them those that deserve a second look.
import { request } from "./server.js";
import { element } from "./stage.js";

const PAGE = 50; // answers loaded at a time

function line(said) {
  const what = said.picture ? element("img", { src: said.picture, alt: said.text, loading: "lazy" }) : said.text || said.item;
  const label = said.kind === "label" ? said.label : `skipped: ${said.reason}`;
  const when = new Date(1000 * said.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
  const about = said.there ? when : `${when} · no longer in the pool`;
  return [element("span", { className: "of", title: said.item }, what), element("b", {}, label), element("small", {}, about)];
}

export class Mine {
  // `change(answer)` is called with the one that the person wants to change.
  constructor({ place, looks, older, note, change }) {
    Object.assign(this, { place, looks, older, note, change });
    this.last = null;
    older.addEventListener("click", () => this.load());
    place.closest("dialog").addEventListener("keydown", (event) => this.move(event));
  }

  async open() {
    this.place.replaceChildren();
    this.looks.replaceChildren();
    this.last = null;
    await this.load();
    await this.look();
  }

  async look() {
    try {
      const { answers } = await request("GET", "/api/second-look");
      this.looks.replaceChildren(...answers.map((said) => this.row(said)));
    } catch { /* the answers themselves say what is wrong */ }
    this.looks.parentElement.hidden = !this.looks.children.length;
    this.looks.querySelector("button")?.focus();
  }

  async load() {
    this.note.textContent = "";
    try {
      const before = this.last === null ? "" : `&before=${this.last}`;
      const { answers, more } = await request("GET", `/api/answers?size=${PAGE}${before}`);
      const lines = answers.map((said) => this.row(said));
      this.place.append(...lines);
      this.older.hidden = !more;
      this.last = answers.at(-1)?.seq ?? this.last;
      if (!this.place.children.length) this.note.textContent = "You have no answers yet.";
      lines[0]?.querySelector("button").focus();
    } catch (refusal) {
      this.note.textContent = refusal.message;
      this.older.hidden = this.last === null;
    }
  }

  row(said) {
    const button = element("button", { className: "answer", type: "button", disabled: !said.there }, ...line(said));
    button.addEventListener("click", () => this.change(said));
    return element("li", {}, button);
  }

  // Arrows go from answer to answer.
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = [...this.looks.querySelectorAll("button:enabled"), ...this.place.querySelectorAll("button:enabled")];
    if (!this.older.hidden) buttons.push(this.older);
    buttons[buttons.indexOf(document.activeElement) + step]?.focus();
  }
}
