"use strict";
// The page shows what the stream sends. Every text becomes a text node: the
// policy of the page allows nothing else.
const token = location.hash.slice(1);
const el = (id) => document.getElementById(id);
const ago = new Map(); // elements that show a time

function make(tag, cls, text) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
}

function fact(cls, text) {
  return make("bdi", cls, text);
}

function since(ts, going) {
  const s = Math.max(0, Math.floor((Date.now() - Date.parse(ts)) / 1000));
  if (Number.isNaN(s)) return ts;
  if (going) return "for " + s + " s";
  if (s < 1) return "just now";
  if (s < 60) return s + " s ago";
  if (s < 3600) return Math.floor(s / 60) + " min ago";
  if (s < 86400) return Math.floor(s / 3600) + " h ago";
  return new Date(ts).toLocaleString();
}

function clock(ts, going) {
  const e = make("time", "fact", since(ts, going));
  e.dateTime = ts;
  e.title = new Date(ts).toLocaleString();
  ago.set(e, () => { e.textContent = since(ts, going); });
  return e;
}

function diffOf(files) {
  const all = make("div");
  for (const f of files) {
    all.append(fact("name", f.path));
    if (f.diff.why) all.append(make("p", "quiet", f.diff.why));
    if (!f.diff.lines.length) continue;
    const pre = make("pre");
    pre.tabIndex = 0;
    pre.setAttribute("aria-label", "Diff of " + f.path);
    for (const l of f.diff.lines) {
      const cls = { "+": "add", "-": "cut", "@": "at" }[l.op] || "";
      pre.append(make("span", cls, (l.op === "@" ? "" : l.op) + l.text));
    }
    all.append(pre);
    if (f.diff.cut) all.append(make("p", "quiet", "The diff goes on; the rest is not shown."));
  }
  if (!files.length) all.append(make("p", "quiet", "This row is not in the live journal any more."));
  return all;
}

async function ask(path, body) {
  const r = await fetch(path, {
    method: "POST",
    headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
    body: JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
  });
  const reply = await r.json();
  if (!reply.ok) throw new Error((reply.reason || "the server refused it") + (reply.hint ? ": " + reply.hint : ""));
  return reply;
}

function changeItem(c, canUndo) {
  const li = make("li");
  const names = c.files.slice(0, 3).map((f) => f.path).join(", ");
  const more = c.files.length + (c.more || 0) - Math.min(3, c.files.length);
  li.append(fact("name", names + (more > 0 ? " and " + more + " more" : "")), fact("fact", c.op));
  if (c.files.length === 1) li.append(fact("fact", c.files[0].gone ? "gone" : size(c.files[0].bytes)));
  li.append(clock(c.ts), fact("fact quiet", "row " + c.row + " by " + (c.caller || "unknown")));
  if (c.undone) li.append(fact("fact warn", "undone"));
  const buttons = make("p", "buttons");
  const show = make("button", "", "Diff");
  show.type = "button";
  show.setAttribute("aria-expanded", "false");
  show.setAttribute("aria-label", "Diff of " + names);
  const place = make("div");
  show.addEventListener("click", async () => {
    const open = show.getAttribute("aria-expanded") !== "true";
    show.setAttribute("aria-expanded", String(open));
    place.replaceChildren();
    if (!open) return;
    try {
      const reply = await ask("/diff", { row: c.row });
      if (show.getAttribute("aria-expanded") === "true") place.replaceChildren(diffOf(reply.files || []));
    } catch (e) {
      place.replaceChildren(make("p", "bad", e.message));
    }
  });
  buttons.append(show);
  if (canUndo && !c.undone) {
    const undo = make("button", "", "Undo …");
    undo.type = "button";
    undo.setAttribute("aria-label", "Undo row " + c.row + ", " + names);
    undo.addEventListener("click", () => confirmUndo(c, names));
    buttons.append(" ", undo);
  }
  li.append(buttons, place);
  return li;
}

function size(n) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  for (; n >= 1024 && i < 3; i++) n /= 1024;
  return (i ? n.toFixed(1) : n) + " " + units[i];
}

let pending = null; // the undo that waits for a yes

async function confirmUndo(c, names) {
  const yes = el("confirm-yes");
  const mine = (pending = { row: c.row, ticket: "" });
  el("confirm-what").replaceChildren("The commit of row " + c.row + ", " + c.op + " of ", fact("name", names));
  el("confirm-problem").textContent = "";
  el("confirm-diff").replaceChildren();
  yes.disabled = true;
  el("confirm").showModal();
  el("confirm-no").focus();
  try {
    const [diff, tried] = [await ask("/diff", { row: c.row }), await ask("/undo", { row: c.row })];
    if (pending !== mine) return;
    mine.ticket = tried.ticket;
    el("confirm-diff").replaceChildren(make("p", "quiet", "What is undone:"), diffOf(diff.files || []));
    yes.disabled = false;
  } catch (e) {
    if (pending === mine) el("confirm-problem").textContent = e.message;
  }
}

el("confirm-no").addEventListener("click", () => el("confirm").close());
el("confirm").addEventListener("close", () => {
  if (!el("confirm").open) pending = null; // the event may come when it is open again
});
el("confirm-yes").addEventListener("click", async () => {
  const mine = pending;
  if (!mine || !mine.ticket) return;
  el("confirm-yes").disabled = true;
  try {
    await ask("/undo", { row: mine.row, ticket: mine.ticket });
    if (pending === mine) el("confirm").close();
  } catch (e) {
    if (pending === mine) el("confirm-problem").textContent = e.message;
  }
});

// sync makes a list show items, and leaves the elements of those that stay as
// they are: focus and open diffs stay, too.
function sync(id, items, key, item) {
  const list = el(id).querySelector("ul");
  const have = new Map([...list.children].map((li) => [li.dataset.key, li]));
  let at = null;
  for (const one of items) {
    const k = key(one);
    let li = have.get(k);
    if (!li) {
      li = item(one);
      li.dataset.key = k;
    }
    have.delete(k);
    const next = at ? at.nextSibling : list.firstChild;
    if (next !== li) list.insertBefore(li, next);
    at = li;
  }
  for (const li of have.values()) {
    for (const e of li.querySelectorAll("time")) ago.delete(e);
    li.remove();
  }
}

function show(o) {
  el("stopped").hidden = !o.stopped.length;
  sync("stopped", o.stopped, (t) => t, (t) => make("li", "bad", t));
  sync("running", o.running, (c) => JSON.stringify(c), (c) => {
    const li = make("li");
    li.append(fact("name", c.paths.join(", ") || "a file without earlier rows"), fact("fact", c.op), clock(c.since, true), fact("fact quiet", (c.caller ? "by " + c.caller + ", " : "") + "process " + c.pid));
    return li;
  });
  sync("waiting", o.waiting, (w) => JSON.stringify(w), (w) => {
    const li = make("li");
    li.append(fact("fact", w.text));
    if (w.ts) li.append(clock(w.ts));
    li.append(make("br"), make("code", "", w.command));
    return li;
  });
  sync("refused", o.refused, (r) => String(r.row) + r.why, (r) => {
    const li = make("li");
    li.append(fact("name", r.path), fact("fact warn", r.reason), clock(r.ts), fact("fact quiet", r.op + " by " + (r.caller || "unknown")), make("br"), fact("fact", r.why));
    return li;
  });
  sync("changes", o.changes, (c) => c.row + " " + !!c.undone + " " + o.undo, (c) => changeItem(c, o.undo));
  el("state").textContent = "Live. " + o.rows + " rows.";
}

// The stream is read with fetch, because an EventSource sends no token.
async function listen() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 10000)) {
    try {
      const r = await fetch("/events", { headers: { Authorization: "Bearer " + token, Accept: "text/event-stream" }, cache: "no-store", credentials: "omit" });
      if (r.status === 401) {
        el("state").textContent = "The token in the address is missing or wrong. Open the address that the server printed.";
        el("state").className = "bad";
        return;
      }
      if (!r.ok) throw new Error("status " + r.status);
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        const frames = (rest + value).split("\n\n");
        rest = frames.pop();
        for (const frame of frames) {
          const data = frame.split("\n").find((l) => l.startsWith("data: "));
          if (data) show(JSON.parse(data.slice(6)));
        }
        wait = 500;
      }
    } catch (e) {
      // it is tried again
    }
    el("state").textContent = "The server does not answer. Trying again …";
    await new Promise((next) => setTimeout(next, wait));
  }
}

setInterval(() => ago.forEach((again) => again()), 1000);
listen();
