/**
 * Limits of what guests and launchers may put into a VMI: everything of theirs together stays far below the 1.5 MiB that etcd
 * takes, so no VMI becomes unwritable by its own guest.
 */
export const bounds = {
  /** Of a condition's message; its reason is far shorter. */
  messageBytes: 8 * 1024,
  reasonBytes: 1024,
  /** Of a name or version that the guest reports. */
  guestTextBytes: 256,
  /** Domain interfaces; a VMI has at most 256 networks. */
  interfaces: 256,
  /** Addresses of one interface. */
  addresses: 64,
} as const;

const cut = '…';

/** At most `maxBytes` of UTF-8, cut between characters and marked as cut. */
export function clip(text: string, maxBytes: number): string {
  // Three bytes per UTF-16 unit at most: short texts need no counting.
  if (text.length * 3 <= maxBytes) return text;
  const bytes = Buffer.from(text.slice(0, maxBytes + 1));
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes - Buffer.byteLength(cut);
  // A byte 10xxxxxx continues a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end).toString() + cut;
}
