/** The first of them, and how many there are besides: for messages, of names that others choose. */
export function shownNames(names: readonly string[], most = 8): string {
  const more = names.length > most ? ` and ${names.length - most} more` : '';
  return `${names.slice(0, most).join(', ')}${more}`;
}
