/** Figures in README.md and docs are those of the results that their section links to. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(__dirname, '../..');
const DOCUMENTS = [
  'README.md',
  ...readdirSync(path.join(ROOT, 'docs')).map((name) => path.join('docs', name)),
]
  .filter((name) => name.endsWith('.md'))
  .map((name) => path.join(ROOT, name));

const RESULTS = path.join(ROOT, 'bench/results');
/** Speed-ups, rates, shares and times. */
const FIGURE =
  /(?<![\w.,–-])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?) ?(×(?! \d)|% won|[GT]FLOP\/s|TB\/s|answers a second)/g;

/** In cells of tables units stand in the head. */
const CELL_FIGURE = /(?<![\w.,–-])(\d{1,3}(?:,\d{3})+|\d+\.\d+)(?![\w.])/g;

interface Section {
  readonly title: string;
  readonly text: string;
  /** Results that it links to, whole. */
  readonly backing: readonly string[];
}

function sectionsOf(file: string): Section[] {
  // Code shows commands and what they take, no measurements.
  const text = readFileSync(file, 'utf8').replace(/^( *)```[\s\S]*?^\1```$/gm, '');
  return text.split(/^(?=#+ )/m).map((section) => ({
    title: section.split('\n', 1)[0]!,
    text: section,
    backing: linksOf(file, section).map((linked) => readFileSync(linked, 'utf8')),
  }));
}

function linksOf(file: string, text: string): string[] {
  return [...text.matchAll(/\]\(([^)#\s]+)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => path.resolve(path.dirname(file), target))
    .filter((linked) => linked.startsWith(`${RESULTS}${path.sep}`) && linked.endsWith('.md'));
}

/** Whether a figure is written there in just these digits. */
function isIn(figure: string, text: string): boolean {
  const digits = figure.replace(/[.]/g, '\\$&');
  return new RegExp(`(?<![\\d.,])${digits}(?![\\d]|[.,]\\d)`).test(text);
}

const documents = DOCUMENTS.map((file) => [path.relative(ROOT, file), file] as const);

/** As they are written, with their digits. */
function figuresOf({ text, backing }: Section): (readonly [whole: string, digits: string])[] {
  const rows = backing.length === 0 ? '' : text.replace(/^[^|].*$/gm, '').replace(/\]\([^)]*\)/g, ']');
  return [...text.matchAll(FIGURE), ...rows.matchAll(CELL_FIGURE)].map(
    ([whole, digits]) => [whole, digits!] as const,
  );
}

test.each(documents)('every figure in %s is in a result that its section links to', (_, file) => {
  const missing = sectionsOf(file).flatMap((section) =>
    figuresOf(section)
      .filter(([, digits]) => !section.backing.some((result) => isIn(digits, result)))
      .map(([whole]) => `${section.title}: ${whole}`),
  );
  expect(missing).toEqual([]);
});

test.each(documents)('every relative link in %s leads to a file', (_, file) => {
  const broken = [...readFileSync(file, 'utf8').matchAll(/\]\(([^)#\s]+)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => !existsSync(path.resolve(path.dirname(file), target)));
  expect(broken).toEqual([]);
});

test('the index of results lists every report, and every report has its figures beside it', () => {
  const index = readFileSync(path.join(RESULTS, 'README.md'), 'utf8');
  const names = readdirSync(RESULTS).filter((name) => name !== 'README.md');
  const reports = names.filter((name) => name.endsWith('.md'));
  expect(reports.filter((name) => !index.includes(`(${name})`))).toEqual([]);
  const isBacked = (name: string) => /^kernels-sm/.test(name) || names.includes(name.replace(/md$/, 'json'));
  expect(reports.filter((name) => !isBacked(name))).toEqual([]);
});

describe('the check', () => {
  test.each([
    ['2.29', 'in 2.29 × of', true],
    ['2.29', '12.29 ×', false],
    ['2.29', '2.291', false],
    ['18', '18.2', false],
    ['6,960', '| 6,960 |', true],
    ['22', '1,22', false],
    ['22', 'it is 22.', true],
  ])('%s is in %p: %p', (figure, text, expected) => {
    expect(isIn(figure, text)).toBe(expected);
  });
});
