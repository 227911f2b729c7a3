/** Looks at values that came from outside as JSON, without believing anything of their shape. */

/** An object with named members: no list, no null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The member at the end of `path`; undefined where there is none, or null. */
export function memberAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((holder, name) => (isRecord(holder) ? holder[name] : undefined), value) ?? undefined;
}

/** The list that it is, or none. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** At most `limit` characters, marked as cut. */
export function shortened(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}
