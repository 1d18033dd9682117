// Keyboard, copy buttons and charts. Every page works without this file.
(() => {
  "use strict";
  const places = { o: "/", q: "/ui/queues", j: "/ui/jobs", s: "/ui/schedules", t: "/ui/topics", r: "/ui/streams", p: "/ui/pipelines", f: "/ui/follow", a: "/ui/admin" };
  let pending = false;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (pending && places[event.key]) {
      pending = false;
      location.assign(places[event.key]);
      return;
    }
    pending = event.key === "g";
    if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select();
      } else {
        location.assign("/ui/queues#search");
      }
    } else if (event.key === "?") {
      document.getElementById("keys").showModal();
    }
  });

  // What works only with scripts is hidden until they run.
  const showScripted = () => {
    const wanted = navigator.clipboard ? "[data-scripted], [data-copy]" : "[data-scripted]";
    for (const element of document.querySelectorAll(wanted)) element.hidden = false;
  };

  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of document.querySelectorAll(`[name="${event.target.dataset.all}"]`)) box.checked = event.target.checked;
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    navigator.clipboard.writeText(button.dataset.copy).then(() => {
      button.textContent = "Copied";
    });
  });

  // Charts: the server has drawn each as SVG; uPlot replaces it with one that shows values.
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const drawn = new Map();

  const moment = (seconds, span) => {
    const at = new Date(seconds * 1000);
    if (span > 172800) return at.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
    return at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
  };

  const whole = (plot) => plot.data.slice(1).every((values) => values.every((value) => value == null || value % 1 === 0));

  // A value without neighbours has no line: a dot.
  const alone = (plot, line, shown) => {
    const values = plot.data[line];
    return shown ? null : values.flatMap((value, at) => (value != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));
  };

  const options = (figure, lines) => ({
    width: figure.clientWidth - 26,
    height: 170,
    padding: [8, 8, 0, 0],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"), // as all times of the pages
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { stroke: colour("faint"), grid: { show: false }, ticks: { stroke: colour("line"), size: 5 }, space: 70, size: 30,
        values: (_, ticks) => ticks.map((tick) => moment(tick, ticks[ticks.length - 1] - ticks[0])) },
      { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, size: 46, space: 32,
        values: (plot, ticks) => ticks.map((tick) => (tick % 1 && whole(plot) ? "" : tick >= 1e6 ? `${tick / 1e6}M` : tick >= 1e4 ? `${tick / 1e3}k` : `${tick}`)) },
    ],
    series: [{}, ...lines.map(([, tone, label]) => ({ label, stroke: colour(tone), width: 1.5, points: { size: 4, filter: alone } }))],
    hooks: { setCursor: [(plot) => show(figure, lines, plot)] },
  });

  const show = (figure, lines, plot) => {
    const place = plot.cursor.idx;
    let text = "";
    if (place != null && plot.cursor.left >= 0) {
      const at = new Date(plot.data[0][place] * 1000).toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
      const values = lines.map(([, , label], number) => {
        const value = plot.data[number + 1][place];
        return `${label} ${value == null ? "–" : +value.toPrecision(4)}`;
      });
      text = `${at} UTC: ${values.join(", ")}`;
    }
    figure.querySelector("output").textContent = text;
  };

  const draw = async (figure) => {
    const answer = await fetch(figure.dataset.source, { headers: { accept: "application/json" } });
    if (!answer.ok) return;
    const found = await answer.json();
    const lines = figure.dataset.lines.split(" ").map((line) => line.split(":"));
    const data = [found.starts_at, ...lines.map(([field]) => found[field])];
    if (!data.slice(1).some((values) => values.some((value) => value != null))) return;
    const before = drawn.get(figure);
    if (before) {
      before.setData(data);
      return;
    }
    for (const old of figure.querySelectorAll("svg, .waiting")) old.remove();
    const output = document.createElement("output");
    output.className = "note";
    figure.querySelector("figcaption").append(output);
    drawn.set(figure, new uPlot(options(figure, lines), data, figure));
  };

  const drawAll = () => {
    if (document.hidden || !window.uPlot) return;
    for (const figure of document.querySelectorAll("figure[data-source]")) draw(figure).catch(() => {});
  };

  const redraw = () => {
    for (const [figure, plot] of drawn) {
      plot.destroy();
      drawn.delete(figure);
      figure.querySelector("output").remove();
    }
    drawAll();
  };

  drawAll();
  setInterval(drawAll, 20000);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", () => {
    for (const [figure, plot] of drawn) plot.setSize({ width: figure.clientWidth - 26, height: 170 });
  });

  // From a page without a search.
  if (location.hash === "#search") document.getElementById("search")?.focus();

  // A refused form: to the field that was wrong.
  document.querySelector(".wrong")?.parentElement.querySelector("input, textarea, select")?.focus();

  showScripted();
  document.addEventListener("htmx:after:swap", showScripted);
})();
