import { BatchSizes, type KindSizes } from '../../../lib/serve/batch_sizes';

/** From now on batches are as large as they can be, as if that had been measured to pay. Undone by `jest.restoreAllMocks`. */
export function joinAll(): void {
  jest.spyOn(BatchSizes.prototype, 'of').mockImplementation((_, most) => {
    const choose = (waiting: number) => 2 ** Math.floor(Math.log2(Math.min(waiting, most)));
    return { choose, ran: () => {}, refused: () => {} } as unknown as KindSizes;
  });
}
