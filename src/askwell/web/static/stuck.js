// What could not be saved: the person looks at it, answers anew, keeps a copy, sends it again or throws it away.
import { element } from "./stage.js";

const $ = (id) => document.getElementById(id);
const several = (n, words) => (n ? `${n} ${n === 1 ? "answer waits" : "answers wait"} for ${words}. ` : "");

// `open()` opens the dialog, `answerAgain(item)` puts an item on the stage, `rules()` is the version that is seen now.
export function stuckDialog({ outbox, who, open, answerAgain, rules }) {
  function line(entry) {
    const { body, why } = entry;
    const words = `${body.item}: ${body.label ?? "skipped"}. ${why ?? "Given to another project at this address."}`;
    if (!why || entry.gone) return element("li", {}, element("span", {}, words));
    const again = element("button", { className: "plain", type: "button" }, "Answer again");
    again.addEventListener("click", async () => {
      if (!(await answerAgain(body.item))) return;
      await outbox.discard((other) => other === entry); // the person says it anew
      $("refused").close();
    });
    return element("li", {}, element("span", {}, words), again);
  }

  $("refused-button").addEventListener("click", () => {
    const gone = outbox.refused.filter((entry) => entry.gone).length;
    $("refused-why").textContent = several(gone, gone === 1 ? "an item that is no longer in the pool" : "items that are no longer in the pool")
      + several(outbox.foreign.length, "another project, and will be sent when that project is served at this address again")
      + "Everything listed here is kept in this browser until you decide.";
    $("refused-list").replaceChildren(...outbox.stuck.map(line));
    $("refused-again").hidden = !outbox.refused.length;
    open();
  });

  $("refused-save").addEventListener("click", () => {
    // as `askwell import` reads it
    const lines = outbox.stuck.map(({ key, kind, at, body }) => JSON.stringify({
      id: body.item, kind, label: body.label, reason: body.reason, who, at: at / 1000, seconds: body.seconds, key,
    }));
    const link = element("a", { href: URL.createObjectURL(new Blob([`${lines.join("\n")}\n`])), download: "answers.jsonl" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });

  $("refused-form").addEventListener("submit", (event) => {
    if (event.submitter?.value === "again") outbox.retry(rules());
    if (event.submitter?.value === "discard") outbox.discard();
  });
}
