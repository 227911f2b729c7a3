const named: Readonly<Record<string, string>> = {
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '\\': '\\\\',
  '"': '\\"',
};
const printable = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

/** Text as Go's `%q` writes it: other programs read messages that hold it (spec 20 §7). */
export function goQuote(text: string): string {
  let quoted = '"';
  for (const char of text) quoted += named[char] ?? (printable.test(char) ? char : escaped(char.codePointAt(0) ?? 0));
  return `${quoted}"`;
}

function escaped(code: number): string {
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, '0')}`;
  // Go has no lone surrogates: it would have read U+FFFD.
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}
