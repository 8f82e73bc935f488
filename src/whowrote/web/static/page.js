"use strict";
// The whole script of the page: files into boxes, forms to the server, fragments into their room.
// Nothing is loaded from elsewhere, and what comes back was escaped by the server.
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const csrf = () => { const field = $('input[name="csrf"]'); return field ? field.value : ""; };
  const MOST_LISTED = 12;

  // -- files: chosen, dropped, whole folders ---------------------------------------------------
  const chosen = new WeakMap(); // box -> [{name, file}]
  const named = (file) => ({ name: file.webkitRelativePath || file.name, file });

  async function walked(entry, path) {
    if (entry.isFile) {
      const file = await new Promise((done, fail) => entry.file(done, fail));
      return [{ name: path + file.name, file }];
    }
    const reader = entry.createReader(), found = [];
    for (;;) { // a reader gives a hundred entries at a time
      const some = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!some.length) break;
      for (const one of some) found.push(...await walked(one, path + entry.name + "/"));
    }
    return found;
  }

  async function dropped(transfer) {
    const entries = [...transfer.items].filter((item) => item.kind === "file")
      .map((item) => (item.webkitGetAsEntry ? item.webkitGetAsEntry() : null));
    if (entries.length && entries.every(Boolean)) {
      const parts = await Promise.all(entries.map((entry) => walked(entry, "")));
      return parts.flat();
    }
    return [...transfer.files].map(named);
  }

  function list(box) {
    const shelf = $(".files", box), files = chosen.get(box) || [];
    shelf.replaceChildren(...files.slice(0, MOST_LISTED).map((one, place) => {
      const item = document.createElement("li"), label = document.createElement("span");
      label.textContent = one.name; label.dir = "auto";
      const remove = document.createElement("button");
      remove.type = "button"; remove.textContent = "×";
      remove.setAttribute("aria-label", "Remove " + one.name);
      remove.addEventListener("click", () => { files.splice(place, 1); list(box); });
      item.append(label, remove);
      return item;
    }));
    if (files.length > MOST_LISTED) {
      const item = document.createElement("li");
      item.textContent = `and ${files.length - MOST_LISTED} more`;
      shelf.append(item);
    }
  }

  function add(box, files) { chosen.set(box, [...(chosen.get(box) || []), ...files]); list(box); }

  function boxes(root) {
    for (const box of all("[data-drop]", root)) {
      for (const input of all('input[type="file"]', box)) {
        input.addEventListener("change", () => { add(box, [...input.files].map(named)); input.value = ""; });
      }
      box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
      box.addEventListener("dragleave", () => box.classList.remove("over"));
      box.addEventListener("drop", async (event) => {
        if (![...event.dataTransfer.types].includes("Files")) { box.classList.remove("over"); return; }
        event.preventDefault();
        box.classList.remove("over");
        add(box, await dropped(event.dataTransfer));
      });
    }
  }

  // -- forms: sent, answered in place ----------------------------------------------------------
  async function send(path, data, place, busy, button) {
    const status = $(".status", place), problem = $(".problem", place);
    if (problem) problem.hidden = true;
    if (status) { status.textContent = busy; status.classList.add("busy"); }
    if (button) button.disabled = true;
    try {
      const answer = await fetch(path, { method: "POST", body: data, credentials: "same-origin" });
      const text = await answer.text();
      if (!answer.ok) {
        let why = "The server did not say why (" + answer.status + ").";
        try { why = JSON.parse(text).detail; } catch { /* not one of our sentences */ }
        throw new Error(why);
      }
      const next = answer.headers.get("x-go-to");
      if (next) { window.location.assign(next); return null; }
      return text;
    } catch (error) {
      if (problem) {
        const said = error instanceof TypeError ? "The server does not answer: is `whowrote serve` still running?" : error.message;
        problem.textContent = said.charAt(0).toUpperCase() + said.slice(1);
        problem.hidden = false;
      }
      return null;
    } finally {
      if (status) { status.textContent = ""; status.classList.remove("busy"); }
      if (button) button.disabled = false;
    }
  }

  function put(id, html) {
    const room = document.getElementById(id), made = document.createElement("template");
    made.innerHTML = html;
    room.replaceChildren(made.content);
    alive(room);
    return room;
  }

  async function submitted(event) {
    event.preventDefault();
    const form = event.target, data = new FormData();
    for (const [name, value] of new FormData(form)) if (!(value instanceof File)) data.append(name, value);
    if (!data.has("csrf")) data.append("csrf", csrf());
    for (const box of all("[data-drop]", form)) {
      for (const one of chosen.get(box) || []) data.append(box.dataset.drop, one.file, one.name);
    }
    const rate = $("#rate");
    if (form.dataset.send === "/ask" && rate) data.append("rate", rateNow());
    const html = await send(form.dataset.send, data, form, form.dataset.busy || "Working", $('button[type="submit"]', form));
    if (html !== null && form.dataset.into) {
      const room = put(form.dataset.into, html);
      room.focus({ preventScroll: true });
      room.scrollIntoView({ block: "start" });
      decide();
    }
  }

  async function loaded(event) {
    const button = event.currentTarget, data = new FormData();
    data.append("csrf", csrf());
    const html = await send(button.dataset.load, data, button.closest(".answer"), button.dataset.busy, button);
    if (html !== null) put(button.dataset.into, html);
  }

  // -- the slider: decided here, from figures that came with the answers ------------------------
  const slider = $(".slider");
  const rates = slider ? JSON.parse(slider.dataset.rates) : [], costs = slider ? JSON.parse(slider.dataset.costs) : [];
  const rateNow = () => rates[Number($("#rate").value)];
  const share = (value) => (value >= 0.1 || value === 0 ? Math.round(100 * value) + "%" : (100 * value).toFixed(1).replace(/\.0$/, "") + "%");

  function decide() {
    if (!slider) return;
    const place = Number($("#rate").value), rate = rates[place];
    $("#rate-out").textContent = share(rate);
    $("#rate").setAttribute("aria-valuetext", share(rate));
    $("#cost").textContent = rate >= 1
      ? "Somebody is always named, also for texts that nobody enrolled wrote. Of the enrolled authors' own texts " + share(costs[place]) + " go to another."
      : "That costs " + share(costs[place]) + " of the enrolled authors' own texts: they would get none of these, or another's name. Measured on texts held out, with each author left out in turn.";
    let named = 0;
    const answers = all("article.answer[data-best]");
    for (const one of answers) {
      const stranger = one.dataset.stranger === undefined ? 0 : Number(one.dataset.stranger);
      const is = Number(one.dataset.typicality) >= Number(one.dataset.limit) && stranger <= rate;
      named += is;
      const who = $(".who", one);
      who.textContent = is ? one.dataset.best : "None of these";
      who.classList.toggle("none", !is);
      for (const line of all(".if-named", one)) line.hidden = !is;
      for (const line of all(".if-none", one)) line.hidden = is;
      $(".report", one).href = "/ask/" + one.dataset.key + "/report?rate=" + rate;
    }
    const said = $(".decided");
    if (said) said.textContent = `${named} named, ${answers.length - named} by none of these.`;
  }

  // -- the map: pointed at, chosen -------------------------------------------------------------
  function maps(root) {
    for (const svg of all(".map svg", root)) {
      const line = $(".pointed", svg.closest("figure")), first = line.textContent;
      const scope = svg.closest("article") || document;
      const choose = (place) => {
        const again = place.classList.contains("chosen");
        for (const one of all(".chosen", scope)) one.classList.remove("chosen");
        for (const one of all(".place", svg)) one.setAttribute("aria-pressed", "false");
        svg.classList.toggle("choosing", !again);
        if (again) { line.textContent = first; return; }
        place.classList.add("chosen");
        place.setAttribute("aria-pressed", "true");
        for (const dot of all(`.dot[data-of="${place.dataset.of}"]`, svg)) dot.classList.add("chosen");
        for (const row of all("tr[data-name]", scope)) row.classList.toggle("chosen", row.dataset.name === place.dataset.name);
        const n = all(`.dot[data-of="${place.dataset.of}"]`, svg).length;
        line.textContent = `${place.dataset.name}: ${n} of their training texts are shown. Choose again to let go.`;
      };
      for (const place of all(".place", svg)) {
        place.addEventListener("pointerenter", () => { if (!svg.classList.contains("choosing")) line.textContent = place.dataset.name; });
        place.addEventListener("pointerleave", () => { if (!svg.classList.contains("choosing")) line.textContent = first; });
        place.addEventListener("focus", () => { if (!svg.classList.contains("choosing")) line.textContent = place.dataset.name; });
        place.addEventListener("click", () => choose(place));
        place.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(place); }
        });
      }
    }
  }

  // -- a training that is watched --------------------------------------------------------------
  function watch() {
    const room = $("[data-watch]");
    if (!room || !["queued", "running"].includes(room.dataset.state)) return;
    const source = new EventSource(room.dataset.watch);
    source.addEventListener("state", (event) => {
      const state = JSON.parse(event.data), made = document.createElement("template");
      made.innerHTML = state.html;
      room.replaceChildren(made.content);
      room.dataset.state = state.state;
      if ($("#use")) $("#use").hidden = !state.trained;
      if (["queued", "running"].includes(state.state)) return;
      source.close();
      if ($("#cancel")) $("#cancel").hidden = true;
      if (room.dataset.after === "reload") window.location.reload();
    });
  }

  function alive(root) {
    boxes(root);
    maps(root);
    for (const form of all("form[data-send]", root)) form.addEventListener("submit", submitted);
    for (const button of all("[data-load]", root)) button.addEventListener("click", loaded);
    for (const radio of all(".switch input", root)) {
      radio.addEventListener("change", () => {
        for (const text of all(".marked", radio.closest(".explanation"))) text.hidden = text.dataset.marks !== radio.value;
      });
    }
  }

  alive(document);
  if (slider) { $("#rate").addEventListener("input", decide); decide(); }
  watch();
})();
