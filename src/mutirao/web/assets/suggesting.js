// What may be meant by a filter that is being typed: a list below the field, by keys and pointer.
"use strict";
(() => {
  const field = document.getElementById("q");
  if (!field || !field.dataset.suggestions) return;
  const list = document.createElement("ul");
  list.id = "suggestions";
  list.className = "suggestions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.dataset.label);
  list.hidden = true;
  field.parentElement.append(list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id })) {
    field.setAttribute(name, value);
  }
  let timer = 0;
  let asking = null;
  let found = [];
  let at = -1;

  function close() {
    clearTimeout(timer);
    if (asking) asking.abort();
    list.hidden = true;
    found = [];
    at = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  }

  function take(each) {
    const ends = each.text.endsWith(":") || each.text.endsWith(".") ? "" : " ";
    field.value = field.value.slice(0, each.start) + each.text + ends + field.value.slice(each.end).trimStart();
    const place = each.start + each.text.length + ends.length;
    field.focus();
    field.setSelectionRange(place, place);
    close();
    if (!ends) ask();
  }

  function mark(next) {
    at = next;
    [...list.children].forEach((each, place) => each.setAttribute("aria-selected", String(place === at)));
    if (at >= 0) field.setAttribute("aria-activedescendant", `suggestion-${at}`);
    else field.removeAttribute("aria-activedescendant");
  }

  function show() {
    list.replaceChildren(...found.map((each, place) => {
      const option = document.createElement("li");
      option.id = `suggestion-${place}`;
      option.setAttribute("role", "option");
      const text = document.createElement("code");
      text.textContent = each.text;
      const help = document.createElement("span");
      help.textContent = each.help;
      option.append(text, help);
      option.addEventListener("mousedown", (event) => { event.preventDefault(); take(each); });
      return option;
    }));
    list.hidden = found.length === 0;
    field.setAttribute("aria-expanded", String(found.length > 0));
    mark(-1);
  }

  async function ask() {
    if (asking) asking.abort();
    const mine = new AbortController();
    asking = mine;
    const query = new URLSearchParams({ q: field.value, at: String(field.selectionStart) });
    try {
      const answer = await fetch(`${field.dataset.suggestions}?${query}`, { signal: mine.signal, credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      found = await answer.json();
      if (asking === mine && document.activeElement === field) show();
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 120); });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing) return;
    const last = found.length - 1;
    if (event.key === "ArrowDown") mark(at < last ? at + 1 : 0);
    else if (event.key === "ArrowUp") mark(at > 0 ? at - 1 : last);
    else if (event.key === "Escape") { close(); event.stopPropagation(); }
    else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) take(found[at]);
    else { if (event.key === "Enter") close(); return; }
    event.preventDefault();  // Escape would empty the field, too
  });
})();
