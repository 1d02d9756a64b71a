/* What is drawn over an image: relations as SVG, a primitive's heat map on a canvas.

   Places are in the grid's units: -1 and 1 are the centres of the outer pixels of the part of the image that the
   network saw, `seen` = [left, top, right, bottom] in pixels. The drawing is 1000 wide. */
"use strict";

window.ParseDrawing = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 1000;
  const RADIUS = 33; // of the disc with a primitive's number
  const GAP = 8; // between a disc and the line that ends there
  const BEYOND = 130; // so far a guide goes on
  const AWAY = 110; // from a box to the number of what it is of
  const FACE = 85; // half the side of a face on a class card, as parse_dg/explain/classes.py has it
  const LETTER = 22; // the width of one, about
  const LONGEST = 20; // a longer name is cut
  const SMALLEST = 256; // of the heat map's canvas, in pixels
  const INFERNO = [
    [0, 0, 4], [40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39],
    [252, 255, 164],
  ];

  const [ADDS, TAKES] = [[230, 97, 1], [33, 102, 172]];

  function overlay() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "pv-overlay");
    svg.setAttribute("aria-hidden", "true"); // the words say the same
    return svg;
  }

  /* ---- where things are ------------------------------------------------------------------------------------- */

  const add = (a, b) => [a[0] + b[0], a[1] + b[1]];
  const minus = (a, b) => [a[0] - b[0], a[1] - b[1]];
  const times = (a, s) => [a[0] * s, a[1] * s];
  const length = (a) => Math.hypot(a[0], a[1]);
  const unit = (a) => (length(a) > 1e-9 ? times(a, 1 / length(a)) : [0, 0]);
  const degrees = (u, v) => {
    const cosine = (u[0] * v[0] + u[1] * v[1]) / (length(u) * length(v) || 1);
    return (Math.acos(Math.max(-1, Math.min(1, cosine))) * 180) / Math.PI;
  };

  /* The grid's units as the drawing's: pixel n has its centre at n + ½. */
  function frameOf(size, seen) {
    const side = [WIDTH, (WIDTH * size[1]) / size[0]];
    const at = (value, axis) => {
      const [start, end] = [seen[axis] + 0.5, seen[axis + 2] - 0.5];
      return ((start + ((value + 1) / 2) * (end - start)) / size[axis]) * side[axis];
    };
    return {
      side,
      seen: seen.map((edge, n) => (edge / size[n % 2]) * side[n % 2]),
      point: (place) => [at(place.x, 0), at(place.y, 1)],
      corners: (place) => [
        [at(place.x - place.width, 0), at(place.y - place.height, 1)],
        [at(place.x + place.width, 0), at(place.y + place.height, 1)],
      ],
    };
  }

  /* Discs of primitives that lie together are moved apart until every number can be read. */
  function labels(points, side) {
    const found = points.map((point) => point.slice());
    for (let turn = 0; turn < 60; turn++) {
      for (let i = 0; i < found.length; i++) {
        for (let j = i + 1; j < found.length; j++) {
          const apart = minus(found[j], found[i]);
          const lacking = 2 * RADIUS + GAP - length(apart);
          if (lacking <= 0) continue;
          const way = length(apart) > 1 ? unit(apart) : [Math.cos(j), Math.sin(j)];
          found[i] = add(found[i], times(way, -lacking / 2));
          found[j] = add(found[j], times(way, lacking / 2));
        }
      }
      for (const point of found) {
        for (const axis of [0, 1]) point[axis] = Math.max(RADIUS, Math.min(side[axis] - RADIUS, point[axis]));
      }
    }
    return found;
  }

  /* ---- shapes ----------------------------------------------------------------------------------------------- */

  class Sketch {
    constructor(svg, side, radius = RADIUS) {
      this.svg = svg;
      this.radius = radius; // of what is at a place
      this.measures = radius === RADIUS; // on a card places are moved: angles are not what they were
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${side[0]} ${side[1]}`);
      this.side = side;
    }

    element(tag, name, attributes) {
      const shape = document.createElementNS(SVG, tag);
      shape.setAttribute("class", name);
      for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
      this.svg.append(shape);
      return shape;
    }

    /* Over what the network did not see. */
    veil([left, top, right, bottom]) {
      if (left < 1 && top < 1 && right > this.side[0] - 1 && bottom > this.side[1] - 1) return;
      const hole = `M${left} ${top} H${right} V${bottom} H${left} Z`;
      const d = `M0 0 H${this.side[0]} V${this.side[1]} H0 Z ${hole}`;
      this.element("path", "pv-unseen", { d, "fill-rule": "evenodd" });
    }

    /* A stroke with a pale edge, so that it is seen on any image. */
    stroke(path, name) {
      this.element("path", name.includes("pv-extent") ? "pv-halo pv-fine" : "pv-halo", { d: path });
      this.element("path", `pv-stroke ${name}`, { d: path });
    }

    line(from, to, name) {
      this.stroke(`M${from} L${to}`, name);
    }

    /* From disc to disc where they are far enough apart, else from place to place. */
    ends(from, to) {
      const [way, away] = [minus(to, from), this.radius + GAP];
      const off = times(unit(way), length(way) - 2 * away > 20 ? away : 0);
      return [add(from, off), minus(to, off)];
    }

    edge(from, to, name) {
      this.line(...this.ends(from, to), name);
    }

    arrow(from, to, name) {
      const way = unit(minus(to, from));
      const [start, tip] = this.ends(from, to);
      const size = Math.min(34, length(minus(tip, start)) / 2);
      const neck = minus(tip, times(way, size));
      const aside = times([-way[1], way[0]], 0.55 * size);
      this.line(start, minus(tip, times(way, size * 0.8)), name);
      const head = `M${tip} L${add(neck, aside)} L${minus(neck, aside)} Z`;
      this.element("path", "pv-halo", { d: head });
      this.element("path", `pv-head ${name}`, { d: head });
    }

    /* The angle from direction u to direction v around a point, with its size in degrees. */
    angle(at, u, v, name) {
      const radius = Math.max(48, Math.min(110, 0.45 * Math.min(length(u), length(v))));
      const [start, end] = [add(at, times(unit(u), radius)), add(at, times(unit(v), radius))];
      const sweep = u[0] * v[1] - u[1] * v[0] > 0 ? 1 : 0;
      this.stroke(`M${start} A${radius} ${radius} 0 0 ${sweep} ${end}`, `${name} pv-thin`);
      const between = add(unit(u), unit(v));
      const middle = length(between) > 0.1 ? unit(between) : [-unit(u)[1], unit(u)[0]];
      const size = `${degrees(u, v).toFixed(0)}°`;
      if (this.measures) this.text(add(at, times(middle, radius + 44)), size);
      return `here ${size}`;
    }

    text(at, given) {
      const words = given.length > LONGEST ? `${given.slice(0, LONGEST - 1)}…` : given;
      const half = Math.max(50, (words.length * LETTER) / 2);
      const x = Math.max(half, Math.min(this.side[0] - half, at[0]));
      const y = Math.max(30, Math.min(this.side[1] - 30, at[1]));
      this.element("text", "pv-measure", { x, y }).textContent = words;
    }

    box(corners, name) {
      const [[left, top], [right, bottom]] = corners;
      this.stroke(`M${left} ${top} H${right} V${bottom} H${left} Z`, `${name} pv-thin`);
    }

    discs(points, numbers, name, names = {}, moved = labels(points, this.side)) {
      points.forEach((point, index) => {
        if (length(minus(moved[index], point)) < 3) return;
        this.stroke(`M${point} L${moved[index]}`, `${name} pv-thin`);
        this.element("circle", `pv-dot ${name}`, { cx: point[0], cy: point[1], r: 9 });
      });
      moved.forEach(([x, y], index) => {
        const known = names[`p${numbers[index]}`];
        const sides = [1, -1].map((sign) => [x, y + sign * (RADIUS + 26)]); // below, or else above
        const free = sides.find((at) => moved.every((disc) => length(minus(disc, at)) > 2 * RADIUS - 10));
        if (known) this.text(free || sides[0], known);
      });
      moved.forEach(([cx, cy], index) => {
        this.element("circle", `pv-number-disc ${name}`, { cx, cy, r: RADIUS });
        this.element("text", "pv-number-text", { x: cx, y: cy }).textContent = numbers[index];
      });
    }
  }

  /* ---- relations -------------------------------------------------------------------------------------------- */

  /* Draws one mark of a relation, [kind, ...primitives]; returns what was measured, in words. */
  function drawMark(sketch, frame, [kind, ...primitives], places, name) {
    const bound = primitives.map((primitive) => places.get(primitive));
    const [a, b, c, d] = bound.map(frame.point);
    switch (kind) {
      case "ring":
        for (const look of ["pv-halo", `pv-stroke ${name}`]) {
          sketch.element("circle", look, { cx: a[0], cy: a[1], r: sketch.radius + 22 });
        }
        return "";
      case "box":
      case "dashed_box":
        sketch.box(frame.corners(bound[0]), kind === "box" ? name : `${name} pv-dashed`);
        return "";
      case "arrow":
        sketch.arrow(a, b, name);
        return "";
      case "equal":
        drawEqual(sketch, a, b, name);
        return "";
      case "level":
      case "plumb":
        drawGuide(sketch, a, b, kind === "level" ? 1 : 0, name);
        return "";
      case "corner":
        return sketch.angle(b, minus(a, b), minus(c, b), name);
      case "turn":
        sketch.line(b, add(b, times(unit(minus(b, a)), 150)), `${name} pv-thin pv-dashed`);
        return sketch.angle(b, minus(b, a), minus(c, b), name);
      case "angle":
        return `here ${degrees(minus(b, a), minus(d, c)).toFixed(0)}°`;
      case "ratio":
        return `here ${(length(minus(b, a)) / (length(minus(d, c)) || 1)).toFixed(2)} times as long`;
      default:
        sketch.edge(a, b, name);
        return "";
    }
  }

  /* Alignment: a dashed guide past both, at their mean, and how far each of the two is from it. */
  function drawGuide(sketch, a, b, axis, name) {
    const level = (a[axis] + b[axis]) / 2;
    const [from, to] = [a[1 - axis], b[1 - axis]].sort((one, other) => one - other);
    const ends = [from - BEYOND, to + BEYOND];
    const [start, stop] = ends.map((end) => (axis === 1 ? [end, level] : [level, end]));
    sketch.line(start, stop, `${name} pv-dashed`);
    for (const point of [a, b]) {
      const foot = axis === 1 ? [point[0], level] : [level, point[1]];
      if (length(minus(point, foot)) > sketch.radius) sketch.line(point, foot, `${name} pv-thin`);
    }
  }

  /* One of two equal lengths, with the stroke across its middle that says so. */
  function drawEqual(sketch, a, b, name) {
    sketch.edge(a, b, name);
    const way = unit(minus(b, a));
    const middle = times(add(a, b), 0.5);
    const across = times([-way[1], way[0]], 22);
    sketch.line(add(middle, across), minus(middle, across), name);
  }

  /* The box of one primitive, and its number at some distance, so that the heat map is seen. */
  function drawExtent(sketch, frame, place) {
    const centre = frame.point(place);
    const [[left, top], [right, bottom]] = frame.corners(place);
    sketch.box([[left, top], [right, bottom]], "pv-extent");
    const corner = [right + AWAY < frame.side[0] ? right : left, top > AWAY ? top : bottom];
    const out = unit([corner[0] - centre[0], corner[1] - centre[1]]);
    const at = add(corner, times(out, AWAY - RADIUS));
    sketch.line(corner, at, "pv-extent");
    const inside = at.map((value, axis) => Math.max(RADIUS, Math.min(frame.side[axis] - RADIUS, value)));
    sketch.discs([inside], [place.primitive], "pv-extent", {}, [inside]);
  }

  /* Relations with the numbers of what they bind, or the extent of one primitive. */
  function draw(svg, { relations, place, places, size, seen, names }) {
    const frame = frameOf(size, seen);
    const sketch = new Sketch(svg, frame.side);
    sketch.veil(frame.seen);
    let measured = [];
    const bound = new Set();
    for (const relation of relations) {
      const name = `pv-${relation.family}`;
      measured = relation.marks.map((mark) => drawMark(sketch, frame, mark, places, name)).filter(Boolean);
      for (const primitive of relation.primitives) bound.add(primitive);
    }
    if (place) drawExtent(sketch, frame, place);
    const numbers = [...bound];
    const alone = relations.length === 1 ? `pv-${relations[0].family}` : "pv-plain";
    sketch.discs(numbers.map((primitive) => frame.point(places.get(primitive))), numbers, alone, names);
    return relations.length === 1 ? measured.join(", ") : "";
  }

  /* A class card: relations between faces, each in a colour of its own, where their primitives are on average. */
  function drawCard(svg, { relations, faces }, known) {
    const sketch = new Sketch(svg, [WIDTH, WIDTH], FACE);
    const where = new Map(faces.map(({ primitive, at }) => [primitive, { primitive, at: times(at, WIDTH) }]));
    const frame = {
      point: (place) => place.at,
      corners: ({ at }) => [-1, 1].map((sign) => at.map((value) => value + sign * 1.15 * FACE)),
    };
    for (const { primitive, at: [x, y] } of where.values()) {
      const [face] = known.faces[primitive] || [];
      const box = { x: x - FACE, y: y - FACE, width: 2 * FACE, height: 2 * FACE };
      if (face) sketch.element("image", "pv-face", { ...box, href: face.image });
      sketch.element("rect", face ? "pv-edge" : "pv-number-disc", { ...box, rx: 8 });
    }
    relations.forEach(({ marks }, index) => {
      for (const mark of marks) drawMark(sketch, frame, mark, where, `pv-drawn${index}`);
    });
    for (const { primitive, at: [x, y] } of where.values()) {
      sketch.text([x, y + FACE + 28], known.names[`p${primitive}`] || `p${primitive}`);
    }
  }

  /* ---- heat maps -------------------------------------------------------------------------------------------- */

  const decoded = new WeakMap();

  function valuesOf(heatmaps) {
    if (!decoded.has(heatmaps)) {
      decoded.set(heatmaps, Uint8Array.from(atob(heatmaps.values), (letter) => letter.charCodeAt(0)));
    }
    return decoded.get(heatmaps);
  }

  function colour(share) {
    const at = share * (INFERNO.length - 1);
    const low = Math.min(INFERNO.length - 2, Math.floor(at));
    return INFERNO[low].map((value, c) => value + (at - low) * (INFERNO[low + 1][c] - value));
  }

  /* For each of `count` canvas pixels: the cells left and right of it, how far it is between them, and whether it
     was seen. The outer cells are centred on the outer pixels of what was seen, as the model's grid has it. */
  function cellsAlong(count, pixels, start, end, cells) {
    return Array.from({ length: count }, (_, n) => {
      const pixel = ((n + 0.5) / count) * pixels;
      const at = Math.max(0, Math.min(1, (pixel - start - 0.5) / Math.max(1, end - start - 1))) * (cells - 1);
      const low = Math.min(Math.max(0, cells - 2), Math.floor(at));
      return [low, Math.min(cells - 1, low + 1), at - low, pixel >= start && pixel <= end];
    });
  }

  /* The heat map of a primitive, as strong as it is present; none: an empty canvas. */
  function paintHeat(canvas, heatmaps, place, size, seen) {
    if (!heatmaps || !place) return paint(canvas, null, size, seen);
    const [, rows, columns] = heatmaps.shape;
    const map = valuesOf(heatmaps).subarray(place.map * rows * columns, (place.map + 1) * rows * columns);
    const strength = 0.25 + 0.65 * place.presence;
    paint(canvas, { map, rows, columns }, size, seen, (value) => [...colour(value / 255), value * strength]);
  }

  /* What each cell adds to a logit: orange where it adds, blue where it takes away; the largest is the strongest. */
  function paintCells(canvas, cells, size, seen) {
    const map = cells.flat();
    const largest = Math.max(...map.map(Math.abs), 1e-9);
    const tint = (value) => [...(value > 0 ? ADDS : TAKES), 205 * Math.abs(value / largest)];
    paint(canvas, { map, rows: cells.length, columns: cells[0].length }, size, seen, tint);
  }

  /* A map over the canvas, blended between the centres of its cells; `tint` gives the colour of a value. */
  function paint(canvas, grid, size, seen, tint) {
    const scale = Math.max(1, Math.ceil(SMALLEST / Math.min(...size)));
    const context = canvas.getContext("2d", { willReadFrequently: true }); // it is written pixel by pixel
    canvas.width = size[0] * scale; // which also clears it
    canvas.height = size[1] * scale;
    if (!grid) return;
    const { map, rows, columns } = grid;
    const picture = context.createImageData(canvas.width, canvas.height);
    const across = cellsAlong(canvas.width, size[0], seen[0], seen[2], columns);
    const down = cellsAlong(canvas.height, size[1], seen[1], seen[3], rows);
    let at = 0;
    for (const [top, bottom, v, inRows] of down) {
      for (const [left, right, u, inColumns] of across) {
        const above = map[top * columns + left] * (1 - u) + map[top * columns + right] * u;
        const below = map[bottom * columns + left] * (1 - u) + map[bottom * columns + right] * u;
        if (inRows && inColumns) picture.data.set(tint(above * (1 - v) + below * v), at);
        at += 4;
      }
    }
    context.putImageData(picture, 0, 0);
  }

  return { overlay, draw, drawCard, paintHeat, paintCells };
})();
