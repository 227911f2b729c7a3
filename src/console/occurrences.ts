/**
 * Where `pattern` occurs in `text` from `from` on, ascending: first the whole of it, then at the text's end as much of it as there is room for, at least a byte.
 * After Knuth, Morris and Pratt: a guest chooses both, and neither may make this take longer than one look at each byte.
 */
export function occurrences(pattern: ArrayLike<number>, text: ArrayLike<number>, from: number): number[] {
  const failure = new Int32Array(pattern.length + 1).fill(-1, 0, 1);
  /** How much of the pattern has been matched with one byte more. */
  const matchedWith = (byte: number | undefined, before: number): number => {
    let matched = before;
    while (matched >= 0 && pattern[matched] !== byte) matched = failure[matched] ?? -1;
    return matched + 1;
  };
  // By the length matched: the longest shorter one that ends there, too.
  for (let end = 1; end < pattern.length; end++) failure[end + 1] = matchedWith(pattern[end], failure[end] ?? 0);

  const found: number[] = [];
  let matched = 0;
  for (let at = from; at < text.length; at++) {
    matched = matchedWith(text[at], matched);
    if (matched === pattern.length) found.push(at + 1 - matched);
  }
  for (; matched > 0; matched = failure[matched] ?? 0) {
    if (matched < pattern.length) found.push(text.length - matched);
  }
  return found;
}
