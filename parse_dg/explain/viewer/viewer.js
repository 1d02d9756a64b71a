/* The viewer: one image, what a model said of it and why.

   ParseViewer.mount(element, data, known) replaces the element's content by a case (parse_dg/explain/viewer_data.py);
   `known` is what is known of the primitives: their names and faces, and `rename`, where they may be given names.
   Needs drawing.js before it, and viewer.css; in Python `parse_dg.explain.viewer` has them in order. Whatever is said
   of the image, names of classes and files above all, is set as text and never read as HTML. */
"use strict";

window.ParseViewer = (() => {
  const AT_REST = 3; // so many relations are drawn while none is chosen
  const CLASSES = 5; // so many classes are listed, and those that are explained

  /* ---- small helpers ---------------------------------------------------------------------------------------- */

  /* An element with its class and what is in it: other elements, or text. */
  function make(tag, name, ...content) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (tag === "button") element.type = "button";
    element.append(...content);
    return element;
  }

  function group(name, label, tag = "div") {
    const element = make(tag, name);
    element.setAttribute("role", tag === "div" ? "group" : "list");
    element.setAttribute("aria-label", label);
    return element;
  }

  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const number = (value) => (Math.abs(value) >= 0.001 || value === 0 ? value.toFixed(3) : value.toPrecision(2));

  const signed = (value) => `${value < 0 ? "−" : "+"}${number(Math.abs(value))}`;

  function bar(name, share) {
    const element = make("span", name);
    element.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
    return element;
  }

  function picture(name, face, alt = "") {
    const image = make("img", name);
    image.src = face.image;
    image.alt = alt;
    if (alt) image.title = alt;
    return image;
  }

  /* ---- one mounted case ------------------------------------------------------------------------------------- */

  class View {
    constructor(data, known) {
      this.data = data;
      this.known = { names: {}, faces: [], words: "", rename: null, ...known };
      this.places = new Map(data.places.map((place, map) => [place.primitive, { ...place, map }]));
      this.explanations = new Map(Object.entries(data.explanations));
      this.explained = this.explanations.has(data.predicted) ? data.predicted : null;
      this.hovered = null; // what the pointer is on: {relation} or {primitive}
      this.chosen = null; // what was clicked, tapped or reached by keyboard
      this.root = make("div", "pv", make("div", "pv-layout", this.buildPicture(), this.buildWords()));
      this.root.addEventListener("keydown", (event) => this.onKey(event));
      this.explain(this.explained);
    }

    /* -- the picture and the primitives below it -- */

    buildPicture() {
      this.image = make("img", "pv-image");
      this.image.alt = this.describe();
      this.image.addEventListener("load", () => {
        frame.style.setProperty("--shape", this.image.naturalWidth / this.image.naturalHeight);
        this.show();
      });
      this.image.src = this.data.image;
      const frame = make("div", "pv-frame", this.image);
      const figure = make("figure", "pv-figure", frame);
      if (this.explained !== null) {
        this.heat = make("canvas", "pv-heat");
        this.overlay = ParseDrawing.overlay();
        this.caption = make("figcaption", "pv-caption");
        frame.append(this.heat, this.overlay);
        figure.append(this.caption);
      }
      return make("div", "pv-picture", figure, ...(this.places.size ? [this.buildPrimitives()] : []));
    }

    describe() {
      const { title, predicted, truth } = this.data;
      return `${title}, predicted ${predicted}` + (truth === null ? "" : `, true class ${truth}`);
    }

    buildPrimitives() {
      const row = group("pv-primitives", "Primitives");
      this.primitives = this.data.places.map((place) => {
        const track = make("span", "pv-track", bar("pv-fill", place.presence));
        const [face] = this.facesOf(place.primitive);
        const portrait = make("span", face ? "pv-portrait" : "", ...(face ? [picture("pv-face", face)] : []),
          make("span", "pv-disc", place.primitive));
        const button = make("button", "pv-primitive", portrait, track);
        const name = this.known.names[`p${place.primitive}`];
        if (name) button.append(make("span", "pv-called", name));
        button.dataset.primitive = place.primitive;
        const named = name ? `, ${name}` : "";
        button.setAttribute("aria-label", `primitive ${place.primitive}${named}, presence ${place.presence.toFixed(2)}`);
        this.listen(button, { primitive: place.primitive });
        return button;
      });
      row.append(...this.primitives);
      const about = this.known.words ? `. Faces: ${this.known.words}` : "";
      const naming = this.known.rename ? "; choose one to name it" : "";
      const [shown, all] = [this.places.size, this.data.primitives_in_all];
      const which = shown < all ? `${shown} of ${all} primitives` : "Primitives";
      const label = make("p", "pv-label", `${which}: where each is, and how present${naming}${about}`);
      this.naming = make("div", "pv-naming");
      return make("div", "pv-parts", label, row, this.naming);
    }

    called(primitive) {
      const name = this.known.names[`p${primitive}`];
      return name ? `p${primitive} ${name}` : `p${primitive}`;
    }

    facesOf(primitive) {
      return this.known.faces[primitive] || [];
    }

    /* A line to write the name of the chosen primitive on, where it may be given one. */
    offerName(place) {
      if (!this.known.rename || !this.naming || this.naming.dataset.primitive === String(place && place.primitive)) return;
      this.naming.dataset.primitive = String(place && place.primitive);
      this.naming.replaceChildren();
      if (!place) return;
      const key = `p${place.primitive}`;
      const input = make("input");
      input.maxLength = 40;
      input.value = this.known.names[key] || "";
      input.placeholder = "such as beak";
      input.setAttribute("aria-label", `A name for ${key}`);
      const save = make("button", "pv-save", "Save");
      save.addEventListener("click", () => this.known.rename(place.primitive, input.value));
      input.addEventListener("keydown", (event) => {
        event.stopPropagation(); // arrows move in the text
        if (event.key === "Enter") save.click();
      });
      this.naming.append(make("span", "", `Call ${key} `), input, save);
    }

    /* -- the words beside it -- */

    buildWords() {
      const { title, predicted, truth, top } = this.data;
      const verdict = make("p", "pv-verdict", "predicted ", make("strong", "", predicted));
      if (truth !== null) {
        const right = truth === predicted;
        verdict.classList.add(right ? "pv-right" : "pv-wrong");
        verdict.prepend(make("span", "pv-mark", right ? "✓" : "✗"));
        verdict.append(right ? ", which is right" : ", which is wrong: the true class is ");
        if (!right) verdict.append(make("strong", "", truth));
      }
      this.why = make("section", "pv-why");
      if (this.explained === null) {
        const text = "This method gives no reasons: its logits are no sum over places in the image.";
        this.why.append(make("p", "pv-quiet", text));
      }
      return make("div", "pv-words", make("h3", "pv-title", title), verdict, this.buildClasses(top), this.why);
    }

    buildClasses(top) {
      const listed = top.filter((each, rank) => rank < CLASSES || this.explanations.has(each.name));
      const box = group("pv-classes", "Classes by probability; those with a question can be explained");
      this.classes = [];
      for (const each of listed) {
        const explained = this.explanations.has(each.name);
        const row = make(explained ? "button" : "div", "pv-class", make("span", "pv-name", each.name));
        row.dataset.class = each.name;
        const track = make("span", "pv-track", bar("pv-fill", each.probability));
        row.append(track, make("span", "pv-number", percent(each.probability)));
        const asks = explained ? (this.explanations.get(each.name).cells ? "where?" : "why?") : "";
        row.append(make("span", explained ? "pv-ask" : "pv-none", asks));
        if (explained) {
          row.addEventListener("click", () => this.explain(each.name));
          this.classes.push(row);
        }
        box.append(row);
      }
      return box;
    }

    /* -- why: the relations of one class -- */

    explain(name) {
      if (name === null) return;
      this.explained = name;
      this.chosen = this.hovered = null;
      for (const row of this.classes) row.setAttribute("aria-pressed", String(row.dataset.class === name));
      const explanation = this.explanations.get(name);
      const [asked, end] = explanation.cells ? ["Where does the score of ", " come from?"]
        : [name === this.data.predicted ? "Why " : "What speaks for ", "?"];
      const heading = make("h4", "pv-heading", asked, make("strong", "", name), end);
      this.relations = this.parts = [];
      const built = explanation.cells ? this.buildCells(explanation)
        : explanation.primitives ? this.buildPresences(explanation)
        : [this.hint("Its score is a sum: weight × satisfaction of each relation. " +
          "A pale bar is the weight, the full part of it what holds here."),
          this.buildRelations(explanation), this.buildSum(explanation)];
      this.why.replaceChildren(heading, ...built);
      this.show();
    }

    hint(words) {
      return make("p", "pv-quiet", words);
    }

    /* A class activation map: what each cell adds to the logit. */
    buildCells({ logit, bias, cells }) {
      const sum = (keep) => cells.flat().filter(keep).reduce((total, part) => total + part, 0);
      const hint = `A class activation map of ${cells.length} × ${cells[0].length} cells: what each cell adds to ` +
        "this class's logit. It says where, exactly, and not what is seen there: relations are PARSE's alone.";
      return [this.hint(hint), this.buildParts([
        ["cells that add to it (orange)", sum((part) => part > 0)],
        ["cells that take away (blue)", sum((part) => part < 0)],
      ], bias, logit)];
    }

    /* Primitives without relations: what presence, place and extent of each add to the logit. */
    buildPresences({ logit, bias, primitives }) {
      const order = [...this.places.keys()].sort((one, other) => primitives[other] - primitives[one]);
      const widest = Math.max(...primitives.map(Math.abs), 1e-9);
      const list = group("pv-relations", "Primitives, what adds most first", "ol");
      this.parts = order.map((k) => {
        const button = make("button", `pv-relation pv-${primitives[k] < 0 ? "takes" : "adds"}`,
          make("span", "pv-said", this.called(k)), make("span", "pv-formula", make("strong", "", signed(primitives[k]))),
          make("span", "pv-room", bar("pv-weight", Math.abs(primitives[k]) / widest)));
        button.querySelector(".pv-weight").append(bar("pv-fill", 1));
        button.dataset.primitive = k;
        this.listen(button, { primitive: k });
        return button;
      });
      list.append(...this.parts.map((button) => make("li", "", button)));
      const hint = "What presence, place and extent of each primitive add to this class's logit: orange adds, blue " +
        "takes away. This method has no relations between them.";
      const total = primitives.reduce((sum, part) => sum + part, 0);
      const rest = total - order.reduce((sum, k) => sum + primitives[k], 0);
      const [shown, others] = [order.length, primitives.length - order.length];
      const sums = others ? [[`the ${shown} primitives above`, total - rest], [`${others} others`, rest]]
        : [[`the ${shown} primitives`, total]];
      return [this.hint(hint), list, this.buildParts(sums, bias, logit)];
    }

    /* A logit as a sum. */
    buildParts(parts, bias, logit) {
      const row = (name, words, value) => make("div", name, make("dt", "", words), make("dd", "", signed(value)));
      return make("dl", "pv-sum", ...parts.map((each) => row("", ...each)),
        row("", "bias, the same for every image", bias), row("pv-total", "logit, of which softmax is taken", logit));
    }

    buildRelations({ relations }) {
      const list = group("pv-relations", "Relations, the largest contribution first", "ol");
      const widest = Math.max(...relations.map((each) => each.weight), 1e-9);
      this.relations = relations.map((relation, index) => {
        const product = `${number(relation.weight)} × ${relation.satisfaction.toFixed(2)} = `;
        const formula = make("span", "pv-formula", product, make("strong", "", number(relation.contribution)));
        const weight = bar("pv-weight", relation.weight / widest);
        weight.append(bar("pv-fill", relation.satisfaction));
        const faces = relation.primitives.map((k) => this.facesOf(k)[0]).filter(Boolean);
        const said = make("span", "pv-said", ...faces.map((face) => picture("pv-face", face)), relation.words);
        const button = make("button", `pv-relation pv-${relation.family}`, said);
        button.dataset.index = index;
        button.append(formula, make("span", "pv-room", weight));
        this.listen(button, { relation: index });
        return button;
      });
      list.append(...this.relations.map((button) => make("li", "", button)));
      return list;
    }

    buildSum({ score, relations, rest }) {
      const sum = make("dl", "pv-sum");
      const row = (words, value, name) =>
        sum.append(make("div", name, make("dt", "", words), make("dd", "", number(value))));
      const shown = relations.reduce((total, each) => total + each.contribution, 0);
      row(relations.length === 1 ? "the relation above" : `the ${relations.length} relations above`, shown, "");
      if (rest.count) row(`${rest.count} weaker ${rest.count === 1 ? "one" : "ones"}`, rest.contribution, "");
      row("score, out of at most 1", score, "pv-total");
      return sum;
    }

    /* -- what is pointed at, chosen, shown -- */

    listen(button, item) {
      button.addEventListener("pointerenter", (event) => {
        if (event.pointerType === "touch") return; // a tap is a click
        this.hovered = item;
        this.show();
      });
      button.addEventListener("pointerleave", () => {
        this.hovered = null;
        this.show();
      });
      button.addEventListener("focus", () => {
        if (button.matches(":focus-visible")) this.choose(item);
      });
      button.addEventListener("click", (event) => {
        const byKeyboard = event.detail === 0;
        this.choose(same(this.chosen, item) && !byKeyboard ? null : item);
      });
    }

    choose(item) {
      this.chosen = item;
      this.show();
    }

    onKey(event) {
      if (event.key === "Escape") {
        this.hovered = null;
        this.choose(null);
        return;
      }
      for (const row of [this.relations, this.parts, this.primitives || []]) {
        const at = row.indexOf(document.activeElement);
        if (at < 0) continue;
        const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0,
          End: row.length - 1 }[event.key];
        if (to === undefined) continue;
        event.preventDefault();
        const next = row[Math.max(0, Math.min(row.length - 1, to))];
        next.focus({ focusVisible: true });
        this.choose("index" in next.dataset ? { relation: to_index(next) } : { primitive: to_primitive(next) });
      }
    }

    show() {
      if (this.explained === null) return;
      const { relations = [], cells } = this.explanations.get(this.explained);
      const strongest = this.parts.length ? { primitive: to_primitive(this.parts[0]) } : null;
      const item = this.hovered || this.chosen || strongest;
      const relation = item && "relation" in item ? relations[item.relation] : null;
      const place = item && "primitive" in item ? this.places.get(item.primitive) : null;
      const drawn = relation ? [relation] : place ? [] : relations.slice(0, AT_REST);
      const size = [this.image.naturalWidth || 224, this.image.naturalHeight || 224];
      this.mark(item, relation ? relation.primitives : place ? [place.primitive] : []);
      this.root.classList.toggle("pv-heated", place !== null || Boolean(cells));
      const { seen } = this.data;
      if (cells) ParseDrawing.paintCells(this.heat, cells, size, seen);
      else ParseDrawing.paintHeat(this.heat, place ? this.data.heatmaps : null, place, size, seen);
      const { names } = this.known;
      const what = { relations: drawn, place, places: this.places, size, seen, names };
      const measured = ParseDrawing.draw(this.overlay, what);
      this.offerName(this.chosen && "primitive" in this.chosen ? this.places.get(this.chosen.primitive) : null);
      this.say(relation, place, drawn.length, measured, cells);
    }

    mark(item, used) {
      this.relations.forEach((button, index) => current(button, item !== null && item.relation === index));
      for (const button of [...(this.primitives || []), ...this.parts]) {
        const primitive = to_primitive(button);
        current(button, item !== null && item.primitive === primitive);
        button.classList.toggle("pv-used", used.includes(primitive));
      }
    }

    say(relation, place, drawn, measured, cells) {
      let words = drawn === 1 ? "The strongest relation" : `The ${drawn} strongest relations`;
      let numbers = "Point at a relation or a primitive, or tap it, to see it alone.";
      if (relation) {
        words = relation.words;
        numbers = `weight ${number(relation.weight)} × satisfaction ${relation.satisfaction.toFixed(2)} ` +
          `= contribution ${number(relation.contribution)}` + (measured ? ` · ${measured}` : "");
      } else if (place) {
        words = `${this.called(place.primitive)}, presence ${place.presence.toFixed(2)}`;
        numbers = "its heat map; the box is its extent, twice the map's deviation to each side";
      } else if (cells) {
        const strongest = cells.flat().reduce((most, part) => (Math.abs(part) > Math.abs(most) ? part : most), 0);
        words = `Where the score of ${this.explained} comes from`;
        numbers = `orange adds, blue takes away; the strongest cell: ${signed(strongest)}`;
      }
      this.caption.replaceChildren(make("span", "pv-said", words), make("span", "pv-quiet", numbers));
      const faces = place ? this.facesOf(place.primitive) : [];
      if (faces.length) {
        const strongest = (face) => `p${place.primitive} is strong here: ${face.words}`;
        this.caption.prepend(make("span", "pv-faces", ...faces.map((face) => picture("pv-face", face, strongest(face)))));
      }
    }
  }

  const same = (one, other) =>
    one !== null && one.relation === other.relation && one.primitive === other.primitive;
  const to_index = (button) => Number(button.dataset.index);
  const to_primitive = (button) => Number(button.dataset.primitive);

  function current(button, is) {
    if (is) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }

  return { make, mount: (element, data, known) => element.replaceChildren(new View(data, known).root) };
})();
