/** Looks at values that came from outside as JSON, without believing anything of their shape. */

/** An object with named members: no list, no null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object that a text is as JSON; undefined: it is no JSON, or no object. */
export function jsonRecord(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The member at the end of `path`; undefined where there is none, or null. */
export function memberAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((holder, name) => (isRecord(holder) ? holder[name] : undefined), value) ?? undefined;
}

/** The text at the end of `path`; undefined where there is none, or an empty one. */
export function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const text = memberAt(value, ...path);
  return typeof text === 'string' && text !== '' ? text : undefined;
}

/** The list that it is, or none. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** At most `limit` characters, marked as cut. */
export function shortened(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}

/**
 * What makes a parsed value dangerous to go on with; undefined: nothing. Depth is bounded so that no later recursion overflows;
 * `__proto__` would reach into the program's own objects.
 */
export function whyUnsafe(root: unknown, maxDepth: number): string | undefined {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return `the body is nested deeper than ${maxDepth} levels`;
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) return 'a member may not be called "__proto__"';
      for (const member of Object.values(value)) next.push(member);
    }
    level = next;
  }
  return undefined;
}
