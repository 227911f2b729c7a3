import { plainText } from '../../../base/index.ts';

/** Of one value of a label that a guest, a launcher or a user chose. */
export const valueLength = 128;

/**
 * Words of guests, launchers and users as a label's value: of bounded length, without codes for the terminals of those who read
 * an answer by eye, and valid as UTF-8: two broken halves of a character would become one series twice. Anything but a string
 * is no word.
 */
export function outsideText(value: unknown): string {
  if (typeof value !== 'string') return '';
  // A line break is escaped by the format.
  return value.slice(0, valueLength).split('\n').map(plainText).join('\n');
}
