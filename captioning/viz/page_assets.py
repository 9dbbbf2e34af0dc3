"""The look and the behaviour of the page that `captioning.viz.page` writes: style sheet and script."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #f6f5f1; --card: #ffffff; --ink: #1a1a1e; --muted: #66666f; --line: #e3e1da; --accent: #c2410c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #111114; --card: #1b1b20; --ink: #ededf0; --muted: #a0a0ab; --line: #303038; --accent: #fb923c;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
header, main { max-width: 84rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 3rem); }
header { padding-top: clamp(1.5rem, 5vw, 3.5rem); }
h1 { margin: 0; font-size: clamp(1.7rem, 4vw, 2.6rem); line-height: 1.15; letter-spacing: -0.02em; }
.introduction { max-width: 44rem; margin: 0.8rem 0 0; font-size: 1.1rem; white-space: pre-line; }
.scores { display: flex; flex-wrap: wrap; gap: 0.6rem 2.4rem; margin: 1.6rem 0 0; }
.scores dt { color: var(--muted); font-size: 0.85rem; }
.scores dd { margin: 0; font-size: 1.6rem; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; }
.key { max-width: 44rem; margin: 1.6rem 0 0; color: var(--muted); font-size: 0.9rem; }
.scale { margin-top: 0.3rem; }
.ramp { display: inline-block; width: 7rem; height: 0.65rem; margin: 0 0.35rem; border-radius: 0.2rem; }
main {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr));
  gap: 1.6rem; align-items: start; padding-top: 1.8rem; padding-bottom: 4rem;
}
article {
  max-width: 46rem; overflow: hidden;
  background: var(--card); border: 1px solid var(--line); border-radius: 0.8rem;
}
.photo { display: grid; place-items: center; background: #0c0c0e; }
.frame { position: relative; overflow: hidden; }
.frame img { display: block; width: 100%; height: 100%; }
.frame .map { position: absolute; inset: 0; opacity: 0; transition: opacity 0.16s; pointer-events: none; }
.shown .map { opacity: 1; }
.text { padding: 0.9rem 1.1rem 1rem; }
.caption {
  margin: 0 -0.1rem; font: 1.5rem/1.45 "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif;
}
.word {
  position: relative; padding: 0 0.1rem 0.1rem; border: 0; border-radius: 0.3rem; background: none;
  color: inherit; font: inherit; cursor: pointer;
}
.word::before, .word::after {
  content: ""; position: absolute; left: 0.1rem; bottom: 0.1rem; height: 2px; border-radius: 1px;
}
.word::before { width: calc(100% - 0.2rem); background: var(--line); }
.word::after { width: calc((100% - 0.2rem) * var(--probability)); background: var(--accent); }
.word.current { background: color-mix(in srgb, var(--accent) 18%, transparent); }
.word:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.reading, .about { color: var(--muted); font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.reading { min-height: 2.6em; margin: 0.5rem 0 0; line-height: 1.3; }
.about { margin: 0.5rem 0 0; overflow-wrap: anywhere; }
.references { margin-top: 0.6rem; font-size: 0.9rem; }
.references summary { color: var(--muted); cursor: pointer; }
.references ul { margin: 0.3rem 0 0; padding-left: 1.2rem; }
@media (prefers-reduced-motion: reduce) { .frame .map { transition: none; } }
"""

SCRIPT = """
for (const article of document.querySelectorAll("article")) {
  const words = [...article.querySelectorAll(".word")];
  const map = article.querySelector(".map");
  const reading = article.querySelector(".reading");
  const atRest = reading.textContent;
  let kept = null;

  const show = (word) => {
    if (word) map.src = word.dataset.map;
    article.classList.toggle("shown", word !== null);
    reading.textContent = word ? word.dataset.reading : atRest;
    for (const other of words) other.classList.toggle("current", other === word);
  };
  const keep = (word) => {
    kept = word;
    for (const other of words) other.setAttribute("aria-pressed", String(other === word));
    show(word);
  };

  words.forEach((word, place) => {
    word.addEventListener("pointerenter", () => show(word));
    word.addEventListener("pointerleave", () => show(kept));
    word.addEventListener("focus", () => show(word));
    word.addEventListener("blur", () => show(kept));
    word.addEventListener("click", () => keep(kept === word ? null : word));
    word.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step && words[place + step]) words[place + step].focus();
      if (event.key === "Escape") keep(null);
    });
  });
}
"""
