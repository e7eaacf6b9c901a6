/** The pages that people read, and what is in them. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

export const ROOT = path.resolve(__dirname, '../..');

/** README.md and the like, and those of folders, by their path in the repository. docs/api is made. */
export const PAGES = [
  ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'],
  ...['.changeset', 'docs', 'examples', 'deploy', 'lib', 'native', 'cuda', 'bench'].flatMap(pagesUnder),
];

function pagesUnder(folder: string): string[] {
  if (!statSync(path.join(ROOT, folder), { throwIfNoEntry: false })) return [];
  return readdirSync(path.join(ROOT, folder), { recursive: true })
    .map((name) => `${folder}/${String(name)}`)
    .filter((name) => name.endsWith('.md') && !/node_modules|docs\/api|results/.test(name));
}

export const textOf = (page: string) => readFileSync(path.join(ROOT, page), 'utf8');

export interface Block {
  readonly page: string;
  readonly line: number;
  readonly language: string;
  readonly code: string;
  /** The HTML comment right before it */
  readonly comment: string;
}

const BLOCK = /(?:<!--(?<comment>(?:(?!-->)[\s\S])*)-->\n+)?^```(?<language>\w+)\n(?<code>[\s\S]*?)^```$/gm;

/** The fenced blocks of a page that name their language. */
export function blocksOf(page: string): Block[] {
  const text = textOf(page);
  return [...text.matchAll(BLOCK)].map((match) => {
    const { comment = '', language, code } = match.groups as Record<string, string>;
    const start = match.index + match[0].indexOf('```');
    return { page, line: text.slice(0, start).split('\n').length, language: language!, code: code!, comment };
  });
}
