/** An error with a code that callers may switch on. Each area declares its own code union and subclass. */
export class CodedError<Code extends string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** The text of anything that was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The `code` of a thrown value (`ENOENT`, a CodedError's code), or undefined. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Gives `value` back, or throws what `describe` says is missing. */
export function required<T>(value: T | null | undefined, describe: string): T {
  if (value === null || value === undefined) throw new Error(`missing: ${describe}`);
  return value;
}

/** Compile-time proof that a switch is exhaustive. */
export function unreachable(value: never): never {
  throw new Error(`unexpected value: ${JSON.stringify(value)}`);
}
