"use strict";
(() => {
  const form = document.getElementById("filter");
  const field = (name) => document.getElementById(name);
  const boxes = [...form.querySelectorAll("[name=outcome]")];
  const greek = { α: "alpha", β: "beta", γ: "gamma", Γ: "gamma", δ: "delta", ε: "eps", ϵ: "eps", η: "eta", κ: "kappa",
    λ: "lambda", Λ: "lambda", μ: "mu", µ: "mu", π: "pi", ρ: "rho", σ: "sigma", Σ: "sigma", τ: "tau", φ: "phi", Φ: "phi" };
  const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹", lowered = "₀₁₂₃₄₅₆₇₈₉";

  // A text as it is compared: lower case, letters by their names, ² as ^2, and spaces only between words. `at` holds, for
  // every character, where it comes from.
  function plain(text) {
    let out = "";
    const at = [];
    const put = (letters, index) => { for (const letter of letters) { out += letter; at.push(index); } };
    [...text].reduce((index, sign) => {
      if (/\s/.test(sign)) put(out.endsWith(" ") ? "" : " ", index);
      else if (raised.includes(sign)) put("^" + raised.indexOf(sign), index);
      else if (lowered.includes(sign)) put("_" + lowered.indexOf(sign), index);
      else put(greek[sign] || { "’": "'", "−": "-", "≥": ">=", "≤": "<=" }[sign] || sign.toLowerCase(), index);
      return index + sign.length;
    }, 0);
    let kept = "";
    const from = [];
    for (let i = 0; i < out.length; i++) {
      // A space stays between words and between numbers; "5 sigma" is the same as "5sigma".
      if (out[i] === " " && !/^([a-z] [a-z0-9]|\d \d)$/.test(kept.slice(-1) + out.slice(i, i + 2))) continue;
      kept += out[i];
      from.push(at[i]);
    }
    from.push(text.length);
    return { text: kept, from };
  }

  // Where a term stands: words from their beginning, numbers whole (2 is neither 21 nor 2.1).
  function* places({ text }, term) {
    for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + 1)) {
      const before = text[at - 1] || " ", after = text.slice(at + term.length);
      const inWord = /[a-z]/.test(term[0]) ? /[a-z]/.test(before) : /\d/.test(term[0]) && /[\d.]/.test(before);
      const inNumber = /\d$/.test(term) && /^(\d|\.\d)/.test(after);
      if (!inWord && !inNumber) yield [at, at + term.length];
    }
  }

  // Phrases stand in quotes; a word and the number behind it belong together.
  function terms(query) {
    const found = [...query.matchAll(/"([^"]+)"?|[\p{L}]+\s+\d[\d.]*(?=\s|$)|[^\s"]+/gu)];
    return found.map((match) => plain(match[1] || match[0]).text.trim()).filter(Boolean);
  }

  // What a claim is searched by: the texts of its card, and name and summary of its figure.
  const claims = [...document.querySelectorAll(".claim")].map((card) => {
    const article = card.closest("article");
    const spots = [...card.querySelectorAll("[data-text]"), ...article.querySelectorAll(":scope > [data-text], h3 [data-text]")];
    const texts = [card.dataset.names, ...spots.map((spot) => spot.textContent)].map(plain);
    const rows = [...document.querySelectorAll(`tr[data-claim="${card.id}"]`)];
    return { card, article, texts, rows, paper: article.dataset.paper };
  });
  const articles = [...document.querySelectorAll("article")];

  function highlight(terms) {
    const wanted = terms.filter((term) => term.length > 1);
    for (const old of document.querySelectorAll("mark")) {
      const parent = old.parentNode;
      old.replaceWith(...old.childNodes);
      parent.normalize();
    }
    if (wanted.length === 0) return;
    for (const spot of document.querySelectorAll("article:not(.out) [data-text]")) {
      const node = spot.firstChild;
      if (node === null || spot.childNodes.length > 1 || node.nodeType !== Node.TEXT_NODE) continue;
      const text = node.data, known = plain(text), parts = [];
      const spans = wanted.flatMap((term) => [...places(known, term)]).sort((a, b) => a[0] - b[0]);
      let end = 0;
      for (const [start, stop] of spans) {
        const [first, last] = [known.from[start], known.from[stop - 1] + 1];
        if (first < end) continue;
        const mark = document.createElement("mark");
        mark.textContent = text.slice(first, last);
        parts.push(text.slice(end, first), mark);
        end = last;
      }
      if (end > 0) spot.replaceChildren(...parts, text.slice(end));
    }
  }

  function apply() {
    const wanted = terms(field("words").value);
    const outcomes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const paper = field("paper").value;
    const changed = field("changed") !== null && field("changed").checked;
    const narrowed = wanted.length > 0 || outcomes.size < boxes.length || changed;
    const shown = claims.filter((claim) => outcomes.has(claim.card.dataset.outcome)
      && (paper === "" || claim.paper === paper) && (!changed || "changed" in claim.card.dataset)
      && wanted.every((term) => claim.texts.some((text) => !places(text, term).next().done)));
    const kept = new Set(shown);
    for (const claim of claims)
      for (const element of [claim.card, ...claim.rows]) element.classList.toggle("out", !kept.has(claim));
    const holding = new Set(shown.map((claim) => claim.article));
    for (const article of articles)
      article.classList.toggle("out", !holding.has(article) && (narrowed || (paper !== "" && article.dataset.paper !== paper)));
    for (const part of document.querySelectorAll(".paper"))
      part.classList.toggle("out", part.querySelector("article:not(.out)") === null);
    for (const part of document.querySelectorAll(".overview")) {
      const gone = (paper !== "" && part.dataset.paper !== paper)
        || (narrowed && part.querySelector("tr[data-claim]:not(.out)") === null);
      part.classList.toggle("out", gone);
      document.querySelector(`.sums [data-paper="${part.dataset.paper}"]`).classList.toggle("out", gone);
    }
    for (const part of document.querySelectorAll("nav .matrix, details.fold"))
      part.classList.toggle("out", part.querySelector("[data-claim]:not(.out), .claim:not(.out)") === null);
    // A search opens every fold, so that its words show, and its end restores them.
    for (const fold of document.querySelectorAll(".fold, .claim")) {
      fold.dataset.before ??= fold.open;
      fold.open = wanted.length > 0 || fold.dataset.before === "true";
      if (wanted.length === 0) delete fold.dataset.before;
    }
    highlight(wanted);
    field("count").textContent = `${shown.length} of ${claims.length} claims`;
  }

  // The state of the filter is part of the address, so that a selection can be sent to somebody.
  function save() {
    const state = new URLSearchParams();
    if (field("words").value) state.set("q", field("words").value);
    if (field("paper").value) state.set("paper", field("paper").value);
    if (boxes.some((box) => !box.checked)) state.set("verdict", boxes.filter((box) => box.checked).map((box) => box.value).join(","));
    if (field("changed") !== null && field("changed").checked) state.set("changed", "1");
    const query = state.toString();
    history.replaceState(null, "", location.pathname + (query && `?${query}`) + location.hash);
  }

  function restore() {
    const state = new URLSearchParams(location.search);
    field("words").value = state.get("q") || "";
    field("paper").value = state.get("paper") || "";
    const ticked = state.has("verdict") ? state.get("verdict").split(",") : null;
    for (const box of boxes) box.checked = ticked === null || ticked.includes(box.value);
    if (field("changed") !== null) field("changed").checked = state.has("changed");
  }

  // A link to something that a filter hides shows everything again; one into a fold opens it.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target === null) return;
    if (target.closest(".out") !== null) {
      form.reset();
      save();
      apply();
    }
    for (let fold = target.closest("details"); fold !== null; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }

  form.hidden = false;
  form.addEventListener("input", () => { save(); apply(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", () => claims.forEach(({ card }) => { card.open = true; }));
  restore();
  apply();
  reveal();
})();
