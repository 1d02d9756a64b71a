/* The report's gallery: kinds of images, the images of a kind, and the chosen one in the viewer.
   Kinds and images are radio buttons: one stop of the Tab key each, arrow keys within. */
"use strict";

(() => {
  ParseTheme.attach(document.getElementById("theme"));
  const { known, cards } = JSON.parse(document.getElementById("primitives").textContent);
  for (const svg of document.querySelectorAll("svg[data-card]")) {
    ParseDrawing.drawCard(svg, cards[Number(svg.dataset.card)], known);
  }
  const place = document.getElementById("gallery");
  const galleries = JSON.parse(document.getElementById("galleries").textContent);
  if (!place || !galleries.length) return;

  const { make } = ParseViewer;

  /* A radio button with anything as its label; `chosen` is called when it is taken. */
  function choice(group, name, chosen, ...label) {
    const input = make("input");
    input.type = "radio";
    input.name = group;
    input.addEventListener("change", chosen);
    return make("label", name, input, ...label);
  }

  function choices(name, label) {
    const box = make("div", name);
    box.setAttribute("role", "radiogroup");
    box.setAttribute("aria-label", label);
    return box;
  }

  function thumbnail(data) {
    const image = make("img");
    image.src = data.image;
    image.alt = data.title;
    const right = data.truth === data.predicted;
    const mark = make("span", right ? "mark right" : "mark wrong", right ? "✓" : "✗");
    mark.setAttribute("aria-label", right ? "right:" : "wrong:");
    mark.setAttribute("role", "img");
    const words = make("span", "thumb-words", mark, make("span", "thumb-name", data.predicted));
    if (!right) words.append(make("span", "thumb-truth", `is ${data.truth}`));
    return [image, words];
  }

  const kinds = choices("kinds", "Kinds of images");
  const words = make("p", "quiet");
  const thumbs = choices("thumbs", "Images");
  const viewer = make("div", "viewer");
  place.append(kinds, words, thumbs, viewer);

  function open(gallery) {
    words.textContent = gallery.words;
    const buttons = gallery.cases.map((data) =>
      choice("case", "thumb", () => ParseViewer.mount(viewer, data, known), ...thumbnail(data)));
    thumbs.replaceChildren(...buttons);
    thumbs.scrollLeft = 0;
    buttons[0].firstChild.checked = true;
    ParseViewer.mount(viewer, gallery.cases[0], known);
  }

  for (const gallery of galleries) {
    const count = make("span", "count", String(gallery.cases.length));
    kinds.append(choice("kind", "kind", () => open(gallery), make("span", "", gallery.title), count));
  }
  kinds.querySelector("input").checked = true;
  open(galleries[0]);
})();
