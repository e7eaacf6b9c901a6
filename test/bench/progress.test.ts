import { Progress } from '../../bench/progress';

/** A progress by a clock that the test moves. */
function progressOn(isTTY: boolean) {
  let [written, milliseconds] = ['', 0];
  const screen = { isTTY, write: (text: string) => (written += text) };
  const progress = new Progress('bench', 4, 'layers', screen, () => milliseconds);
  const after = (seconds: number) => {
    milliseconds += 1000 * seconds;
    return progress;
  };
  return { after, take: () => [written, (written = '')][0]! };
}

describe('the progress of a bench', () => {
  it('is one line on a terminal, with the time left', () => {
    const { after, take } = progressOn(true);
    after(5).show(1);
    expect(take()).toBe(`\r\x1b[Kbench ${'█'.repeat(8)}${'░'.repeat(22)} 1 of 4 layers, 15 s left`);
    after(5).show(2, 0.1);
    expect(take()).toContain(' 2 of 4 layers, 90 s left');
    after(0).note('bench: without oneDNN');
    expect(take()).toBe('\r\x1b[Kbench: without oneDNN\n');
    after(110).show(4);
    expect(take()).toBe(`\r\x1b[Kbench ${'█'.repeat(30)} 4 of 4 layers, 2 min\n`);
    after(1).show(4);
    expect(take()).toBe('');
  });

  it('is a line every ten seconds elsewhere, and one at the end', () => {
    const { after, take } = progressOn(false);
    after(9).show(1);
    expect(take()).toBe('');
    after(3).show(2);
    expect(take()).toBe('bench 2 of 4 layers, 12 s left\n');
    after(1).show(3);
    expect(take()).toBe('');
    after(0).note('bench: without oneDNN');
    after(1).show(4);
    expect(take()).toBe('bench: without oneDNN\nbench 4 of 4 layers, 14 s\n');
  });

  it('says no time before anything is done', () => {
    const { after, take } = progressOn(false);
    after(20).show(0);
    expect(take()).toBe('bench 0 of 4 layers\n');
  });
});
