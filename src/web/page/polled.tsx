import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { schedule } from './backoff.ts';
import { Failure, Guard, Waiting } from './elements.tsx';

const everyMs = 3_000;

type Answer<T> =
  | { readonly kind: 'none' }
  | { readonly kind: 'known'; readonly value: T }
  | { readonly kind: 'failed'; readonly error: unknown };

/** What is asked again every few seconds as long as the page is seen. */
export class Poll<T> {
  readonly answer = signal<Answer<T>>({ kind: 'none' });
  readonly #ask: (signal: AbortSignal) => Promise<T>;
  readonly #mayAsk: () => boolean;
  readonly #ending = new AbortController();
  #cancelNext: (() => void) | undefined;
  #isAsking = false;
  #isStale = false;

  constructor(ask: (signal: AbortSignal) => Promise<T>, mayAsk: () => boolean = () => true) {
    this.#ask = ask;
    this.#mayAsk = mayAsk;
  }

  /** Asks at once, unless that is under way. */
  async now(): Promise<void> {
    if (this.#isAsking) return;
    this.#cancelNext?.();
    this.#isAsking = true;
    this.#isStale = false;
    const { signal } = this.#ending;
    try {
      if (!document.hidden && this.#mayAsk()) this.answer.value = { kind: 'known', value: await this.#ask(signal) };
    } catch (error) {
      if (!signal.aborted) this.answer.value = { kind: 'failed', error };
    } finally {
      this.#isAsking = false;
      if (!signal.aborted) this.#cancelNext = schedule(this.#isStale ? 0 : everyMs, () => void this.now());
    }
  }

  /** For another question than the one that is under way. */
  async again(): Promise<void> {
    this.#isStale = true;
    await this.now();
  }

  close(): void {
    this.#cancelNext?.();
    this.#ending.abort();
  }
}

interface PolledProps<T> {
  readonly poll: Poll<T>;
  readonly failureText: (error: unknown) => string;
  readonly children: (value: T) => ComponentChildren;
}

/** The newest answer of the agent, or why there is none. */
export function Polled<T>({ poll, failureText, children }: PolledProps<T>) {
  const answer = poll.answer.value;
  switch (answer.kind) {
    case 'none':
      return <Waiting>Asking…</Waiting>;
    case 'failed':
      return <Failure>{failureText(answer.error)}</Failure>;
    case 'known':
      return <Guard instead={(error) => <Failure>{failureText(error)}</Failure>}>{children(answer.value)}</Guard>;
  }
}
