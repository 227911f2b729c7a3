type Token = 'many' | ((letter: string) => boolean);

/**
 * Whether a pattern of Go's `filepath.Match` describes the whole text: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before a letter that
 * means itself. A pattern that is none describes nothing.
 */
export function matchesPattern(pattern: string, text: string): boolean {
  const tokens = tokensOf(pattern);
  if (!tokens) return false;
  /** Numbers of tokens that may be next; after `many` also the one behind it. */
  const reached = (places: readonly number[]) => {
    const all = new Set(places);
    for (const place of all) if (tokens[place] === 'many') all.add(place + 1);
    return all;
  };
  let places = reached([0]);
  for (const letter of text) {
    const next = [...places].flatMap((place) => {
      const token = tokens[place];
      if (token === 'many') return letter === '/' ? [] : [place];
      return token?.(letter) ? [place + 1] : [];
    });
    places = reached(next);
  }
  return places.has(tokens.length);
}

function tokensOf(pattern: string): Token[] | undefined {
  const letters = [...pattern];
  const tokens: Token[] = [];
  for (let letter = letters.shift(); letter !== undefined; letter = letters.shift()) {
    const token = tokenOf(letter, letters);
    if (!token) return undefined;
    tokens.push(token);
  }
  return tokens;
}

function tokenOf(first: string, rest: string[]): Token | undefined {
  if (first === '*') return 'many';
  if (first === '?') return (letter) => letter !== '/';
  if (first === '[') return classOf(rest);
  const wanted = first === '\\' ? rest.shift() : first;
  return wanted === undefined ? undefined : (letter) => letter === wanted;
}

function classOf(rest: string[]): Token | undefined {
  const isNegated = rest[0] === '^';
  if (isNegated) rest.shift();
  const ranges: { low: string; high: string }[] = [];
  while (rest[0] !== ']' || ranges.length === 0) {
    const low = memberOf(rest);
    const isRange = rest[0] === '-';
    if (isRange) rest.shift();
    const high = isRange ? memberOf(rest) : low;
    if (low === undefined || high === undefined) return undefined;
    ranges.push({ low, high });
  }
  rest.shift();
  return (letter) => ranges.some(({ low, high }) => low <= letter && letter <= high) !== isNegated;
}

function memberOf(rest: string[]): string | undefined {
  const first = rest.shift();
  if (first === '-' || first === ']') return undefined;
  return first === '\\' ? rest.shift() : first;
}
