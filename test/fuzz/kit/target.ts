import type fc from 'fast-check';

/** Whether the input got inside the parser, or was refused in the parser's own way. */
export type Verdict = 'accepted' | 'refused';

/** A parser that reads what others wrote, and what may be asked of it. */
export interface Target<T> {
  /** Foreign input: mostly changed samples, so that a good part of it gets past the first checks. */
  readonly input: fc.Arbitrary<T>;
  /** Feeds the parser. Whatever it throws is a finding: the refusals that the parser promises are caught in here. */
  readonly parse: (value: NoInfer<T>) => Verdict | Promise<Verdict>;
  /** Inputs that once were findings; they run first, each time. */
  readonly known?: readonly NoInfer<T>[];
  /** Inputs of about so many bytes; the time they take may grow with their size, not with its square. */
  readonly growing?: Readonly<Record<string, (bytes: number) => NoInfer<T>>>;
  /** Largest of the growing inputs, in bytes; 1 MiB unless given. */
  readonly growingTo?: number;
  /** Least share of accepted inputs, in percent; 2 unless given. */
  readonly acceptedPercent?: number;
  /** It takes everything: there is nothing to refuse. */
  readonly refusesNothing?: boolean;
  /** Most that one input may use of the processor, in milliseconds. */
  readonly hangMs?: number;
}

/** `work` done is an accepted input, and what `isRefusal` knows a refused one; anything else is thrown on. */
export function judged(isRefusal: (error: unknown) => boolean, work: () => void): Verdict {
  try {
    work();
    return 'accepted';
  } catch (error) {
    if (isRefusal(error)) return 'refused';
    throw error;
  }
}

/** As `judged`, for work that takes turns of the event loop. */
export async function judgedLater(isRefusal: (error: unknown) => boolean, work: () => Promise<void>): Promise<Verdict> {
  try {
    await work();
    return 'accepted';
  } catch (error) {
    if (isRefusal(error)) return 'refused';
    throw error;
  }
}
