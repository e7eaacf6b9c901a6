/**
 * What detectors give, in one form. Detections are found by the shapes of outputs: one of rank 3 is YOLO's, two are SSD's.
 * That of one class in YOLOv5 has the shape of one whose detections are selected already, so elements tell those apart.
 */

/**
 * What a network has found, whatever its form: `boxes` [N, 4] as x1, y1, x2, y2 in pixels of its input, `scores`
 * [classes, N], and `selected` [K, 3], picture, class and box, where the network itself selects.
 */
export function readOutputs(outputs, { height, width }) {
  const tensors = Object.entries(outputs).map(([name, { type, dims, data }]) => ({ name, type, dims, data }));
  const floats = tensors.filter(({ type, dims }) => type === 'float32' && dims.length === 3 && dims[0] === 1);
  const selected = tensors.find(
    ({ type, dims }) => type === 'int64' && dims.length === 2 && dims[1] === 3,
  )?.data;
  const found = floats.length === 1 ? readOne(floats[0]) : floats.length === 2 ? readSsd(floats) : undefined;
  if (found === undefined) {
    const shapes = tensors.map(({ name, type, dims }) => `'${name}' ${type} [${dims.join(', ')}]`);
    throw new Error(`these outputs are neither YOLO's nor SSD's: ${shapes.join(', ')}`);
  }
  const isPartOfOne = found.boxes.every((coordinate) => Math.abs(coordinate) <= 2);
  const [x, y] = isPartOfOne ? [width, height] : [1, 1];
  return { selected, ...found, boxes: found.boxes.map((one, index) => one * (index % 2 === 0 ? x : y)) };
}

function readOne(output) {
  return readSelected(output) ?? readYolo(output);
}

/** Each row is a box as x1, y1, x2, y2, its score and its class. Rows that nothing was found for have the class 0 or -1. */
function readSelected({ dims, data }) {
  const [, count, length] = dims;
  if (length !== 6) return undefined;
  const rows = Array.from({ length: count }, (_, box) => data.subarray(6 * box, 6 * box + 6));
  const isBox = ([x1, y1, x2, y2, , kind]) => x1 <= x2 && y1 <= y2 && Number.isInteger(kind) && kind >= -1;
  if (!rows.every(isBox)) return undefined;
  const classes = rows.reduce((most, row) => Math.max(most, row[5] + 1), 0);
  const boxes = Float32Array.from({ length: 4 * count }, (_, i) => rows[Math.floor(i / 4)][i % 4]);
  const scores = new Float32Array(classes * count);
  const selected = [];
  for (const [box, [, , , , score, kind]] of rows.entries()) {
    if (kind < 0) continue;
    scores[kind * count + box] = score;
    selected.push(0, kind, box);
  }
  return { boxes, scores, count, classes, selected };
}

/** Each box is its middle, its width and height, [how sure it is that something is there,] and a score for each class. */
function readYolo({ dims, data }) {
  const isByRow = dims[1] > dims[2];
  const [count, length] = isByRow ? [dims[1], dims[2]] : [dims[2], dims[1]];
  const classes = length - (isByRow ? 5 : 4);
  if (classes < 1) return undefined;
  const at = isByRow ? (box, part) => data[box * length + part] : (box, part) => data[part * count + box];
  const boxes = new Float32Array(4 * count);
  const scores = new Float32Array(classes * count);
  for (let box = 0; box < count; box++) {
    const [x, y, halfWidth, halfHeight] = [at(box, 0), at(box, 1), at(box, 2) / 2, at(box, 3) / 2];
    boxes.set([x - halfWidth, y - halfHeight, x + halfWidth, y + halfHeight], 4 * box);
    for (let k = 0; k < classes; k++) {
      scores[k * count + box] = isByRow ? at(box, 4) * at(box, 5 + k) : at(box, 4 + k);
    }
  }
  return { boxes, scores, count, classes };
}

/** Scores may be by box or by class. Of those by box that add up to 1, the first is of the background. */
function readSsd(floats) {
  const boxes =
    floats.find(({ name, dims }) => dims[2] === 4 && /box|loc/i.test(name)) ??
    floats.find(({ dims }) => dims[2] === 4);
  const given = floats.find((one) => one !== boxes);
  const count = boxes?.dims[1];
  if (given.dims[2] === count)
    return { boxes: boxes.data, scores: given.data, count, classes: given.dims[1] };
  if (given.dims[1] !== count) return undefined;
  const all = given.dims[2];
  const sum = given.data.subarray(0, all).reduce((total, score) => total + score, 0);
  const first = all > 1 && Math.abs(sum - 1) < 1e-3 ? 1 : 0;
  const classes = all - first;
  const scores = Float32Array.from({ length: classes * count }, (_, index) => {
    const [k, box] = [Math.floor(index / count), index % count];
    return given.data[box * all + first + k];
  });
  return { boxes: boxes.data, scores, count, classes };
}
