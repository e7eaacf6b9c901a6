/** Small grey images side by side, as text. */

const LINE_WIDTH = 80;
const GAP = '  ';
const RAMP = ' .:-=+*#%@';

export interface Picture {
  /** Row-major, from 0 (black) to 1 (white) */
  readonly pixels: Float32Array;
  readonly width: number;
  readonly caption: string;
}

/** How a terminal shows an image: so many columns for each pixel, and the lines. */
interface Style {
  readonly columnsPerPixel: number;
  lines(picture: Picture): string[];
}

/** Half blocks in shades of grey, two pixels to a character. */
const greyBlocks: Style = {
  columnsPerPixel: 1,
  lines: (picture) =>
    pairs(rows(picture)).map(([upper, lower]) => {
      const cells = Array.from(upper, (value, column) => halfBlock(value, lower[column]!));
      return `${cells.join('')}\x1b[0m`;
    }),
};

/** Two characters to a pixel, so that pixels look square. */
const asciiRamp: Style = {
  columnsPerPixel: 2,
  lines: (picture) =>
    rows(picture).map((row) => Array.from(row, (value) => rampCharacter(value).repeat(2)).join('')),
};

/** The style that the standard output can show. */
function styleOfOutput(): Style {
  return process.stdout.isTTY && !process.env.NO_COLOR ? greyBlocks : asciiRamp;
}

/** How many images of that width fit side by side. */
export function picturesPerLine(width: number): number {
  return Math.floor((LINE_WIDTH + GAP.length) / (width * styleOfOutput().columnsPerPixel + GAP.length));
}

/** The pictures side by side with their captions below. */
export function draw(pictures: readonly Picture[]): string {
  const style = styleOfOutput();
  const drawn = pictures.map((picture) => style.lines(picture));
  const captions = pictures.map(({ caption, width }) => caption.padEnd(width * style.columnsPerPixel));
  const lines = drawn[0]!.map((_, line) => drawn.map((picture) => picture[line]).join(GAP));
  return [...lines, captions.join(GAP).trimEnd()].join('\n');
}

function rows({ pixels, width }: Picture): Float32Array[] {
  return Array.from({ length: pixels.length / width }, (_, row) =>
    pixels.subarray(row * width, (row + 1) * width),
  );
}

function pairs<T>(items: readonly T[]): [T, T][] {
  return Array.from({ length: items.length / 2 }, (_, pair) => [items[2 * pair]!, items[2 * pair + 1]!]);
}

function halfBlock(upper: number, lower: number): string {
  return `\x1b[38;5;${greyCode(upper)};48;5;${greyCode(lower)}m▀`;
}

/** Of the 256-colour palette, whose entries 232 to 255 are greys from dark to light. */
function greyCode(value: number): number {
  return 232 + Math.round(value * 23);
}

function rampCharacter(value: number): string {
  return RAMP[Math.round(value * (RAMP.length - 1))]!;
}
