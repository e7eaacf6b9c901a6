/** Links of the pages. npm shows README.md with the files of the repository, which package.json names. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';

import { PAGES, ROOT, textOf } from './markdown';

const FILES = new Set(
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
    .trim()
    .split('\n'),
);
const isThere = (file: string) => FILES.has(file) || [...FILES].some((name) => name.startsWith(`${file}/`));

/** Without code, where brackets mean something else. */
const proseOf = (page: string) =>
  textOf(page)
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .replaceAll(/`[^`\n]*`/g, 'code');

/** `## A title, of *two*` is `a-title-of-two` for GitHub. */
function anchorsOf(page: string): string[] {
  const headings = textOf(page).matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

const links = PAGES.flatMap((page) =>
  [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => [page, target!] as const)
    .filter(([, target]) => !/^https?:/.test(target)),
);

test.each(links)('%s: %s', (page, target) => {
  const [file, anchor] = target.split('#') as [string, string?];
  const linked = file === '' ? page : path.posix.join(path.posix.dirname(page), file);
  expect(isThere(linked.replace(/\/$/, ''))).toBe(true);
  if (anchor !== undefined) expect(anchorsOf(linked)).toContain(anchor);
});

test('there are links', () => {
  expect(links.length).toBeGreaterThan(50);
});

test('package.json says where the repository is', () => {
  const { repository, homepage, bugs, author } = JSON.parse(textOf('package.json')) as Record<
    string,
    unknown
  >;
  const { url } = repository as { url: string };
  const site = /^git\+(https:\/\/github\.com\/[\w-]+\/[\w-]+)\.git$/.exec(url)![1]!;
  expect([homepage, bugs]).toEqual([`${site}#readme`, `${site}/issues`]);
  expect(author).toBe('The warpconv authors');
});
