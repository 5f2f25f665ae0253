"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const form = document.getElementById("filter");
  const field = (name) => document.getElementById(name);
  const articles = [...document.querySelectorAll("article")];
  const texts = new Map(articles.map((article) => [article, article.textContent.toLowerCase()]));
  form.hidden = false;

  // What is hidden by a filter is only hidden: a claim needs its outcome ticked, a figure a claim (or none at all).
  function apply() {
    const words = field("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set([...form.querySelectorAll("[name=outcome]:checked")].map((box) => box.value));
    const everything = wanted.size === form.querySelectorAll("[name=outcome]").length;
    const changed = field("changed") !== null && field("changed").checked;
    let figures = 0, claims = 0;
    for (const article of articles) {
      const own = [...article.querySelectorAll(".claim")];
      const shown = own.filter((claim) => wanted.has(claim.dataset.outcome) && (!changed || "changed" in claim.dataset));
      for (const claim of own) claim.classList.toggle("out", !shown.includes(claim));
      const kept = (shown.length > 0 || (own.length === 0 && everything && !changed))
        && (field("paper").value === "" || article.dataset.paper === field("paper").value)
        && (field("scale").value === "" || article.dataset.scale === field("scale").value)
        && words.every((word) => texts.get(article).includes(word));
      article.classList.toggle("out", !kept);
      figures += kept;
      claims += kept ? shown.length : 0;
    }
    for (const paper of document.querySelectorAll(".paper"))
      paper.classList.toggle("out", paper.querySelector("article:not(.out)") === null);
    field("count").textContent = `${figures} figures, ${claims} claims`;
  }
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());

  // A link to something that a filter hides shows everything again.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target === null || target.closest(".out") === null) return;
    form.reset();
    apply();
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);

  const colours = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22"];

  function traces(chart) {
    const ours = chart.curves.map((curve, index) => {
      const colour = colours[index % colours.length];
      const known = curve.low.every((low, i) => low !== null && curve.high[i] !== null);
      const reach = known ? { type: "data", symmetric: false, thickness: 1, width: 2,
        array: curve.high.map((high, i) => high - curve.y[i]), arrayminus: curve.low.map((low, i) => curve.y[i] - low) } : {};
      return { x: curve.x, y: curve.y, error_y: reach, name: curve.name || "ours", mode: "lines+markers",
        marker: { size: 5 }, line: { color: colour }, legendgroup: curve.name };
    });
    const theirs = chart.published.map((curve, index) => ({ x: curve.x, y: curve.y, name: curve.name, mode: "lines",
      line: { color: colours[index % colours.length], dash: "dot" } }));
    return ours.concat(theirs);
  }

  function draw(details) {
    const place = details.querySelector(".plots");
    if (place.childElementCount > 0) return;
    for (const chart of charts[details.dataset.figure]) {
      const plot = document.createElement("div");
      plot.className = "plot";
      place.append(plot);
      Plotly.newPlot(plot, traces(chart), {
        title: { text: chart.title, font: { size: 14 } }, margin: { t: 40, r: 10, b: 40, l: 60 },
        yaxis: { type: chart.log ? "log" : "linear", exponentformat: "power" }, hovermode: "closest",
        legend: { orientation: "h" },
      }, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["sendDataToCloud"] });
    }
  }
  for (const details of document.querySelectorAll("details.charts"))
    details.addEventListener("toggle", () => { if (details.open) draw(details); });

  apply();
  reveal();
})();
