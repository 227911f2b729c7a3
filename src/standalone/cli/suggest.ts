/** How many letters must be changed, added, left out or exchanged with their neighbour. */
function distance(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1];
      let least = Math.min((last[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (isSwapped) least = Math.min(least, (before[j - 2] ?? 0) + 1);
      next.push(least);
    }
    before = last;
    last = next;
  }
  return last[other.length] ?? 0;
}

/** Words longer than any name are not compared: it takes time by the square of their length. */
const longest = 253;

/** The one of `known` that was probably meant: one letter is wrong, it goes on after what was written, or up to a third is wrong. */
export function nearest(written: string, known: readonly string[]): string | undefined {
  if (written === '' || written.length > longest) return undefined;
  const rated = known
    .filter((word) => word !== '' && word.length <= longest)
    .map((word) => ({ word, off: distance(written.toLowerCase(), word.toLowerCase()) }))
    .sort((a, b) => a.off - b.off);
  const [best] = rated;
  if (!best || best.off <= 1) return best?.word;
  const longer = written.length > 1 ? known.find((word) => word.startsWith(written)) : undefined;
  return longer ?? rated.find(({ word, off }) => off <= Math.floor(Math.max(word.length, written.length) / 3))?.word;
}

/** `: did you mean X?`, or nothing. */
export function didYouMean(written: string, known: readonly string[]): string {
  const word = nearest(written, known);
  return word === undefined ? '' : `: did you mean ${word}?`;
}
