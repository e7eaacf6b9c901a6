/** Results as text. */
import { printable } from '../printable';

/**
 * Rows as lines, each column as wide as its widest cell. The first row has the titles.
 *
 * @param right - the columns of numbers, by their titles
 */
export function table(given: readonly (readonly string[])[], right: readonly string[] = []): string {
  // Names come from files, which may have anything in them.
  const rows = given.map((cells) => cells.map((cell) => printable(cell).replaceAll('\n', '\\n')));
  const titles = rows[0]!;
  const widths = titles.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length)));
  const isRight = titles.map((title) => right.includes(title));
  const lines = rows.map((cells) =>
    cells
      .map((cell, i) => (isRight[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.map(fitted).join('\n')}\n`;
}

/** As much of a line as a terminal shows; all of it elsewhere. */
function fitted(line: string): string {
  const { isTTY, columns } = process.stdout;
  // Some terminals do not know how wide they are, and say 0.
  return isTTY && columns > 0 && line.length > columns ? `${line.slice(0, columns - 1)}…` : line;
}

const GROUPED = new Intl.NumberFormat('en');

/** An integer with commas */
export function grouped(count: number): string {
  return GROUPED.format(count);
}

/** With three digits or so, for example `1.23 G` */
export function scaled(value: number): string {
  const at = ['', ' k', ' M', ' G', ' T', ' P'];
  let power = 0;
  for (let rest = value; rest >= 999.5 && power < at.length - 1; rest /= 1000) power++;
  return `${digits(value / 1000 ** power)}${at[power]}`;
}

/** For example `1.23 MiB` */
export function inBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let power = 0;
  for (let rest = bytes; rest >= 1023.5 && power < units.length - 1; rest /= 1024) power++;
  return `${digits(bytes / 1024 ** power)} ${units[power]}`;
}

/** Three digits, more of large numbers, fewer of those below 0.1. Integers have no fraction. */
export function digits(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const magnitude = Number(Math.abs(value).toPrecision(3));
  const fraction = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : magnitude >= 0.1 ? 3 : 4;
  return value.toFixed(fraction);
}
