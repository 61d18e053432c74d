// What pages do besides, where scripts run: parts refresh, keys work, times are the viewer's.
// Without it every page works by links and forms alone.
"use strict";
(() => {
  const body = document.body;
  const every = Number(body.dataset.refresh || 0) * 1000;
  const hold = document.getElementById("hold");
  const kept = {
    get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
    set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* private */ } },
  };

  // Times: those of a browser, in its zone; the server wrote UTC.
  const absolute = body.dataset.times === "absolute";
  const language = document.documentElement.lang;
  const full = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
  function localTimes(within) {
    for (const each of within.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      each.title = `${full.format(at)} · ${each.dateTime}`;
      if (absolute) each.textContent = full.format(at);
    }
  }

  // Live parts: the page is asked for again, and what is marked is put in its place.
  let paused = kept.get("mutirao-hold") === "1";
  let timer = 0;
  let asking = null;
  let failures = 0;

  function isInUse(part) {
    const active = document.activeElement;
    const focused = part.contains(active) && active.matches("input, select, textarea, button, summary, pre");
    const selected = getSelection();
    return focused || part.querySelector("input:checked") ||
      (selected && !selected.isCollapsed && part.contains(selected.anchorNode));
  }

  function put(fresh) {
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const its = fresh.getElementById(part.id);
      if (!its || isInUse(part) || its.innerHTML === part.innerHTML) continue;
      const open = new Set([...part.querySelectorAll("details[open][data-key]")].map((d) => d.dataset.key));
      const at = row ? row.querySelector("a")?.href : null;
      const focused = part.contains(document.activeElement) ? document.activeElement.href : null;
      part.replaceChildren(...document.adoptNode(its).childNodes);
      for (const each of part.querySelectorAll("details[data-key]")) each.open = open.has(each.dataset.key) || each.open;
      localTimes(part);
      if (at && row && !row.isConnected) select(rows().find((each) => each.querySelector("a")?.href === at));
      if (focused && document.activeElement === body) {
        [...part.querySelectorAll("a[href]")].find((each) => each.href === focused)?.focus({ preventScroll: true });
      }
      prepare();
    }
  }

  async function look() {
    asking = new AbortController();
    try {
      const answer = await fetch(location.href, { signal: asking.signal, credentials: "same-origin" });
      if (!answer.ok) throw new Error(String(answer.status));
      put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      failures = 0;
    } catch (error) {
      if (error.name === "AbortError") return;
      failures += 1;
    } finally {
      asking = null;
    }
    wait();
  }

  function wait() {
    clearTimeout(timer);
    if (every && !paused && !document.hidden && document.querySelector("[data-live]")) {
      timer = setTimeout(look, every * Math.min(2 ** failures, 12));
    }
  }

  function stop() {
    clearTimeout(timer);
    if (asking) asking.abort();
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : wait()));

  function setPaused(value) {
    paused = value;
    kept.set("mutirao-hold", paused ? "1" : "0");
    showHold();
    if (paused) stop(); else look();
  }

  function showHold() {
    if (!hold) return;
    hold.hidden = false;
    hold.setAttribute("aria-pressed", String(paused));
    hold.textContent = paused ? hold.dataset.go : hold.dataset.hold;
  }

  if (hold) hold.addEventListener("click", () => setPaused(!paused));

  // Chosen jobs.
  const number = document.getElementById("chosen-number");
  const plain = number ? number.textContent : "";
  function ticks() { return [...document.querySelectorAll("#rows input[name=id]")]; }
  function count() {
    if (!number) return;
    const n = ticks().filter((each) => each.checked).length;
    number.textContent = n === 0 ? plain : n === 1 ? number.dataset.one : number.dataset.many.replace("{n}", n);
    const all = document.getElementById("all");
    if (all) { all.checked = n > 0 && n === ticks().length; all.indeterminate = n > 0 && n < ticks().length; }
  }
  function prepare() {
    const all = document.getElementById("all");
    if (all) all.hidden = false;
    count();
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "all") for (const each of ticks()) each.checked = event.target.checked;
    if (event.target.closest("#rows")) count();
  });

  // How pages are liked is kept at once.
  const prefer = document.querySelector("form.prefer");
  if (prefer) {
    prefer.querySelector("button").hidden = true;
    prefer.addEventListener("change", () => prefer.requestSubmit());
  }

  // Keys.
  const keys = document.getElementById("keys");
  const opener = document.getElementById("keys-open");
  if (opener) {
    opener.parentElement.hidden = false;
    opener.addEventListener("click", () => keys.showModal());
  }
  let row = null;
  function rows() { return [...document.querySelectorAll("[data-rows] tbody tr")]; }
  function select(next) {
    if (!next) return;
    if (row) row.classList.remove("at");
    row = next;
    row.classList.add("at");
    row.scrollIntoView({ block: "nearest" });
    const link = row.querySelector("a[href]");
    if (link) link.focus({ preventScroll: true });
  }
  function move(step) {
    const all = rows();
    const at = all.indexOf(row);
    select(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)]);
  }
  const orders = {
    "/": () => {
      const search = document.getElementById("q");
      if (search) { search.focus(); search.select(); } else {
        const jobs = document.querySelector('.side nav a[href$="/jobs"]');
        if (jobs) location.assign(`${jobs.href}#q`);
      }
    },
    j: () => move(1),
    k: () => move(-1),
    x: () => { const tick = row && row.querySelector("input[name=id]"); if (tick) { tick.checked = !tick.checked; count(); } },
    p: () => setPaused(!paused),
    t: () => {
      const theme = prefer && prefer.elements.theme;
      if (!theme) return;
      const dark = document.documentElement.dataset.theme === "dark" ||
        (document.documentElement.dataset.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
      theme.value = dark ? "light" : "dark";
      prefer.requestSubmit();
    },
    "?": () => keys.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || keys.open) return;
    if (event.key === "Escape" && document.activeElement?.id === "q") document.activeElement.blur();
    if (event.target.closest("input:not([type=checkbox]), select, textarea")) return;
    const order = orders[event.key];
    if (order) { event.preventDefault(); order(); }
  });
  if (location.hash === "#q") document.getElementById("q")?.focus();

  localTimes(document);
  prepare();
  showHold();
  wait();
})();
