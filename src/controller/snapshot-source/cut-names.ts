const longestLabel = 63;

/** No longer than that, and without what no name may end with. */
export function cutName(name: string, longest: number): string {
  let end = Math.min(name.length, longest);
  while (end > 0 && !isLetterOrDigit(name[end - 1] ?? '')) end--;
  return name.slice(0, end);
}

/** A VM may have a longer name than a label can. */
export function labelValue(name = ''): string {
  return cutName(name, longestLabel);
}

function isLetterOrDigit(character: string): boolean {
  return /^[a-zA-Z0-9]$/.test(character);
}
