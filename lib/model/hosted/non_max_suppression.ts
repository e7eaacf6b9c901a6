/** The boxes of each class that overlap none of a higher score by too much. */
import { flag } from '../attributes';
import { invalidNode } from '../refusals';
import type { Hosted } from './hosted';
import { int64s, required, scalarOf } from './tensors';

/** Corners, the lower coordinates first, and the area: in float32, as other runtimes have it. */
interface Box {
  readonly y1: number;
  readonly x1: number;
  readonly y2: number;
  readonly x2: number;
  readonly area: number;
}

export const nonMaxSuppression: Hosted = (node, inputs) => {
  const [boxes, scores] = [required(node, inputs, 0), required(node, inputs, 1)];
  const [batches, classes, count] = scores.dims as [number, number, number];
  const isLegal = scores.dims.length === 3 && boxes.dims.join() === [batches, count, 4].join();
  if (!isLegal || boxes.type !== 'float32' || scores.type !== 'float32') {
    throw invalidNode(
      node,
      `takes float32 boxes of dims [N, boxes, 4] and scores of dims [N, classes, boxes], got ` +
        `${boxes.type} [${boxes.dims.join(', ')}] and ${scores.type} [${scores.dims.join(', ')}]`,
    );
  }
  const most = scalarOf(node, inputs, 2, 0);
  const overlap = scalarOf(node, inputs, 3, 0);
  const least = inputs[4] === undefined ? -Infinity : scalarOf(node, inputs, 4, 0);
  const isCentered = flag(node, 'center_point_box', false);
  const found: number[] = [];
  for (let n = 0; n < batches && most > 0; n++) {
    const own = new Boxes(boxes.data as Float32Array, n * count, isCentered);
    for (let c = 0; c < classes; c++) {
      const first = (n * classes + c) * count;
      const kept = suppress(
        own,
        scores.data.subarray(first, first + count) as Float32Array,
        least,
        overlap,
        most,
      );
      for (const box of kept) found.push(n, c, box);
    }
  }
  return [int64s([found.length / 3, 3], found)];
};

/** Those of one image. Most are of no candidate, and are not made. */
class Boxes {
  readonly #made = new Map<number, Box>();

  constructor(
    private readonly data: Float32Array,
    private readonly first: number,
    private readonly isCentered: boolean,
  ) {}

  at(i: number): Box {
    let box = this.#made.get(i);
    if (box === undefined) {
      box = this.#read((this.first + i) * 4);
      this.#made.set(i, box);
    }
    return box;
  }

  #read(at: number): Box {
    const round = Math.fround;
    const [a, b, c, d] = this.data.subarray(at, at + 4) as unknown as [number, number, number, number];
    // Centers are x, y, width and height; corners are y, x, y, x, in any order.
    const [halfWidth, halfHeight] = [round(c / 2), round(d / 2)];
    const [y1, x1, y2, x2] = this.isCentered
      ? [round(b - halfHeight), round(a - halfWidth), round(b + halfHeight), round(a + halfWidth)]
      : [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];
    return { y1, x1, y2, x2, area: round(round(y2 - y1) * round(x2 - x1)) };
  }
}

/** In the order of their scores; of equal ones the first comes first. */
function suppress(
  boxes: Boxes,
  scores: Float32Array,
  least: number,
  overlap: number,
  most: number,
): number[] {
  const candidates: number[] = [];
  for (let i = 0; i < scores.length; i++) if (scores[i]! > least) candidates.push(i);
  candidates.sort((a, b) => scores[b]! - scores[a]! || a - b);
  const kept: number[] = [];
  for (const i of candidates) {
    if (kept.length >= most) break;
    const box = boxes.at(i);
    if (!kept.some((other) => overlaps(box, boxes.at(other), overlap))) kept.push(i);
  }
  return kept;
}

/** Whether the intersection is more than that part of the union. */
function overlaps(a: Box, b: Box, part: number): boolean {
  const round = Math.fround;
  const height = round(Math.min(a.y2, b.y2) - Math.max(a.y1, b.y1));
  const width = round(Math.min(a.x2, b.x2) - Math.max(a.x1, b.x1));
  if (height <= 0 || width <= 0) return false;
  const shared = round(height * width);
  const union = round(round(a.area + b.area) - shared);
  if (a.area <= 0 || b.area <= 0 || union <= 0) return false;
  return round(shared / union) > part;
}
