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
      if (!reply.ok) return;
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      results.replaceChildren(...page.body.childNodes);
      history.replaceState(null, "", address);
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

/** Says that the daemon is gone, or takes that back. */
function lost(isLost) {
  document.getElementById("lost").hidden = !isLost;
}

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
    stream.onmessage = (event) => tell(JSON.parse(event.data));
    stream.onerror = () => {
      tell(null);
      if (stream.readyState === EventSource.CLOSED) setTimeout(open, 5000);
    };
  }
  navigator.locks.request("agentctx", () => {
    open();
    return new Promise(() => {}); // until this tab is closed
  });
}

/** Takes the figures; null if there are none any more. */
function hear(figures) {
  lost(figures === null);
  if (figures !== null) show(figures);
}

const SAMPLES = 60;
const seen = new Map();
let before = null;

/** Writes the figures into their places, and draws their last two minutes. Rates are differences of counts. */
function show(figures) {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const value = figures[place.dataset.figure];
    if (value !== undefined && value !== null) place.textContent = value.toLocaleString("en");
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

/** Loads what a page shows only if someone waits for it. */
async function load(place) {
  try {
    const reply = await fetch(place.dataset.load);
    if (!reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    place.replaceChildren(...page.body.childNodes);
  } catch {
    lost(true);
  }
}

for (const form of document.querySelectorAll("form[data-live]")) searchAsOneTypes(form);
for (const place of document.querySelectorAll("[data-load]")) load(place);
for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", () => {
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  });
}
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("form[data-once] button")) button.disabled = false;
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select");
  const ask = document.getElementById("q");
  if (event.key === "/" && !isTyping && ask && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    ask.focus();
  }
});
listen();
