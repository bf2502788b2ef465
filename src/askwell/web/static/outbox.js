// Answers wait here, on this computer's disk, until the server says that it has them on its own.
import { Refused, uuid } from "./server.js";

const FIRST_WAIT = 500; // milliseconds, doubled after each failure
const LONGEST_WAIT = 8000;
const TOKENS = 40; // that the server looks at in one request

function database() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("askwell", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("outbox", { keyPath: "key" });
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

function finished(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

const passing = (refusal) => !(refusal instanceof Refused) || refusal.passing;

export class Outbox {
  // `send(entry)` resolves with what the server says when it has it, and rejects with Refused. `ours(tokens)` resolves
  // with those that the project of this page gave out. `sent(entry, receipt)` and `undid(result)` hear of answers,
  // `changed()` is called after every change.
  static async open({ project, who, ...hooks }) {
    const outbox = new Outbox(project, who, hooks);
    try {
      outbox.db = await database();
      const all = outbox.db.transaction("outbox").objectStore("outbox").getAll();
      await finished(all.transaction);
      const mine = all.result.filter((entry) => entry.who === who).sort((a, b) => a.at - b.at);
      outbox.take(mine.filter((entry) => entry.project === project));
      outbox.unclaimed = mine.filter((entry) => entry.project !== project && entry.kind !== "undo");
    } catch {
      outbox.db = null; // no storage, as in some private windows: answers wait in this page only
    }
    return outbox;
  }

  constructor(project, who, { send, ours, sent, undid, changed }) {
    Object.assign(this, { project, who, send, ours, sent, undid, changed });
    this.entries = []; // waiting, oldest first
    this.refused = []; // the server said no for good: shown, never dropped in silence
    this.unclaimed = []; // under another project's name, as before projects had names of their own: whose are they?
    this.foreign = []; // of another project at this address
    this.parked = null; // an undo that is not answered yet
    this.sending = this.asking = null;
    this.wake = () => {};
    this.fault = "";
    addEventListener("online", () => this.wake());
  }

  take(entries) {
    this.parked ??= entries.find((entry) => entry.kind === "undo") ?? null;
    const answers = entries.filter((entry) => entry.kind !== "undo");
    this.entries.push(...answers.filter((entry) => !entry.why));
    this.refused.push(...answers.filter((entry) => entry.why));
  }

  // Answers that were given to this project when it went by another name are its own: it knows the tokens it gave out.
  async claim() {
    if (!this.unclaimed.length) return;
    const asked = this.unclaimed;
    const known = new Set();
    try {
      for (let start = 0; start < asked.length; start += TOKENS) {
        const tokens = asked.slice(start, start + TOKENS).map((entry) => entry.body.token).filter(Boolean);
        for (const token of await this.ours(tokens)) known.add(token);
      }
    } catch {
      return; // asked again later
    }
    this.unclaimed = [];
    this.foreign = asked.filter((entry) => !known.has(entry.body.token));
    const own = asked.filter((entry) => known.has(entry.body.token)).map((entry) => ({ ...entry, project: this.project }));
    this.take(own);
    await this.write((outbox) => own.forEach((entry) => outbox.put(entry)));
    this.changed();
    if (own.length) this.flush();
  }

  // All that the person must decide about.
  get stuck() {
    return [...this.refused, ...this.foreign];
  }

  get safe() {
    return this.db !== null;
  }

  async put(entry) {
    const whole = { ...entry, project: this.project, who: this.who, at: Date.now() };
    this.entries.push(whole);
    this.changed();
    await this.write((outbox) => outbox.put(whole));
    this.flush();
  }

  async write(change) {
    if (!this.db) return;
    try {
      const transaction = this.db.transaction("outbox", "readwrite");
      change(transaction.objectStore("outbox"));
      await finished(transaction);
    } catch {
      this.db = null;
    }
  }

  // Sends what waits, in order, one at a time; resolves when nothing waits any more.
  flush() {
    this.wake();
    this.sending ??= this.run().finally(() => {
      this.sending = null;
      this.changed();
    });
    return this.sending;
  }

  async run() {
    let wait = FIRST_WAIT;
    while (this.entries.length) {
      const entry = this.entries[0];
      try {
        if (this.parked) await this.undo(); // it was pressed before
        const receipt = await this.send(entry);
        wait = FIRST_WAIT;
        this.fault = "";
        this.sent(entry, receipt);
      } catch (refusal) {
        this.fault = refusal.message;
        if (passing(refusal)) {
          this.changed();
          await this.pause(wait);
          wait = Math.min(2 * wait, LONGEST_WAIT);
          continue;
        }
        entry.why = refusal.message;
        entry.gone = refusal.status === 404;
        this.refused.push(entry);
      }
      this.entries.shift();
      await this.write((outbox) => (entry.why ? outbox.put(entry) : outbox.delete(entry.key)));
      this.changed();
    }
  }

  // Takes the last answer back. The key is kept until the server has answered, also by a page that is opened anew:
  // pressed again, it is the same request, and takes back the same answer.
  async undo() {
    if (!this.parked) {
      this.parked = { kind: "undo", key: uuid(), body: {}, project: this.project, who: this.who, at: Date.now() };
      await this.write((outbox) => outbox.put(this.parked));
    }
    this.asking ??= this.ask().finally(() => {
      this.asking = null;
      this.changed();
    });
    return this.asking;
  }

  async ask() {
    const { key } = this.parked;
    let refused = null;
    let result = null;
    try {
      result = await this.send(this.parked);
    } catch (refusal) {
      if (passing(refusal)) throw refusal;
      refused = refusal;
    }
    this.parked = null;
    await this.write((outbox) => outbox.delete(key));
    this.undid(refused ? { refused } : result);
  }

  // What the server refused is sent once more, as meant under the rules that the person sees now; or thrown away.
  async retry(rules) {
    const entries = this.refused.splice(0).map(({ why, gone, ...entry }) => ({ ...entry, body: { ...entry.body, rules } }));
    for (const entry of entries) if (entry.kind !== "label") delete entry.body.rules;
    this.entries.push(...entries);
    await this.write((outbox) => entries.forEach((entry) => outbox.put(entry)));
    this.flush();
  }

  async discard(chosen = () => true) {
    const entries = this.stuck.filter(chosen);
    this.refused = this.refused.filter((entry) => !entries.includes(entry));
    this.foreign = this.foreign.filter((entry) => !entries.includes(entry));
    await this.write((outbox) => entries.forEach((entry) => outbox.delete(entry.key)));
    this.changed();
  }

  pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => { clearTimeout(timer); resolve(); };
    });
  }

  // Whether nothing waits any more, after at most so long.
  async settled(milliseconds) {
    if (!this.entries.length) return true;
    await Promise.race([this.flush(), new Promise((resolve) => setTimeout(resolve, milliseconds))]);
    return !this.entries.length;
  }
}
