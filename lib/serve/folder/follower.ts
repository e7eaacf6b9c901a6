import type { Model } from '../model';

/** What serves the models of a folder, which come and go. */
export interface ModelFollower {
  /** Serves a model in place of the one that had its name, at once in this thread. Resolves when all threads do. */
  serve(model: Model): Promise<void>;
  /** Serves a model no longer. Resolves when no thread does. */
  remove(model: Model): Promise<void>;
  /** Resolves when no request uses a model any more that was replaced or removed. */
  gone(model: Model): Promise<void>;
}
