/* The page: an image is dropped, chosen or pasted, sent to POST /case, and shown by the viewer (viewer.js).

   Whatever comes from a file or from the service is set as text and never read as HTML. */
"use strict";

(() => {
  const KEPT = 12; // so many images can be gone back to
  const find = (id) => document.getElementById(id);
  const asked = []; // {file, data, known}: the newest first
  let shown = null; // one of them
  let service = null; // what GET /health says
  let known = {}; // what GET /primitives says: names and faces, and classes as cards
  let last = Promise.resolve(); // images are asked about one after another

  /* ---- asking ----------------------------------------------------------------------------------------------- */

  async function ask(file, other = null) {
    if (service && file.size > service.max_bytes) {
      throw new Error(`the file is too long: at most ${service.max_bytes.toLocaleString("en")} bytes are taken`);
    }
    const form = new FormData();
    form.append("image", file, file.name);
    return post("/case", other === null ? {} : { class: other }, form);
  }

  async function post(address, query, body = null) {
    let answer;
    try {
      answer = await fetch(`${address}?${new URLSearchParams(query)}`, { method: "POST", body });
    } catch {
      throw new Error("the service does not answer: is it still running?");
    }
    const data = await answer.json().catch(() => null);
    if (answer.ok && data !== null) return data;
    throw new Error(data && data.error ? data.error : `the service answered with ${answer.status}`);
  }

  /* Runs one task after another; says that it is at work, and what went wrong with what. */
  function inTurn(words, what, task) {
    last = last.then(async () => {
      say(words);
      document.body.classList.add("busy");
      try {
        await task();
      } catch (error) {
        complain(`${what}: ${error.message}`);
      }
      document.body.classList.remove("busy");
      if (shown) sayAnswer(shown.data);
      else say("");
    });
  }

  function take(files) {
    complain("");
    if (!files.length) complain("that was no file: expected an image");
    for (const file of files) {
      inTurn(`Looking at ${file.name} …`, file.name, async () => {
        const entry = { file, known, data: await ask(file) };
        asked.unshift(entry);
        asked.splice(KEPT);
        show(entry);
      });
    }
  }

  function say(words) {
    find("status").replaceChildren(words);
    find("status").classList.remove("answered");
  }

  /* The answer in short: to be heard, and to be seen where the words of the viewer are far below the picture. */
  function sayAnswer({ title, predicted, top }) {
    const name = document.createElement("strong");
    name.textContent = predicted;
    find("status").replaceChildren(`${title}: `, name, `, ${(100 * top[0].probability).toFixed(1)}%`);
    find("status").classList.add("answered");
  }

  /* One line more about what went wrong; none takes all away. */
  function complain(words) {
    const line = document.createElement("p");
    line.textContent = words;
    if (words) find("error").append(line);
    else find("error").replaceChildren();
    find("error").hidden = !words;
  }

  /* ---- showing ---------------------------------------------------------------------------------------------- */

  function show(entry) {
    shown = entry;
    document.body.classList.add("asked");
    ParseViewer.mount(find("case"), entry.data, { ...known, rename: known.may_be_named ? giveName : null });
    find("answer").hidden = false;
    showStrip();
    showOthers(entry.data);
  }

  function showStrip() {
    const buttons = asked.map((entry) => {
      const button = document.createElement("button");
      const image = document.createElement("img");
      image.src = entry.data.image;
      image.alt = `${entry.data.title}, predicted ${entry.data.predicted}`;
      button.type = "button";
      button.title = entry.data.title;
      if (entry === shown) button.setAttribute("aria-current", "true");
      button.append(image);
      button.addEventListener("click", () => {
        show(entry);
        sayAnswer(entry.data);
        complain("");
        find("strip").children[asked.indexOf(entry)].focus();
        if (entry.known !== known) inTurn("Naming …", entry.file.name, () => again(entry)); // names have changed
      });
      return button;
    });
    find("strip").replaceChildren(...buttons);
    find("strip").hidden = asked.length < 2;
  }

  /* Which class is explained beside the predicted one, where the method can explain any. */
  function showOthers(data) {
    const explained = Object.keys(data.explanations);
    find("compare").hidden = explained.length < 2 || service === null;
    if (find("compare").hidden) return;
    find("beside").textContent = `Explain beside ${data.predicted}`;
    const second = explained.find((name) => name !== data.predicted);
    const options = service.classes
      .filter((name) => name !== data.predicted)
      .map((name) => new Option(name, name, name === second, name === second));
    find("other").replaceChildren(...options);
  }

  /* Asks about an image once more; the same class is explained beside the predicted one, unless another is given. */
  async function again(entry, other = null) {
    const { explanations, predicted } = entry.data;
    const beside = Object.keys(explanations).find((name) => name !== predicted);
    entry.data = await ask(entry.file, other || beside || null);
    entry.known = known;
    show(entry);
  }

  /* ---- primitives and classes ------------------------------------------------------------------------------- */

  function giveName(primitive, name) {
    complain("");
    inTurn(`Naming p${primitive} …`, `p${primitive}`, async () => {
      learn(await post("/names", { primitive, name }));
      await again(shown);
      const button = document.querySelector(`.pv-primitive[data-primitive="${primitive}"]`);
      button.click();
      button.focus();
    });
  }

  function learn(data) {
    known = data;
    const { make } = ParseViewer;
    const cards = known.cards.map((card) => {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("class", "pv-card");
      svg.setAttribute("aria-hidden", "true"); // the words say the same
      ParseDrawing.drawCard(svg, card, known);
      const said = card.relations.map((each, index) => make("li", `pv-drawn${index}`, each.words));
      return make("section", "", make("h3", "", card.name), svg, make("ul", "pv-key", ...said));
    });
    find("cards").replaceChildren(...cards);
    find("classes").hidden = !cards.length;
  }

  find("other").addEventListener("change", (event) => {
    const [entry, other] = [shown, event.target.value];
    complain("");
    inTurn(`Explaining ${other} …`, entry.file.name, async () => {
      await again(entry, other);
      const row = [...document.querySelectorAll(".pv-class")].find((each) => each.dataset.class === other);
      if (row) row.click();
      find("other").focus();
    });
  });

  /* ---- ways to give an image -------------------------------------------------------------------------------- */

  find("file").addEventListener("change", (event) => {
    take([...event.target.files]);
    event.target.value = ""; // so that the same file can be chosen again
  });

  let depth = 0; // dragging over a child leaves its parent
  const over = (by) => {
    depth = by === 0 ? 0 : depth + by;
    document.body.classList.toggle("over", depth > 0);
  };
  document.addEventListener("dragenter", () => over(1));
  document.addEventListener("dragleave", () => over(-1));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    over(0);
    take([...event.dataTransfer.files]);
  });

  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) take([...event.clipboardData.files]);
  });

  /* ---- the start -------------------------------------------------------------------------------------------- */

  ParseTheme.attach(find("theme"));
  fetch("/health")
    .then((answer) => answer.json())
    .then((data) => {
      service = data;
      const classes = `${data.classes.length} classes`;
      find("model").textContent = `${data.model} · method ${data.method} · ${classes} · parse-dg ${data.version}`;
      if (shown) showOthers(shown.data);
    })
    .catch(() => complain("the service does not answer: is it still running?"));
  inTurn("", "primitives", async () => learn(await (await fetch("/primitives")).json()));
})();
