// Labels that are numbers: a field with a range, in which the page's keys work too.

// The number as text, or what is wrong with it.
function readNumber(text, [low, high]) {
  const value = Number(text.trim().replace(",", "."));
  if (!text.trim() || !Number.isFinite(value)) return { wrong: "Type a number, such as 12.5." };
  if (low !== null && value < low) return { wrong: `The lowest label is ${low}.` };
  if (high !== null && value > high) return { wrong: `The highest label is ${high}.` };
  return { value: String(value) };
}

export class NumberField {
  constructor({ form, field, commands, answer, say }) {
    Object.assign(this, { form, field, range: null, task: null });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.task) return;
      const { value, wrong } = readNumber(field.value, this.range);
      if (wrong) say(wrong);
      else answer(value);
    });
    field.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const key = event.key.toLowerCase();
      const command = commands()[key];
      if (!command || key === "e") return; // e is a part of numbers: 1e5
      event.preventDefault();
      event.stopPropagation();
      command();
    });
  }

  // Ask for the number of a task, or of none; without a range labels are classes.
  show(range, task) {
    Object.assign(this, { range: range ?? null, task: task ?? null });
    this.form.hidden = !range;
    if (!range) return;
    const was = task?.was ?? null;
    this.field.value = was === null ? "" : String(Number(was));
    this.field.disabled = !task;
    if (task && !document.querySelector("dialog[open]")) this.field.focus();
  }
}
