const escapes: Readonly<Record<string, string>> = {
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

/** Text as Go's `%q` writes it: other programs read messages that hold it (conditions, events). */
export function goQuote(text: string): string {
  let quoted = '"';
  for (const char of text) quoted += escapes[char] ?? (printable.test(char) ? char : escaped(char.codePointAt(0) ?? 0));
  return `${quoted}"`;
}

function escaped(code: number): string {
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, '0')}`;
  // Go has no lone surrogates: it would have read U+FFFD.
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

const plain = new Map(Object.entries(escapes).map(([char, sequence]) => [sequence, char]));

/** The text that was written so; undefined: it is not what `%q` writes. */
export function goUnquote(quoted: string): string | undefined {
  if (!/^"(?:[^"\\]|\\.)*"$/s.test(quoted)) return undefined;
  return quoted
    .slice(1, -1)
    .replace(
      /\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)/gs,
      (sequence) => plain.get(sequence) ?? ofCode(sequence),
    );
}

/** Of a byte that is no character in Go's eyes, and of what no escape of its is, U+FFFD. */
function ofCode(sequence: string): string {
  const code = Number.parseInt(sequence.slice(2), 16);
  const isByte = sequence.startsWith('\\x') && code >= 0x80;
  return Number.isNaN(code) || isByte || code > 0x10ffff ? '\ufffd' : String.fromCodePoint(code);
}
