/** The page of examples/digits in a browser, drawn on as its visitors do. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

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
  let page: Page;
  /** What no visitor should cause: errors on the console, requests to elsewhere. */
  let complaints: string[];

  beforeAll(async () => {
    [browser, server] = await Promise.all([launchChromium(), start()]);
    page = await newPage();
  });
  afterAll(async () => {
    await browser.close();
    await server.stop();
  });

  async function newPage(options?: BrowserContextOptions): Promise<Page> {
    const opened = await browser.newPage(options);
    opened.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    opened.on('pageerror', (error) => complaints.push(String(error)));
    opened.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== server.url && protocol !== 'data:') complaints.push(request.url());
    });
    return opened;
  }

  async function visit(visited = page): Promise<void> {
    complaints = [];
    await visited.goto(server.url);
  }

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
    const phone = await newPage({ hasTouch: true, isMobile: true, viewport: { width: 360, height: 740 } });
    await visit(phone);
    const session = await phone.context().newCDPSession(phone);
    const send = (type: 'touchStart' | 'touchMove' | 'touchEnd', ...points: Stroke) =>
      session.send('Input.dispatchTouchEvent', { type, touchPoints: points.map(([x, y]) => ({ x, y })) });
    for (const [first, ...others] of await placed(phone, DRAWN_DIGITS[5]!, MIDDLE)) {
      await Promise.all([
        send('touchStart', first!),
        ...others.map((point) => send('touchMove', point)),
        send('touchEnd'),
      ]);
    }
    expect(await settledDigit(phone)).toBe('5');
    expect(await phone.evaluate('scrollY')).toBe(0);
    expect(complaints).toEqual([]);
    await phone.close();
  });

  test('takes a pen', async () => {
    await visit();
    await drawWithMouse(page, DRAWN_DIGITS[4]!, MIDDLE, 'pen');
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

  describe('on a phone', () => {
    const boxOf = async (selector: string) => (await page.locator(selector).boundingBox())!;
    const isScrollable = () =>
      page.evaluate(
        'document.documentElement.scrollHeight > innerHeight || document.documentElement.scrollWidth > innerWidth',
      );

    afterAll(() => page.setViewportSize({ width: 1280, height: 720 }));

    test.each(['light', 'dark'] as const)('fits, in %s', async (colorScheme) => {
      await page.setViewportSize({ width: 360, height: 740 });
      await page.emulateMedia({ colorScheme });
      await visit();
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
      const button = await boxOf('#clear');
      expect(button.y + button.height).toBeLessThan(740);
      const background = await page.evaluate('getComputedStyle(document.body).backgroundColor');
      const [red] = /\d+/.exec(String(background))!.map(Number);
      expect(red! > 127).toBe(colorScheme === 'light');
    });

    test.each([
      [844, 390],
      [667, 375],
      [915, 412],
      [568, 320],
    ])('fits sideways in %d x %d, with the pad large and the bars beside it', async (width, height) => {
      await page.setViewportSize({ width, height });
      await visit();
      await drawWithMouse(page, DRAWN_DIGITS[7]!, MIDDLE);
      expect(await settledDigit(page)).toBe('7');
      expect(await isScrollable()).toBe(false);
      const pad = await boxOf('#pad');
      expect(pad.width).toBe(pad.height);
      expect(pad.height).toBeGreaterThan(0.9 * height);
      for (const selector of ['#digit', '#seen', '#bars', '#clear', '#device', '#times']) {
        const box = await boxOf(selector);
        expect(box.x).toBeGreaterThan(pad.x + pad.width);
        expect(box.x + box.width).toBeLessThanOrEqual(width);
        expect(box.y + box.height).toBeLessThanOrEqual(height);
      }
    });
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
