import { existsSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { chromium, type Browser } from 'playwright-core';

import { describeUnless } from './skip';

const COMMANDS = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** A Chromium of this machine: that of CHROME_PATH, one on the PATH, or one that Playwright has installed. */
function findChromium(): string | undefined {
  if (process.env.CHROME_PATH) return process.env.CHROME_PATH;
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(Boolean);
  const onPath = COMMANDS.flatMap((command) => folders.map((folder) => path.join(folder, command)));
  return [...onPath, ...playwrightChromiums()].find((file) => existsSync(file));
}

function playwrightChromiums(): string[] {
  const cache = process.env.PLAYWRIGHT_BROWSERS_PATH ?? path.join(os.homedir(), '.cache/ms-playwright');
  if (!existsSync(cache)) return [];
  const versions = readdirSync(cache).filter((name) => name.startsWith('chromium-'));
  return versions.flatMap((name) =>
    ['chrome-linux64', 'chrome-linux'].map((build) => path.join(cache, name, build, 'chrome')),
  );
}

/** Tests that need a browser; skipped, saying why, where there is none. */
export function describeBrowser(name: string, body: () => void): void {
  const isThere = findChromium() !== undefined;
  describeUnless(isThere ? undefined : 'no Chromium on the PATH, nor named by CHROME_PATH', name, body);
}

export function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium() });
}
