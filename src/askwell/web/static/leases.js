// A few items are held ahead, so that the next one is there at once. The server forgets who goes away.
import { post } from "./server.js";

const AHEAD = 4; // items held, the one on the stage included
const MOST = 20; // that the server gives at once
const IDLE = 5 * 60 * 1000; // milliseconds without a key or a touch: then others may have what is held here

export class Leases {
  constructor({ unsent, changed }) {
    Object.assign(this, { unsent, changed });
    this.tasks = [];
    this.done = new Set(); // tokens answered here, perhaps not yet known to the server
    this.closed = null;
    this.round = undefined; // of the model that ranked what is held; null: of none yet
    this.outdated = false; // there is a newer one
    this.asked = false; // whether the server has been heard at all
    this.fault = "";
    this.filling = null;
    this.active = Date.now();
    for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, () => this.wakeUp(), true);
  }

  get now() {
    return this.tasks[0] ?? null;
  }

  wakeUp() {
    const away = this.idle;
    this.active = Date.now();
    if (away) this.renew(); // others may have what was held here
  }

  take() {
    const task = this.tasks.shift();
    if (task?.token) this.done.add(task.token);
    return task;
  }

  // What was put first by hand and is not answered after all.
  drop() {
    if (this.now && !this.now.token) this.tasks.shift();
  }

  putSecond(task) {
    const [first, ...others] = this.tasks;
    this.done.delete(task.token);
    this.tasks = [...(first ? [first] : []), task, ...others.filter((other) => other.item !== task.item)];
  }

  putFirst(task) {
    this.done.delete(task.token);
    this.tasks = [task, ...this.tasks.filter((other) => other.item !== task.item)];
  }

  get tokens() {
    return this.tasks.map((task) => task.token).filter(Boolean);
  }

  get idle() {
    return Date.now() - this.active > IDLE;
  }

  // Asks for as many as are missing. What the server gives again because an answer is still on its way is left out.
  fill() {
    if ((this.tasks.length >= AHEAD && !this.outdated) || this.idle) return Promise.resolve();
    this.filling ??= this.ask().finally(() => {
      this.filling = null;
      if (this.outdated && !this.fault) this.fill();
    });
    return this.filling;
  }

  // The model has ranked the items anew: what waits behind the one on the stage is given back, for what is best now.
  ranked(round) {
    if (this.round === undefined || round === this.round) return;
    this.outdated = true;
    this.fill();
  }

  async ask() {
    const old = this.outdated ? this.tasks.slice(1).filter((task) => task.token && !task.was) : [];
    try {
      const unsent = this.unsent();
      const size = Math.min(MOST, AHEAD + unsent.length);
      const given = await post("/api/next", { size, instead: old.map((task) => task.token) });
      this.fault = "";
      this.asked = true;
      this.outdated = false;
      this.closed = given.closed;
      this.round = given.round;
      this.tasks = this.tasks.filter((task, place) => place === 0 || !old.includes(task)); // also what came there meanwhile
      const held = new Set([...this.tasks.map((task) => task.item), ...this.unsent()]);
      for (const task of given.tasks) {
        if (this.done.has(task.token) || held.has(task.item)) continue;
        this.tasks.push(task);
        if (task.card.kind === "picture") new Image().src = task.card.source;
      }
    } catch (refusal) {
      this.fault = refusal.message;
    }
    this.changed();
  }

  async renew() {
    if (this.idle || !this.tokens.length) return;
    try {
      const { held } = await post("/api/renew", { tokens: this.tokens });
      const known = new Set(held);
      // The one on the stage stays: an answer that comes late is kept.
      this.tasks = this.tasks.filter((task, place) => place === 0 || !task.token || known.has(task.token));
    } catch { /* heard at the next beat */ }
    this.fill();
  }

  release() {
    const { tokens } = this;
    if (tokens.length) post("/api/release", { tokens }, { again: false, last: true }).catch(() => {});
  }
}
