// The labelling page: keys and buttons on one side, leases and outbox on the other.
import { drawCurve, redrawCurve } from "./curve.js";
import { Leases } from "./leases.js";
import { Mine } from "./mine.js";
import { NumberField } from "./number.js";
import { Outbox } from "./outbox.js";
import { onSignedOut, post, request, uuid } from "./server.js";
import { filterClasses, keysOf, markClass, showClasses, showItem, showMore, showNothing, showWhy } from "./stage.js";
import { stuckDialog } from "./stuck.js";

const BEAT = 4000; // milliseconds between two looks at the progress
const $ = (id) => document.getElementById(id);
const { who, project, token: needsToken } = document.body.dataset;
const where = { place: $("item"), id: $("item-id") };
const state = { rules: null, shown: null, since: 0, undoing: false };

// ---- saving ----

const PATHS = { label: "/api/answers", skip: "/api/skips", undo: "/api/undo" };
const send = ({ kind, key, body }) => post(PATHS[kind], { key, ...body });

function showSaved() {
  const waiting = outbox.entries.length + outbox.unclaimed.length;
  const trouble = outbox.fault || leases.fault;
  const refused = outbox.refused.length && `${outbox.refused.length} refused`;
  const foreign = outbox.foreign.length && `${outbox.foreign.length} of another project`;
  const [now, words] = refused || foreign ? ["waiting", [refused, foreign].filter(Boolean).join(", ")]
    : waiting && trouble ? ["waiting", `${waiting} not saved yet`]
      : waiting ? ["saving", "Saving…"]
        : outbox.parked ? ["waiting", "Undo not confirmed yet"]
          : trouble ? ["waiting", "No connection"]
            : ["saved", "All saved"];
  const saved = $("saved");
  saved.dataset.state = now;
  if (saved.textContent !== words) saved.textContent = words;
  saved.title = trouble;
  $("refused-button").hidden = !(refused || foreign);
}

function say(words) {
  $("note").textContent = words;
}

const outbox = await Outbox.open({
  project, who, send,
  ours: async (tokens) => (tokens.length ? (await post("/api/given", { tokens })).held : []),
  sent: ({ body }, { corrects, round }) => {
    if (corrects !== null && corrects === body.label) say(`${body.item}: ${body.label}, as before.`);
    else if (corrects !== null) say(`${body.item}: ${body.label ?? "skipped"}. This replaces your earlier answer, ${corrects}.`);
    leases.ranked(round);
  },
  undid: showUndone,
  changed: () => {
    showSaved();
    if (!outbox.entries.length) {
      leases.fill();
      refreshSoon();
    }
  },
});
const leases = new Leases({ unsent: () => outbox.entries.map((entry) => entry.body.item), changed: () => { showSaved(); show(); } });
const number = new NumberField({ form: $("number"), field: $("value"), commands: () => COMMANDS, answer: choose, say });

addEventListener("beforeunload", (event) => {
  if (outbox.entries.length && !outbox.safe) event.preventDefault(); // no storage to keep them in
});
addEventListener("pagehide", () => leases.release());
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

onSignedOut(async () => {
  if (needsToken === "no") return signIn("");
  const dialog = $("again");
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    $("again-form").onsubmit = async (event) => {
      event.preventDefault();
      if (await signIn($("again-token").value)) {
        dialog.close();
        resolve(true);
      }
    };
    dialog.onclose = () => resolve(false);
  });
});

async function signIn(token) {
  try {
    await post("/api/sign-in", { name: who, token }, { again: false });
    return true;
  } catch (refusal) {
    $("again-wrong").textContent = refusal.message;
    $("again-wrong").hidden = false;
    return false;
  }
}

// ---- the stage ----

function show() {
  const task = leases.now;
  const idle = !task;
  for (const button of $("classes").children) button.disabled = idle;
  $("skip-button").disabled = idle;
  $("why-button").hidden = idle || !task.token;
  if (idle || !task.token) $("why").hidden = true;
  if (!task) {
    state.shown = null;
    showNothing(...nothing(), where);
    showMore($("view"), $("more"));
    return;
  }
  if (state.shown === task) return;
  state.shown = task;
  state.since = performance.now();
  showItem(task, where);
  showMore($("view"), $("more"));
  markClass($("classes"), task.was ?? null, "was");
  number.show(state.rules?.label_range, leases.now);
  if (!$("why").hidden) showWhy(task, $("why"));
}

function nothing() {
  if (leases.idle) return ["Welcome back", "Press a key to continue."];
  if (!leases.asked) return leases.fault ? ["No connection", `${leases.fault} Trying again.`] : ["One moment", "Loading the first item."];
  if (outbox.entries.length) return ["Waiting for the server", "Your answers are kept in this browser and are sent when it is back."];
  if (leases.closed) return [/ other people/.test(leases.closed) ? "Nothing for you right now" : "Done", leases.closed];
  return ["Nothing for you right now", "Others are labelling the remaining items. This page checks again automatically."];
}

function leave(entry) {
  const task = leases.take();
  if (!task) return;
  const seconds = Math.min((performance.now() - state.since) / 1000, 86400);
  outbox.put({ ...entry(task, Math.round(seconds * 100) / 100), key: uuid() });
  show();
}

function choose(label) {
  if (!leases.now || state.undoing) return;
  say(`Answered: ${label}`); // as text below: a button that lights up would do so under the next item
  leave((task, seconds) => ({
    kind: "label",
    body: { item: task.item, label, token: task.token ?? undefined, seconds, rules: state.rules.version },
  }));
  if ($("search").value) {
    $("search").value = "";
    filterClasses($("classes"), "");
  }
}

function skip(reason) {
  say("Skipped");
  leave((task) => ({ kind: "skip", body: { item: task.item, reason, token: task.token ?? undefined } }));
}

async function undo() {
  if (state.undoing) return;
  state.undoing = true;
  say("");
  try {
    if (!outbox.parked && !(await outbox.settled(4000))) {
      say("You can undo again once everything is saved.");
      return;
    }
    await outbox.undo();
  } catch (refusal) {
    say(`${refusal.message} Press U to try again.`);
  } finally {
    state.undoing = false;
  }
}

function showUndone({ refused, undone, task }) {
  if (refused) return say(refused.message);
  if (!undone) return say("Nothing to undo.");
  say(undone.kind === "label" ? `Undone: ${undone.label}` : "Skip undone.");
  const again = task && { ...task, was: undone.label };
  if (task && state.undoing) leases.putFirst(again);
  else if (task) leases.putSecond(again); // the answer came late: what is looked at stays
  show();
  refreshSoon();
}

// An item that the person has answered before, put on the stage once more. It has no lease: nobody else waits for it.
async function answerAgain(item) {
  try {
    const { label, ...found } = await request("GET", `/api/item?${new URLSearchParams({ item })}`);
    leases.drop();
    leases.putFirst({ ...found, was: label, token: null, why: [], score: null });
    show();
    say("Choose its class, the same or another, or press Esc.");
    return true;
  } catch (refusal) {
    say(refusal.message);
    return false;
  }
}

async function loadRules() {
  try {
    const rules = await request("GET", "/api/rules");
    if (state.rules && rules.version < state.rules.version) return; // overtaken by a newer one
    const before = JSON.stringify(state.rules?.classes);
    state.rules = rules;
    if (before === JSON.stringify(rules.classes)) return;
    number.show(rules.label_range, leases.now);
    showClasses(rules.classes, $("classes"), choose);
    $("search-row").hidden = rules.classes.length <= 10;
    for (const button of $("classes").children) button.disabled = !leases.now;
  } catch { /* asked again at the next beat */ }
}

// ---- keys ----

function openDialog(id) {
  const dialog = $(id);
  if (!document.querySelector("dialog[open]")) dialog.showModal();
  return dialog;
}

function toggleWhy() {
  const hidden = !$("why").hidden || !leases.now;
  $("why").hidden = hidden;
  $("why-button").setAttribute("aria-expanded", String(!hidden));
  if (!hidden) showWhy(leases.now, $("why"));
}

function openSkip() {
  if (!leases.now) return;
  $("reason").value = "";
  openDialog("skip");
}

function openClasses() {
  openDialog("edit");
  htmx.trigger("#class-list", "open");
}

const mine = new Mine({
  place: $("mine-list"), looks: $("mine-look-list"), older: $("mine-older"), note: $("mine-note"),
  change: async ({ item }) => {
    if (await answerAgain(item)) $("mine").close();
    else $("mine-note").textContent = $("note").textContent;
  },
});

function openMine() {
  openDialog("mine");
  mine.open();
}

function scroll(share) {
  $("view").scrollBy({ top: share * $("view").clientHeight });
}

const COMMANDS = {
  s: openSkip, u: undo, w: toggleWhy, e: openClasses, l: openMine, "?": () => openDialog("help"),
  pagedown: () => scroll(0.9), pageup: () => scroll(-0.9), arrowdown: () => scroll(0.15), arrowup: () => scroll(-0.15),
  escape: () => { leases.drop(); show(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const dialog = document.querySelector("dialog[open]");
  // a dialog that was closed this instant may still hold the focus
  const typing = event.target.matches("input, textarea, select") && !event.target.closest("dialog:not([open])");
  const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1]; // by place, so that every keyboard has them
  if (dialog?.id === "skip" && digit && !typing) {
    const button = $("skip-form").querySelectorAll(".reasons button")[digit - 1];
    if (button) {
      event.preventDefault();
      button.click();
    }
    return;
  }
  const key = event.key.toLowerCase();
  if (dialog || typing || (event.repeat && !/^(page|arrow)/.test(key))) return;
  if (key === "/" && !$("search-row").hidden) {
    event.preventDefault();
    $("search").focus();
    return;
  }
  const keys = keysOf(state.rules?.classes ?? []);
  const name = keys.get(digit ?? key);
  const command = COMMANDS[key];
  if (command) {
    event.preventDefault();
    command();
  } else if (name !== undefined) {
    event.preventDefault();
    choose(name);
  }
});

$("search").addEventListener("input", () => filterClasses($("classes"), $("search").value));
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    $("search").value = "";
    filterClasses($("classes"), "");
    $("search").blur();
  } else if (event.key === "Enter") {
    const first = filterClasses($("classes"), $("search").value);
    if (first !== null) {
      choose(first);
      $("search").blur();
    }
  }
});
$("skip-form").addEventListener("submit", (event) => skip((event.submitter?.value || $("reason").value.trim() || "no reason given").slice(0, 300)));
$("skip-button").addEventListener("click", openSkip);
$("undo-button").addEventListener("click", undo);
$("edit-button").addEventListener("click", openClasses);
$("mine-button").addEventListener("click", openMine);
$("view").addEventListener("scroll", () => showMore($("view"), $("more")));
new ResizeObserver(() => showMore($("view"), $("more"))).observe($("item"));
$("more").addEventListener("click", () => scroll(0.9));
$("why-button").addEventListener("click", toggleWhy);
stuckDialog({ outbox, who, open: () => openDialog("refused"), answerAgain, rules: () => state.rules?.version });
$("help-button").addEventListener("click", () => openDialog("help"));
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
$("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("askwell-theme", next); } catch { /* for this page only */ }
  redrawCurve();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCurve);
addEventListener("resize", redrawCurve);
document.addEventListener("click", (event) => {
  if (event.target.closest('[data-open="mine"]')) openMine();
  const menu = document.querySelector(".person");
  if (menu.open && !menu.contains(event.target)) menu.open = false;
});

// ---- how it goes ----

let soon = 0;

function refresh() {
  htmx.trigger("#live", "refresh");
}

function refreshSoon() {
  clearTimeout(soon);
  soon = setTimeout(refresh, 300);
}

const opened = new Set(); // what the person unfolded stays so when the panel is new
document.body.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id !== "live") return;
  opened.clear();
  for (const details of event.target.querySelectorAll("details[open]")) opened.add(details.id);
});
document.body.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id === "live") {
    for (const id of opened) if ($(id)) $(id).open = true;
    if ($("curve")) drawCurve($("curve"));
    leases.ranked($("round").value ? Number($("round").value) : null);
  }
  if (event.target.id === "class-list") loadRules();
});

function beat() {
  if (document.hidden) return;
  refresh();
  loadRules();
  outbox.claim();
  if (!leases.now || leases.fault) leases.fill().then(show);
}

setInterval(beat, BEAT);
document.addEventListener("visibilitychange", () => { if (!document.hidden) { beat(); leases.renew(); } });
addEventListener("online", () => leases.fill());

refresh();
await loadRules();
show();
showSaved();
if (outbox.parked) say("Your last undo was not confirmed. Press U to try again.");
await outbox.claim();
await Promise.race([outbox.flush(), new Promise((resolve) => setTimeout(resolve, 3000))]); // first what waits, then new items
await leases.fill();
const lease = state.rules?.lease_seconds ?? 90;
setInterval(() => leases.renew(), 1000 * Math.max(2, Math.min(20, lease / 4)));
document.body.dataset.ready = "yes";
