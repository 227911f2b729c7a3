/** Reading JSON of which nobody knows whether it is what it should be. */

export type Fields = Readonly<Record<string, unknown>>;

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

export function listOfFields(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

/** Empty for what is no text and no number. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '';
}
