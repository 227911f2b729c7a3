/** `whole`: as if it had not been asked for; `none`: nothing of it is there. */
export type ByteRange =
  | { readonly kind: 'whole' }
  | { readonly kind: 'part'; readonly first: number; readonly last: number }
  | { readonly kind: 'none' };

/** Of a `Range` header. Several ranges at once, and what is none, are answered with all of it, as RFC 9110 allows. */
export function byteRangeOf(header: string | undefined, size: number): ByteRange {
  const found = /^bytes=(\d{0,16})-(\d{0,16})$/.exec(header ?? '');
  const [, from = '', to = ''] = found ?? [];
  if (!found || (from === '' && to === '')) return { kind: 'whole' };
  // The last so many bytes.
  const first = from === '' ? Math.max(0, size - Number(to)) : Number(from);
  const last = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (from !== '' && to !== '' && Number(to) < Number(from)) return { kind: 'whole' };
  return first > last || size === 0 ? { kind: 'none' } : { kind: 'part', first, last };
}
