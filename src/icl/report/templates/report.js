"use strict";
(() => {
  const field = (name) => document.getElementById(name);
  const form = field("filter"), none = field("none");
  const [boxes, labels] = ["outcome", "label"].map((name) => [...form.querySelectorAll(`[name=${name}]`)]);
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

  // Phrases stand in quotes; a word and the number behind it belong together, and so do "theorem 3 (c)", "d = 20",
  // "make figure22" and the words of a label.
  const names = labels.map((box) => box.value).filter((name) => name.includes(" "));
  const pattern = new RegExp(`"([^"]+)"?|${["make \\w+", ...names].join("|")}|\\p{L}+(?:\\s+|\\s*=\\s*)\\d[\\d.]*(?:\\s*\\([a-z]\\))?(?=\\s|$)|[^\\s"]+`, "giu");
  function terms(query) {
    return [...query.matchAll(pattern)].map((match) => plain(match[1] || match[0]).text.trim()).filter(Boolean);
  }

  // What a claim is searched by: its labels, the texts of its card, name and summary of its figure; and, if no claim has
  // a word there, all that card and figure show.
  const articles = [...document.querySelectorAll("article")];
  const claims = [...document.querySelectorAll(".claim")].map((card) => {
    const article = card.closest("article"), { paper } = article.dataset;
    const spots = [...card.querySelectorAll("[data-text]"), ...article.querySelectorAll(":scope > [data-text], h3 [data-text]")];
    const texts = spots.map((spot) => plain(spot.textContent));
    const rows = [...document.querySelectorAll(`tr[data-claim="${card.id}"]`)];
    return { card, article, paper, texts, rows, labels: card.dataset.labels.split(",") };
  });
  const known = labels.map((box) => box.value);
  function nodes(root) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) found.push(walk.currentNode);
    return found;
  }
  const all = new Map();
  const shownBy = (element) => {
    if (!all.has(element)) all.set(element, plain(nodes(element).map((node) => node.data).join(" ")));
    return all.get(element);
  };
  const has = (text, term) => !places(text, term).next().done;
  const briefly = (claim, term) => (known.includes(term) ? claim.labels.includes(term) : claim.texts.some((text) => has(text, term)));
  // The figure's own text without its cards.
  const fully = (claim, term) => has(shownBy(claim.card), term)
    || [...claim.article.children].some((part) => !part.matches(".claim, .fold") && has(shownBy(part), term));
  // Words that stand in no claim: the explanations around them.
  const blocks = "h1, h2, p, li, th, td, dt, dd, summary, label, legend, option, button, a";
  const passages = [...document.querySelectorAll(`:is(header, nav, footer, #filter) :is(${blocks}), .paper > h2, .fold > summary, .skip`)];

  function found(wanted, among) {
    return [briefly, fully].map((test) => among.filter((claim) => wanted.every((term) => test(claim, term))))
      .find((hits) => hits.length) || [];
  }

  // Marks words without changing the page.
  function highlight(wanted, roots) {
    if (!CSS.highlights) return;
    const ranges = [], longer = wanted.filter((term) => term.length > 1);
    for (const root of longer.length ? roots : []) {
      for (const node of ranges.length < 400 ? nodes(root) : []) {
        const text = plain(node.data);
        for (const [start, stop] of longer.flatMap((term) => [...places(text, term)])) {
          const range = new Range();
          range.setStart(node, text.from[start]);
          range.setEnd(node, text.from[stop - 1] + 1);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  // What may help where no claim has all words: each word alone, and words that begin alike.
  function suggest(wanted, among) {
    const rest = claims.length > among.length ? found(wanted, claims).length : 0;
    const tips = rest ? [`${rest} without the filters (Reset)`] : [];
    const start = (wanted[0] || "").slice(0, 4);
    const words = new Set(claims.flatMap(({ texts, labels }) => [...texts.map(({ text }) => text), ...labels])
      .flatMap((text) => text.match(/[a-z]{4,}/g) || []).filter((word) => start && word.startsWith(start)));
    const others = wanted.length > 1 ? wanted : [...words].slice(0, 6);
    none.replaceChildren(`No claim has ${wanted.length > 1 ? "all of these words" : "this word"}. `, ...(tips.length ? tips : ["Try "]));
    for (const word of tips.length ? [] : [...others, ...(others.length ? [] : known)]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${word} (${found([word], claims).length})`;
      button.addEventListener("click", () => { field("words").value = word; form.dispatchEvent(new Event("input")); });
      none.append(button, " ");
    }
  }

  function apply(jump) {
    const wanted = terms(field("words").value);
    const outcomes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const only = labels.filter((box) => box.checked).map((box) => box.value);
    const paper = field("paper").value, kind = field("kind").value;
    const among = claims.filter(({ card, labels: has, paper: of }) => outcomes.has(card.dataset.outcome)
      && (paper === "" || of === paper) && (kind === "" || card.dataset.kind === kind)
      && only.every((name) => (name === "changed" ? "changed" in card.dataset : has.includes(name))));
    const shown = wanted.length ? found(wanted, among) : among;
    const passage = wanted.length && !shown.length && passages.find((part) => wanted.every((term) => has(shownBy(part), term)));
    const kept = new Set(shown), isNarrow = shown.length < claims.length && !passage;
    for (const claim of claims)
      for (const element of [claim.card, ...claim.rows]) element.classList.toggle("out", isNarrow && !kept.has(claim));
    const holding = new Set(shown.map((claim) => claim.article));
    for (const article of articles) article.classList.toggle("out", isNarrow && !holding.has(article));
    for (const part of document.querySelectorAll(".paper"))
      part.classList.toggle("out", part.querySelector("article:not(.out)") === null);
    for (const part of document.querySelectorAll(".overview"))
      part.classList.toggle("out", isNarrow && part.querySelector("tr[data-claim]:not(.out)") === null);
    for (const part of document.querySelectorAll("nav .matrix, details.fold"))
      part.classList.toggle("out", part.querySelector("[data-claim]:not(.out), .claim:not(.out)") === null);
    // A search opens what it shows, so that its words are seen, and its end restores it.
    const opens = wanted.some((term) => term.length > 1);
    for (const fold of document.querySelectorAll(".fold, .claim")) {
      if (opens && !fold.matches(".out")) {
        fold.dataset.before ??= fold.open;
        fold.open = true;
      } else if (!opens && "before" in fold.dataset) {
        fold.open = fold.dataset.before === "true";
        delete fold.dataset.before;
      }
    }
    highlight(wanted, passage ? [passage] : shown.map(({ card }) => card).concat([...holding].flatMap((one) => [...one.querySelectorAll(":scope > :not(.claim, .fold)")])));
    field("count").textContent = passage ? "in the explanations" : `${shown.length} of ${claims.length} claims`;
    none.hidden = shown.length > 0 || Boolean(passage);
    if (!none.hidden) suggest(wanted, among);
    form.dataset.shows = location.search;
    if (!jump || !wanted.length) return;
    for (let fold = passage && passage.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    (passage || (shown.length ? shown[0].card : document.body)).scrollIntoView({ block: "start" });
  }

  // The state of the filter is part of the address, so that a selection can be sent to somebody.
  function save() {
    const state = new URLSearchParams();
    if (field("words").value) state.set("q", field("words").value);
    for (const name of ["paper", "kind"]) if (field(name).value) state.set(name, field(name).value);
    const ticked = (list) => list.filter((box) => box.checked).map((box) => box.value).join(",");
    if (boxes.some((box) => !box.checked)) state.set("verdict", ticked(boxes));
    if (ticked(labels)) state.set("only", ticked(labels));
    const query = state.toString();
    history.replaceState(null, "", location.pathname + (query && `?${query}`) + location.hash);
  }

  function restore() {
    const state = new URLSearchParams(location.search);
    field("words").value = state.get("q") || "";
    for (const name of ["paper", "kind"]) field(name).value = state.get(name) || "";
    for (const [list, name, otherwise] of [[boxes, "verdict", true], [labels, "only", false]])
      for (const box of list) box.checked = state.has(name) ? state.get(name).split(",").includes(box.value) : otherwise;
  }

  // A link to something that a filter hides shows everything again; one into a fold opens it.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target === null) return;
    if (target.closest(".out") !== null) {
      form.reset();
      save();
      apply(false);
    }
    for (let fold = target.closest("details"); fold !== null; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }

  let due = 0;
  const change = (jump, wait) => {
    clearTimeout(due);
    due = setTimeout(() => { save(); apply(jump); }, wait);
  };
  form.addEventListener("input", (event) => {
    const isSearch = event.target === field("words") || event.target === form;
    if (isSearch) field("more").open = false; // it would stand over the hits
    change(isSearch, 150);
  });
  form.addEventListener("reset", () => change(false, 0));
  form.addEventListener("submit", (event) => { event.preventDefault(); change(true, 0); });
  field("apart").addEventListener("change", (event) => document.body.classList.toggle("apart", event.target.checked));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    field("words").select();
  });
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
  restore();
  apply(true);
  reveal();
})();
