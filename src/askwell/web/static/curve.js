// The learning curve with its interval, drawn by uPlot in the page's own colours.

const HEIGHT = 156;
let plot = null;
let drawn = "";

function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function faint(name, share) {
  return colour(name).replace(/^rgb\((.*)\)$/, `rgba($1, ${share})`);
}

const number = (value) => value.toFixed(Math.abs(value) < 10 ? 2 : 0);

// A lower bound is drawn dashed.
function options(width, read, bound) {
  const axis = (extra) => ({
    stroke: () => colour("soft"), font: "12px system-ui, sans-serif", ticks: { show: false },
    grid: { stroke: () => colour("rule"), width: 1 }, ...extra,
  });
  const edge = { stroke: "transparent", points: { show: false } };
  return {
    width, height: HEIGHT, padding: [8, 12, 0, 0], legend: { show: false },
    scales: { x: { time: false }, y: { range: (_, low, high) => stretch(low, high) } },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 8, width: 2 } },
    axes: [axis({ size: 28, space: 64 }), axis({ size: 40, space: 34, values: (_, ticks) => ticks.map(number) })],
    series: [{}, edge, edge, {
      stroke: () => colour("accent"), width: 2.5, dash: bound ? [6, 5] : [], points: { show: (u) => u.data[0].length < 14, size: 6, fill: () => colour("accent") },
    }],
    bands: [{ series: [1, 2], fill: () => faint("accent", 0.16) }],
    hooks: { setCursor: [(u) => read(u.cursor.idx)] },
  };
}

// Some room above and below, and never so close that noise looks like a mountain.
function stretch(low, high) {
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2 * 1.12, Math.min(0.04, Math.abs(middle) / 10));
  return [middle - half, middle + half];
}

// The panel is drawn anew by the server; a curve that has not changed is put back as it was.
export function drawCurve(place) {
  const { metric, points, bound } = JSON.parse(place.dataset.curve);
  if (points.length < 2) return;
  if (plot && drawn === place.dataset.curve) {
    place.replaceChildren(plot.root);
    return;
  }
  const calm = document.getElementById("curve-caption").textContent;
  const read = (index) => {
    const point = points[index];
    const least = bound ? "at least about " : "";
    const words = point ? `${point[0]} labels: ${metric} ${least}${number(point[1])}, ${number(point[2])} to ${number(point[3])}` : calm;
    const caption = document.getElementById("curve-caption");
    if (caption && caption.textContent !== words) caption.textContent = words;
  };
  const columns = [0, 3, 2, 1].map((column) => points.map((point) => point[column])); // x, high, low, value
  plot?.destroy();
  place.replaceChildren();
  plot = new uPlot(options(place.clientWidth, read, bound), columns, place);
  drawn = place.dataset.curve;
}

export function redrawCurve() {
  const place = document.getElementById("curve");
  if (!plot || !place) return;
  plot.setSize({ width: place.clientWidth, height: HEIGHT });
  plot.redraw();
}
