/** Deeper than any object of an API is; what is nested deeper, by whoever's wish, is left as it is. */
const deepest = 64;

/**
 * JSON values that are kept beside each other are alike in most parts: in `value` each part that equals the part of `like` at the same place becomes that
 * very part, so that it is kept once. Changes `value` in place; neither may be changed afterwards. Returns `like` where all is equal.
 */
export function shareParts<T>(value: T, like: unknown, depth = 0): T {
  // Equal texts, too, are two until one takes the place of the other.
  if (value === like) return like as T;
  if (!isHolder(value) || !isHolder(like) || depth > deepest) return value;
  if (Array.isArray(value) !== Array.isArray(like)) return value;
  return sharePartsOf(value, like, depth) ? (like as T) : value;
}

/** True: all of them are shared. */
function sharePartsOf(value: Record<string, unknown>, like: Record<string, unknown>, depth: number): boolean {
  const names = Object.keys(value);
  let isSame = names.length === Object.keys(like).length;
  for (const name of names) {
    const own = value[name];
    // Assigned, this one would be no member.
    const other = name !== '__proto__' && Object.hasOwn(like, name) ? like[name] : undefined;
    const shared = other === undefined ? own : shareParts(own, other, depth + 1);
    if (shared !== own || (shared === other && typeof own === 'string')) value[name] = shared;
    isSame &&= other !== undefined && shared === other;
  }
  return isSame;
}

function isHolder(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
