import { ApiError } from '../errors.ts';

export interface PlaceLimits {
  /** What is counted, in the plural: `requests under way`. */
  readonly what: string;
  readonly perUser: number;
  readonly inAll: number;
}

/** Counts what each user has of something, so that nobody takes it from the others. */
export class Places {
  readonly #limits: PlaceLimits;
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(limits: PlaceLimits) {
    this.#limits = limits;
  }

  /** Takes `count` of them; the returned function gives them back, once. Throws ApiError TOO_MANY_REQUESTS. */
  take(user: string, count = 1): () => void {
    const { perUser, inAll } = this.#limits;
    const held = this.#held.get(user) ?? 0;
    if (held + count > perUser) throw this.#refusal(`user "${user}" may have ${perUser}`);
    if (this.#all + count > inAll) throw this.#refusal(`all users together may have ${inAll}`);
    this.#change(user, count);
    let isHeld = true;
    return () => {
      if (isHeld) this.#change(user, -count);
      isHeld = false;
    };
  }

  #change(user: string, by: number): void {
    this.#all += by;
    const held = (this.#held.get(user) ?? 0) + by;
    if (held > 0) this.#held.set(user, held);
    else this.#held.delete(user);
  }

  #refusal(limit: string): ApiError {
    const text = `Too many requests, please try again later: ${limit} ${this.#limits.what}`;
    return new ApiError('TOO_MANY_REQUESTS', text, { details: { retryAfterSeconds: 1 } });
  }
}
