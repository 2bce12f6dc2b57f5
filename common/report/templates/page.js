"use strict";
(() => {
  const KINDS = ["model", "method", "benchmark"];
  const form = document.getElementById("filters");
  const panel = document.getElementById("panel");
  const body = document.getElementById("panel-body");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Filters are style rules: an element that carries the kind and not the value is not displayed.
  const rules = document.head.appendChild(document.createElement("style"));

  const chosen = () => {
    const found = {};
    for (const select of form.querySelectorAll("select")) {
      const option = select.selectedOptions[0];
      select.classList.toggle("on", select.value !== "");
      if (select.value) found[select.name] = option.dataset.i ?? select.value;
    }
    return found;
  };
  const has = (kind, value) => (value === undefined ? "" : `[data-${kind}~="${value}"]`);

  function apply() {
    const now = chosen();
    rules.textContent = Object.entries(now)
      .map(([kind, value]) => `[data-${kind}]:not([data-${kind}~="${value}"]){display:none!important}`)
      .join("\n");
    for (const table of all(".tbl")) {
      table.hidden = !table.querySelector(`tbody${has("model", now.model)} tr${has("method", now.method)} td${has("benchmark", now.benchmark)}`);
    }
    const named = KINDS.map((kind) => has(kind, now[kind])).join("") + has("verdict", now.verdict);
    const inside = now.paper ? `[data-paper="${now.paper}"] ` : "";
    const claims = all(`${inside}.claim${named}`).length;
    const cells = all(`${inside}.data tbody${has("model", now.model)} tr${has("method", now.method)} td${has("benchmark", now.benchmark)}[class]`).length;
    document.getElementById("shown").textContent = `${claims} claims, ${cells} cells`;
    for (const part of all("details[data-part]")) {
      const items = part.querySelector(".claim, .tbl, .commands");
      const left = part.querySelector(`.claim${named}, .tbl:not([hidden])`) ?? part.querySelector(".commands");
      part.hidden = Boolean(items) && !left;
      if (left && (now.model || now.method || now.benchmark) && left.matches(".tbl")) part.open = true;
    }
    for (const select of KINDS.map((kind) => form.elements[kind])) {
      for (const option of select.options) {
        option.disabled = Boolean(now.paper && option.value) &&
          !document.querySelector(`[data-paper="${now.paper}"] [data-${select.name}~="${option.dataset.i}"]`);
      }
    }
  }

  function save() {
    const values = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const words = values.toString();
    history.replaceState(null, "", words ? `#?${words}` : "#");
    apply();
  }

  // #?paper=...&method=... sets the filters; any other hash is an anchor, opened if it lies in a closed part.
  function load() {
    const hash = location.hash;
    if (hash.startsWith("#?")) {
      form.reset();
      for (const [name, value] of new URLSearchParams(hash.slice(2))) {
        if (form.elements[name]) form.elements[name].value = value;
      }
      apply();
    } else if (hash.length > 1) {
      const target = document.getElementById(hash.slice(1));
      const inside = target?.matches(".paper") ? target.querySelector("details") : target;
      for (let up = inside?.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
      target?.scrollIntoView();
    }
  }
  form.addEventListener("change", save);
  form.addEventListener("reset", () => setTimeout(save));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", load);

  // The panel shows a copy of what stands elsewhere in the page.
  let opener = null;
  function show(title, nodes, from) {
    const heading = document.createElement("h4");
    heading.textContent = title;
    body.replaceChildren(heading, ...nodes);
    panel.hidden = false;
    opener = from;
  }
  function close(back) {
    panel.hidden = true;
    if (back) opener?.focus();
  }
  document.addEventListener("click", async (event) => {
    const value = event.target.closest(".value");
    const copy = event.target.closest(".copy");
    if (value) {
      const cell = value.closest("td");
      const table = cell.closest("table");
      const column = [...table.tHead.rows[1].cells][cell.cellIndex - 1];
      const group = all("th", table.tHead.rows[0]).find((th) => th.dataset.benchmark === cell.dataset.benchmark);
      const row = cell.parentElement.cells[0].firstChild.textContent.trim();
      const words = [row, group?.textContent, column?.textContent].filter(Boolean).join(", ");
      show(words, [...cell.querySelector(".more").cloneNode(true).childNodes], value);
    } else if (copy) {
      const code = copy.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        copy.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code);
        copy.textContent = "selected";
      }
      setTimeout(() => (copy.textContent = "copy"), 1500);
    }
  });
  document.getElementById("close").addEventListener("click", () => close(true));
  addEventListener("keydown", (event) => event.key === "Escape" && !panel.hidden && close(true));

  // Pictures are decoded when the part that holds them is opened.
  const pictures = (part) => {
    for (const image of all("img[data-src]", part)) {
      image.src = image.dataset.src;
      image.removeAttribute("data-src");
    }
  };
  document.addEventListener("toggle", (event) => event.target.open && pictures(event.target), true);

  // The point nearest to the pointer says what it is.
  const tip = document.getElementById("tip");
  let near = null;
  function point(event) {
    const plot = event.target.closest?.(".drawn");
    let next = null;
    let best = 20;
    for (const mark of plot ? all("[data-s]", plot) : []) {
      const box = mark.getBoundingClientRect();
      const away = Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
      if (away <= best) [next, best] = [mark, away];
    }
    near?.classList.remove("at");
    near = next;
    tip.hidden = !near;
    if (!near) return;
    near.classList.add("at");
    const [who, when, x, y] = near.dataset.s.split("|");
    const across = plot.dataset.x === "step" || plot.dataset.x === "k" ? "" : `${plot.dataset.x} ${x}, `;
    tip.textContent = `${near.parentElement.dataset.name}, ${who}, ${when}: ${across}${plot.dataset.y} ${y}`;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 12)}px`;
  }
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);

  // Paper has no closed parts; the comparisons behind claims, of which there are hundreds, stay closed.
  let shut = [];
  addEventListener("beforeprint", () => {
    shut = all("details.part:not([open])");
    for (const part of shut) part.open = true;
    pictures(document);
  });
  addEventListener("afterprint", () => {
    for (const part of shut) part.open = false;
  });

  apply();
  load();
  void document.body.offsetHeight; // layout is part of the time to the first page
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
