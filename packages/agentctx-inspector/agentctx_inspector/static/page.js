"use strict";
// Every page works without this file. What comes from the daemon as HTML was escaped by its templates.

/** Searches as one types: replaces the results and the address, and forgets answers that came too late. */
function searchAsOneTypes(form) {
  const results = document.getElementById("results");
  let asking = null;
  let timer = 0;

  async function ask() {
    const given = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (value.trim() && !(name === "by" && value === "day")) given.append(name, value);
    }
    const address = form.action + (given.size ? `?${given}` : "");
    given.append("fragment", "1");
    asking?.abort();
    asking = new AbortController();
    try {
      const reply = await fetch(`${form.action}?${given}`, { signal: asking.signal });
      if (reply.status === 401) return lost(true);
      put(results, await parsed(reply));
      if (!form.hasAttribute("data-stays")) history.replaceState(null, "", address);
      newerIn(results, null);
    } catch (error) {
      if (error.name !== "AbortError") lost(true);
    }
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 180);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    ask();
  });
}

/** Returns what a reply shows: a part of a page, or the main part of one that says what is wrong. */
async function parsed(reply) {
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  return page.querySelector("main") ?? page.body;
}

function put(place, shown) {
  place.replaceChildren(...shown.childNodes);
}

const TITLES = ".row a.title";
const addresses = (shown) => [...shown.querySelectorAll(TITLES)].map((each) => each.getAttribute("href"));
let counted = null;

/** Looks for memories that are newer than the list. It stays as it is until someone wants to see them. */
async function lookForNewer(results, count) {
  const given = new URLSearchParams(location.search);
  if (document.hidden || count === counted || given.get("q") || given.get("before")) return;
  counted = count;
  given.append("fragment", "1");
  const here = location.href;
  try {
    const reply = await fetch(`/?${given}`);
    if (reply.ok && here === location.href) newerIn(results, await parsed(reply));
  } catch {
    counted = null; // the stream says it if the daemon is gone
  }
}

/** Offers what a later list has and this one has not; null takes that back. An empty list has nothing to lose. */
function newerIn(results, later) {
  const offer = document.getElementById("newer");
  if (!offer) return;
  const newest = addresses(results).sort().at(-1) ?? ""; // ids begin with their time
  const all = later ? addresses(later) : [];
  const count = all.filter((each) => each > newest).length;
  offer.hidden = count === 0 || newest === "";
  if (count > 0 && newest === "") return put(results, later);
  const many = count === all.length ? `${count} or more` : count;
  offer.textContent = `${many} new ${count === 1 ? "memory" : "memories"}. Show`;
  offer.onclick = () => {
    put(results, later);
    offer.hidden = true;
    results.scrollIntoView({ block: "nearest" });
    results.querySelector(TITLES)?.focus({ preventScroll: true });
  };
}

/** Says that the daemon is gone, or takes that back. */
function lost(isLost) {
  document.getElementById("lost").hidden = !isLost;
}

const SILENT_MS = 10_000;
const RETRY_MS = 3_000;

/** Shows figures as they move. One tab listens for all: a browser has six connections to a server. */
function listen() {
  const tabs = new BroadcastChannel("agentctx");
  tabs.onmessage = (event) => hear(event.data);

  function tell(figures) {
    hear(figures);
    tabs.postMessage(figures);
  }
  function open() {
    const stream = new EventSource("/live");
    let silence = 0;
    function wait() {
      clearTimeout(silence);
      silence = setTimeout(again, SILENT_MS); // a connection that hangs does not fail
    }
    function again() {
      clearTimeout(silence);
      stream.close();
      tell(null);
      setTimeout(open, RETRY_MS);
    }
    stream.onmessage = (event) => {
      wait();
      tell(JSON.parse(event.data));
    };
    stream.onerror = again;
    addEventListener("pagehide", () => stream.close()); // some browsers report leaving as an error
    wait();
  }
  navigator.locks.request("agentctx", () => {
    open();
    return new Promise(() => {}); // until this tab is closed
  });
}

/** Takes the figures; null if there are none any more. */
function hear(figures) {
  lost(figures === null);
  if (figures === null) return;
  show(figures);
  const results = document.querySelector("[data-newest]");
  if (results && figures.memories !== undefined) lookForNewer(results, figures.memories);
  loadMoving(figures);
}

const PAUSE = 5;
let told = 0;
let loaded = "";

/** Loads again, at every fifth word of the daemon, what moves: while something waits, or after a change. */
function loadMoving(figures) {
  if (++told % PAUSE || document.hidden) return;
  const now = JSON.stringify([figures.saved, figures.embedded, figures.pending]);
  for (const place of document.querySelectorAll("[data-moves]")) {
    if (now !== loaded || place.querySelector("progress")) load(place);
  }
  loaded = now;
}

const SAMPLES = 60;
const seen = new Map();
let before = null;

/** Writes the figures into their places, and draws their last two minutes. Rates are differences of counts. */
function show(figures) {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const value = figures[place.dataset.figure];
    if (value === undefined || value === null) continue;
    place.textContent = value || !("unlessZero" in place.dataset) ? value.toLocaleString("en") : "";
  }
  const seconds = before ? figures.uptime_s - before.uptime_s : 0;
  for (const chart of document.querySelectorAll("[data-chart]")) {
    const name = chart.dataset.chart;
    const isRate = chart.hasAttribute("data-is-rate");
    if (isRate && seconds <= 0) continue;
    const value = isRate ? (figures[name] - before[name]) / seconds : figures[name];
    if (!Number.isFinite(value)) continue;
    const samples = [...(seen.get(name) ?? []), value].slice(-SAMPLES);
    seen.set(name, samples);
    draw(chart.querySelector("polyline"), samples);
    const rate = document.querySelector(`[data-rate="${name}"]`);
    if (rate) rate.textContent = value.toLocaleString("en", { maximumFractionDigits: 1 });
  }
  if (figures.uptime_s !== undefined) before = figures;
}

/** Draws samples from right to left in a box of 120 by 32. */
function draw(line, samples) {
  const most = Math.max(...samples, 1e-9);
  const points = samples.map((value, at) => {
    const x = 120 - (samples.length - 1 - at) * (120 / (SAMPLES - 1));
    return `${x.toFixed(1)},${(30 - (28 * value) / most).toFixed(1)}`;
  });
  line.setAttribute("points", points.join(" "));
}

/** Loads what a page shows only if someone waits for it, unless they are in it. */
async function load(place) {
  if (place.contains(document.activeElement)) return;
  try {
    const reply = await fetch(place.dataset.load);
    if (reply.ok) put(place, await parsed(reply));
  } catch {
    lost(true);
  }
}

/** Decides with one key about the entry that has the focus; without one, the first gets it. */
function decideByKey(event) {
  const entries = [...document.querySelectorAll("[data-entry]")];
  const entry = event.target.closest("[data-entry]");
  const key = event.key.toLowerCase();
  if (entries.length === 0 || event.repeat || event.isComposing || !/^[kemfas123]$/.test(key)) return;
  event.preventDefault();
  const control = entry?.querySelector(`[data-key="${key}"]`);
  if (control) control.click();
  else if (!entry) entries[0].focus();
  else if (key === "s") (entries[entries.indexOf(entry) + 1] ?? document.querySelector(".next a"))?.focus();
}

for (const form of document.querySelectorAll("form[data-live]")) searchAsOneTypes(form);
for (const place of document.querySelectorAll("[data-load]")) load(place);
for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    // What was typed stays in the page: elsewhere it would be lost.
    if (!document.getElementById("lost").hidden) return event.preventDefault();
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  });
}
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("form[data-once] button")) button.disabled = false;
});
for (const hint of document.querySelectorAll(".keys")) hint.hidden = false;
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const ask = document.getElementById("q");
  if (event.key === "/" && ask) {
    event.preventDefault();
    ask.focus();
  } else decideByKey(event);
});
listen();
