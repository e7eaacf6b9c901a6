/**
 * Takes the picture of the page of examples/digits that is in README.md.
 *
 *     npx ts-node scripts/screenshot.ts    needs Chromium: on the PATH, or named by CHROME_PATH
 */
import path from 'node:path';

import { startExample } from '../test/examples/support';
import { launchChromium } from '../test/support/browser';
import { DRAWN_DIGITS, drawWithMouse, settledDigit } from '../test/support/drawn_digits';

const PICTURE = path.join(__dirname, '../docs/images/digits.png');

async function main(): Promise<void> {
  const server = await startExample(['-r', 'ts-node/register', 'examples/digits/server.ts'], 0);
  const browser = await launchChromium();
  try {
    const page = await browser.newPage({ viewport: { width: 760, height: 570 } });
    await page.goto(server.url);
    // The first drawing warms everything up, so that the times of the second are what they usually are.
    for (const digit of [2, 5]) {
      await page.getByRole('button', { name: 'Clear' }).click();
      await drawWithMouse(page, DRAWN_DIGITS[digit]!, { left: 0.3, top: 0.15, width: 0.4, height: 0.7 });
      await settledDigit(page);
    }
    await page.screenshot({ path: PICTURE });
  } finally {
    await browser.close();
    await server.stop();
  }
}

void main();
