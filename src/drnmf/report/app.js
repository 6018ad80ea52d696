"use strict";
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const narrow = () => window.innerWidth < 700;

  // Any "var(--name)" in a chart becomes the colour that the page's theme gives it.
  const resolve = (value, style) => {
    if (typeof value === "string") {
      const found = /^var\((--[\w-]+)\)$/.exec(value);
      return found ? style.getPropertyValue(found[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => resolve(item, style));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolve(item, style)]));
    return value;
  };

  const axis = (own, style) => ({
    gridcolor: style.getPropertyValue("--grid").trim(),
    linecolor: style.getPropertyValue("--line").trim(),
    zeroline: false, automargin: true, fixedrange: narrow(), ...own,
    title: { standoff: 8, font: { size: 12.5, color: style.getPropertyValue("--soft").trim() }, ...own.title },
  });

  const draw = (id) => {
    const target = document.getElementById(id), chart = charts[id], style = getComputedStyle(root);
    if (!target || !chart) return Promise.resolve();
    const layout = resolve(chart.layout, style);
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key)))
      layout[name] = axis(layout[name], style);
    // A phone has room for fewer names under an image.
    if (narrow() && layout.xaxis && layout.xaxis.type === "category" && layout.xaxis.tickvals) {
      const every = Math.ceil(layout.xaxis.tickvals.length / 8);
      for (const key of ["tickvals", "ticktext"]) layout.xaxis[key] = layout.xaxis[key].filter((_, i) => i % every === 0);
    }
    if (target.dataset.scale && layout.yaxis) layout.yaxis.type = target.dataset.scale;
    if (chart.log_ticks && layout.yaxis.type === "log")
      Object.assign(layout.yaxis, { tickvals: chart.log_ticks, ticktext: chart.log_ticks.map(String) });
    const data = resolve(chart.data, style);
    // Bars lie where labels above them would collide: on a phone, and where there are many.
    const lying = chart.lying && (narrow() || chart.bars > 14);
    if (lying) {
      [layout.xaxis, layout.yaxis] = [{ ...layout.yaxis, title: { ...layout.yaxis.title, standoff: 4 } }, { ...layout.xaxis, autorange: "reversed" }];
      layout.xaxis.range = [0, layout.xaxis.range[1] * (narrow() ? 1.3 : 1.1)];
      const ticks = layout.xaxis.tickvals || [], apart = layout.xaxis.range[1] / 6;
      const kept = ticks.reduce((list, tick, i) => (list.length && tick - ticks[list.at(-1)] < apart ? list : [...list, i]), []);
      if (ticks.length) Object.assign(layout.xaxis, { tickvals: kept.map((i) => ticks[i]), ticktext: kept.map((i) => layout.xaxis.ticktext[i]) });
      layout.bargap = 0.16;
      layout.legend = { orientation: "h", x: 0, y: 1.01, yanchor: "bottom", xanchor: "left", traceorder: "normal" };
      for (const trace of data) {
        Object.assign(trace, { x: trace.y, y: trace.x, orientation: "h", textfont: { size: 10.5 } });
        if (trace.hovertemplate) trace.hovertemplate = trace.hovertemplate.replace("%{x}", "%{y}");
      }
    }
    return Plotly.react(target, data, {
      height: lying ? chart.lying : narrow() ? chart.phone || chart.height : chart.height,
      margin: { l: 8, r: 12, t: 8, b: 8 }, hovermode: "closest", dragmode: narrow() ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: style.getPropertyValue("--ink").trim() },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left" },
      hoverlabel: { font: { family: getComputedStyle(document.body).fontFamily } },
      ...layout,
    }, { responsive: true, displaylogo: false, displayModeBar: false, doubleClick: "reset" })
      .then(() => { target.dataset.drawn = "yes"; });
  };
  const drawAll = () => Promise.all(Object.keys(charts).map(draw)).then(() => { root.dataset.ready = "yes"; });

  // Theme: the system's, until the button says otherwise.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  const apply = (name) => {
    root.dataset.theme = name;
    if (theme) theme.textContent = name === "dark" ? "Light" : "Dark";
    return drawAll();
  };
  let chosen = false;
  dark.addEventListener("change", (event) => { if (!chosen) apply(event.matches ? "dark" : "light"); });
  if (theme) theme.addEventListener("click", () => { chosen = true; apply(root.dataset.theme === "dark" ? "light" : "dark"); });

  for (const button of document.querySelectorAll("button[data-scale-of]"))
    button.addEventListener("click", () => {
      const target = document.getElementById(button.dataset.scaleOf);
      const now = target.dataset.scale || charts[target.id].layout.yaxis.type;
      target.dataset.scale = now === "log" ? "linear" : "log";
      button.textContent = target.dataset.scale === "log" ? "Linear scale" : "Log scale";
      draw(target.id);
    });

  for (const button of document.querySelectorAll("button[data-copy]"))
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(document.getElementById(button.dataset.copy)); }
    });

  // Players: one at a time; a line walks over the activation; a click on it seeks.
  const players = [...document.querySelectorAll("audio")];
  for (const player of players) {
    const picture = player.parentElement.querySelector(".spark.seek"), line = picture && picture.querySelector("i");
    player.addEventListener("play", () => players.forEach((other) => { if (other !== player) other.pause(); }));
    if (!picture) continue;
    player.addEventListener("timeupdate", () => {
      line.style.opacity = 0.8;
      line.style.left = `${(100 * player.currentTime) / (player.duration || 1)}%`;
    });
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect();
      player.currentTime = ((event.clientX - box.left) / box.width) * (player.duration || 0);
    });
  }

  let wide = narrow();
  window.addEventListener("resize", () => { if (narrow() !== wide) { wide = narrow(); drawAll(); } });
  apply(dark.matches ? "dark" : "light");
})();
