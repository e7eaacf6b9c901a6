/** What is noted of a request while it is answered. */
import type { Answer } from './answer';
import type { ExchangeStart, Run, RunTimes, TraceContext } from './exchange_record';
import type { Refusal } from './refusal';
import type { Route } from './routes';

export class Exchange {
  route: Route | undefined;
  answer: Answer | undefined;
  refusal: Refusal | undefined;
  bytesIn: number | undefined;
  run: Run | undefined;
  readonly #began = performance.now();

  /**
   * @param start - where somebody is told of it
   * @param context - as {@link Watch.context}
   */
  constructor(
    readonly start: ExchangeStart | undefined,
    readonly context: TraceContext | undefined,
  ) {}

  get duration(): number {
    return performance.now() - this.#began;
  }

  ran({ waited, computed, requests, trace }: RunTimes): void {
    this.run = { waited, computed, requests, trace, ended: this.duration };
  }
}

/** Of a request that nobody is told of. */
export const unwatched = () => new Exchange(undefined, undefined);
