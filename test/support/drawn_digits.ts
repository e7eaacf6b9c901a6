/** Digits as people write them, and what draws them on the page of examples/digits. */
import type { Page } from 'playwright-core';

export type Point = readonly [x: number, y: number];
/** Lines between points, in a unit square. */
export type Stroke = readonly Point[];

/** Points in the notation of SVG's polylines: `'0,0 1,0 0.4,1'`. */
function lines(points: string): Stroke {
  return points.split(' ').map((point) => point.split(',').map(Number) as unknown as Point);
}

/** Points of an ellipse from one angle to another in degrees: 0 is on the right, 90 below. */
function arc([x, y]: Point, [radiusX, radiusY]: Point, from: number, to: number): Stroke {
  const steps = Math.ceil(Math.abs(to - from) / 15);
  return Array.from({ length: steps + 1 }, (_, step): Point => {
    const angle = ((from + ((to - from) * step) / steps) * Math.PI) / 180;
    return [x + radiusX * Math.cos(angle), y + radiusY * Math.sin(angle)];
  });
}

export const DRAWN_DIGITS: readonly (readonly Stroke[])[] = [
  [arc([0.5, 0.5], [0.5, 0.5], -90, 270)],
  [lines('0.1,0.3 0.6,0 0.6,1')],
  [[...arc([0.5, 0.28], [0.5, 0.28], 190, 380), ...lines('0,1 1,1')]],
  [[...arc([0.45, 0.25], [0.45, 0.25], 200, 450), ...arc([0.45, 0.75], [0.5, 0.25], -90, 160)]],
  [lines('0.5,0 0,0.6 1,0.6'), lines('0.7,0.3 0.7,1')],
  [[...lines('0.95,0 0.15,0 0.1,0.45'), ...arc([0.45, 0.68], [0.5, 0.32], -130, 150)]],
  [[...arc([0.6, 0.5], [0.6, 0.5], -80, -180), ...arc([0.45, 0.73], [0.45, 0.27], 180, -180)]],
  [lines('0,0 1,0 0.4,1'), lines('0.3,0.5 0.9,0.5')],
  [[...arc([0.5, 0.25], [0.4, 0.25], 90, -270), ...arc([0.5, 0.75], [0.48, 0.25], -90, 270)]],
  [[...arc([0.5, 0.28], [0.42, 0.28], 0, -360), ...lines('0.9,0.3 0.8,1')]],
];

/** Where the unit square goes on the drawing area, whose sides are 1 as well. */
export interface Placement {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** The strokes in pixels of the page. */
export async function placed(
  page: Page,
  strokes: readonly Stroke[],
  { left, top, width, height }: Placement,
): Promise<Stroke[]> {
  const pad = (await page.locator('#pad').boundingBox())!;
  return strokes.map((stroke) =>
    stroke.map(([x, y]) => [pad.x + pad.width * (left + width * x), pad.y + pad.height * (top + height * y)]),
  );
}

/**
 * Draws as a mouse or a pen does, with all the events of a stroke sent at once: the browser hands them to the page in order and
 * several a frame, as those of a quick hand.
 */
export async function drawWithMouse(
  page: Page,
  strokes: readonly Stroke[],
  placement: Placement,
  pointerType: 'mouse' | 'pen' = 'mouse',
): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const send = (type: 'mousePressed' | 'mouseMoved' | 'mouseReleased', [x, y]: Point) =>
    session.send('Input.dispatchMouseEvent', {
      ...{ type, x, y, pointerType, button: 'left', clickCount: 1 },
      buttons: type === 'mouseReleased' ? 0 : 1,
    });
  for (const stroke of await placed(page, strokes, placement)) {
    await Promise.all([
      send('mousePressed', stroke[0]!),
      ...stroke.map((point) => send('mouseMoved', point)),
      send('mouseReleased', stroke.at(-1)!),
    ]);
  }
  await session.detach();
}

/** What the page says once it has an answer for all that was drawn. */
export async function settledDigit(page: Page): Promise<string> {
  return page.locator('#digit[aria-busy=false]').innerText();
}
