/** The page of examples/digits in a browser, drawn on as its visitors do. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';

import { describeBrowser, launchChromium } from '../support/browser';
import {
  DRAWN_DIGITS,
  drawWithMouse,
  placed,
  settledDigit,
  type Placement,
  type Stroke,
} from '../support/drawn_digits';
import { startExample, type RunningExample } from './support';

const PLACEMENTS: Readonly<Record<string, Placement>> = {
  'large, in the middle': { left: 0.25, top: 0.1, width: 0.5, height: 0.8 },
  'small, at the top left': { left: 0.05, top: 0.05, width: 0.17, height: 0.25 },
  'narrow, at the right': { left: 0.7, top: 0.3, width: 0.25, height: 0.5 },
  'wide, at the bottom': { left: 0.2, top: 0.45, width: 0.5, height: 0.5 },
};
const MIDDLE = PLACEMENTS['large, in the middle']!;

const start = (port: number | string = 0) =>
  startExample(['-r', 'ts-node/register', 'examples/digits/server.ts'], port);

describeBrowser('the page of the digits', () => {
  let browser: Browser;
  let server: RunningExample;
  let context: BrowserContext;
  let page: Page;
  /** What no visitor should cause: errors on the console, requests to elsewhere. */
  let complaints: string[];

  beforeAll(async () => {
    [browser, server] = await Promise.all([launchChromium(), start()]);
  });
  afterAll(async () => {
    await browser.close();
    await server.stop();
  });

  async function visit(options?: BrowserContextOptions): Promise<void> {
    context = await browser.newContext(options);
    page = await context.newPage();
    complaints = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== server.url && protocol !== 'data:') complaints.push(request.url());
    });
    await page.goto(server.url);
  }
  afterEach(() => context.close());

  /** The width of each bar, as a part of the widest there may be. */
  async function bars(): Promise<number[]> {
    const widths = async (elements: string) => {
      const boxes = (await page.locator(elements).all()).map((element) => element.boundingBox());
      return (await Promise.all(boxes)).map((box) => box!.width);
    };
    const tracks = await widths('.track');
    return (await widths('.bar')).map((width, index) => width / tracks[index]!);
  }

  /** How much has been drawn on the drawing area, over all of its pixels. */
  const inkOnPad = () =>
    page.evaluate<number>(`
      const { width, height } = document.getElementById('pad');
      const { data } = document.getElementById('pad').getContext('2d').getImageData(0, 0, width, height);
      data.reduce((sum, value, index) => (index % 4 === 3 ? sum + value : sum), 0)`);

  describe('drawn on with the mouse', () => {
    test.each(Object.entries(PLACEMENTS))('recognises every digit %s', async (_, placement) => {
      await visit();
      const recognised: string[] = [];
      for (const strokes of DRAWN_DIGITS) {
        await drawWithMouse(page, strokes, placement);
        recognised.push(await settledDigit(page));
        await page.getByRole('button', { name: 'Clear' }).click();
      }
      expect(recognised).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
      expect(complaints).toEqual([]);
    });

    test('shows probabilities, the device and times', async () => {
      await visit();
      await drawWithMouse(page, DRAWN_DIGITS[3]!, MIDDLE);
      expect(await settledDigit(page)).toBe('3');
      const widths = await bars();
      expect(widths).toHaveLength(10);
      expect(widths.reduce((sum, width) => sum + width)).toBeCloseTo(1, 2);
      expect(widths.indexOf(Math.max(...widths))).toBe(3);
      const percents = await page.locator('.percent').allInnerTexts();
      expect(percents.map(parseFloat).reduce((sum, percent) => sum + percent)).toBeCloseTo(100, 0);
      expect(await page.locator('#device').innerText()).toMatch(/^Computed by warpconv on (cpu|cuda:\d): /);
      expect(await page.locator('#times').innerText()).toMatch(
        /^[\d.]+ ms computing, [\d.]+ ms there and back$/,
      );
      expect(complaints).toEqual([]);
    });

    test('predicts while the pen is down', async () => {
      await visit();
      const [points] = await placed(page, [DRAWN_DIGITS[0]![0]!], MIDDLE);
      await page.mouse.move(...points![0]!);
      await page.mouse.down();
      for (const point of points!.slice(1)) await page.mouse.move(...point);
      expect(await settledDigit(page)).toBe('0');
      await page.mouse.up();
    });

    test.each([
      ['the button', () => page.getByRole('button', { name: 'Clear' }).click()],
      ['Escape', () => page.keyboard.press('Escape')],
    ])('forgets everything at %s', async (_, clear) => {
      await visit();
      await drawWithMouse(page, DRAWN_DIGITS[8]!, MIDDLE);
      expect(await settledDigit(page)).toBe('8');
      expect(await inkOnPad()).toBeGreaterThan(0);
      await clear();
      expect(await settledDigit(page)).toBe('–');
      expect(await bars()).toEqual(new Array(10).fill(0));
      expect(await inkOnPad()).toBe(0);
      await drawWithMouse(page, DRAWN_DIGITS[1]!, MIDDLE);
      expect(await settledDigit(page)).toBe('1');
    });
  });

  test('takes fingers', async () => {
    await visit({ hasTouch: true, isMobile: true, viewport: { width: 360, height: 740 } });
    const session = await context.newCDPSession(page);
    const send = (type: 'touchStart' | 'touchMove' | 'touchEnd', touchPoints: { x: number; y: number }[]) =>
      session.send('Input.dispatchTouchEvent', { type, touchPoints });
    for (const [first, ...others] of await placed(page, DRAWN_DIGITS[5]!, MIDDLE)) {
      await send('touchStart', [pointOf(first!)]);
      for (const point of others) await send('touchMove', [pointOf(point)]);
      await send('touchEnd', []);
    }
    expect(await settledDigit(page)).toBe('5');
    expect(await page.evaluate('scrollY')).toBe(0);
    expect(complaints).toEqual([]);
  });

  test('takes a pen', async () => {
    await visit();
    const session = await context.newCDPSession(page);
    const send = (type: 'mousePressed' | 'mouseMoved' | 'mouseReleased', point: Stroke[number]) => {
      const pen = { pointerType: 'pen', button: 'left', buttons: type === 'mouseReleased' ? 0 : 1 } as const;
      return session.send('Input.dispatchMouseEvent', { type, ...pointOf(point), ...pen });
    };
    for (const stroke of await placed(page, DRAWN_DIGITS[4]!, MIDDLE)) {
      await send('mousePressed', stroke[0]!);
      for (const point of stroke) await send('mouseMoved', point);
      await send('mouseReleased', stroke.at(-1)!);
    }
    expect(await settledDigit(page)).toBe('4');
  });

  test('takes keys alone', async () => {
    await visit();
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.id')).toBe('pad');
    await page.keyboard.press(' ');
    for (let step = 0; step < 15; step++) await page.keyboard.press('ArrowDown');
    await page.keyboard.press(' ');
    await page.keyboard.press('ArrowLeft');
    expect(await settledDigit(page)).toBe('1');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(await settledDigit(page)).toBe('–');
  });

  test.each(['light', 'dark'] as const)('fits a phone, in %s', async (colorScheme) => {
    await visit({ colorScheme, viewport: { width: 360, height: 740 } });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
    const button = (await page.getByRole('button').boundingBox())!;
    expect(button.y + button.height).toBeLessThan(740);
    const background = await page.evaluate('getComputedStyle(document.body).backgroundColor');
    const [red] = /\d+/.exec(String(background))!.map(Number);
    expect(red! > 127).toBe(colorScheme === 'light');
  });

  test('waits for a server that has gone, and goes on when it is back', async () => {
    await visit();
    await drawWithMouse(page, DRAWN_DIGITS[2]!, MIDDLE);
    expect(await settledDigit(page)).toBe('2');
    expect(await server.stop()).toEqual([0, null]);
    await page.keyboard.press('Escape');
    await drawWithMouse(page, DRAWN_DIGITS[6]!, MIDDLE);
    const trouble = page.getByRole('alert');
    await trouble.filter({ hasText: 'The server does not answer' }).waitFor();
    const { port } = new URL(server.url);
    server = await start(port);
    expect(new URL(server.url).port).toBe(port);
    expect(await settledDigit(page)).toBe('6');
    expect(await trouble.innerText()).toBe('');
  });
});

function pointOf([x, y]: Stroke[number]): { x: number; y: number } {
  return { x, y };
}
