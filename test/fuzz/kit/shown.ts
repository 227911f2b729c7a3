import fc from 'fast-check';

/** An input as text. What is nested too deeply for fast-check to write is found again by its seed and path only. */
export function shown(input: unknown): string {
  try {
    return fc.stringify(input);
  } catch (error) {
    return `(cannot be written: ${error instanceof Error ? error.message : String(error)})`;
  }
}
