/** Of one value of a label that a guest, a launcher or a user chose. */
export const valueLength = 128;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for; a line break is escaped by the format.
const unwanted = /[\0-\t\v-\x1f\x7f-\x9f]/g;

/**
 * Words of guests, launchers and users as a label's value: of bounded length, without codes for the terminals of those who read
 * an answer by eye, and valid as UTF-8: two broken halves of a character would become one series twice. Anything but a string
 * is no word.
 */
export function outsideText(value: unknown): string {
  if (typeof value !== 'string') return '';
  return Buffer.from(value.slice(0, valueLength)).toString().replace(unwanted, '\ufffd');
}
