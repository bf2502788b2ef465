// Answers wait here, on this computer's disk, until the server says that it has them on its own.
import { Refused } from "./server.js";

const FIRST_WAIT = 500; // milliseconds, doubled after each failure
const LONGEST_WAIT = 8000;

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

export class Outbox {
  // `send(entry)` resolves when the server has it, and rejects with Refused. `changed()` is called after every change.
  static async open({ project, who, send, changed }) {
    const outbox = new Outbox(project, who, send, changed);
    try {
      outbox.db = await database();
      const all = outbox.db.transaction("outbox").objectStore("outbox").getAll();
      await finished(all.transaction);
      const mine = all.result.filter((entry) => entry.project === project && entry.who === who).sort((a, b) => a.at - b.at);
      outbox.entries = mine.filter((entry) => !entry.why);
      outbox.refused = mine.filter((entry) => entry.why);
    } catch {
      outbox.db = null; // no storage, as in some private windows: answers wait in this page only
    }
    return outbox;
  }

  constructor(project, who, send, changed) {
    Object.assign(this, { project, who, send, changed });
    this.entries = []; // waiting, oldest first
    this.refused = []; // the server said no for good: shown, never dropped in silence
    this.sending = null;
    this.wake = () => {};
    this.fault = "";
    addEventListener("online", () => this.wake());
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
        await this.send(entry);
        wait = FIRST_WAIT;
        this.fault = "";
      } catch (refusal) {
        const passing = !(refusal instanceof Refused) || refusal.passing;
        this.fault = refusal.message;
        if (passing) {
          this.changed();
          await this.pause(wait);
          wait = Math.min(2 * wait, LONGEST_WAIT);
          continue;
        }
        entry.why = refusal.message;
        this.refused.push(entry);
      }
      this.entries.shift();
      await this.write((outbox) => (entry.why ? outbox.put(entry) : outbox.delete(entry.key)));
      this.changed();
    }
  }

  // What the server refused is sent once more, or thrown away: the person decides.
  async retry() {
    const entries = this.refused.splice(0).map(({ why, ...entry }) => entry);
    this.entries.push(...entries);
    await this.write((outbox) => entries.forEach((entry) => outbox.put(entry)));
    this.flush();
  }

  async discard() {
    const entries = this.refused.splice(0);
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
