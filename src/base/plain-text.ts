/**
 * Words of guests, launchers and users that programs and people will read: free of what moves a terminal's cursor, turns the
 * direction of writing, or cannot be seen or encoded. By Unicode's names: controls (C0, C1), bidi controls, line and paragraph
 * separators, zero width space, word joiner and other invisible operators, byte order mark, interlinear marks, tags, halves of
 * characters. Zero width (non-)joiners stay: words of several languages, and emoji, need them.
 */

const controls = '\\0-\\x1f\\x7f-\\x9f';
const bidi = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069';
const invisible = '\\xad\\u180e\\u200b\\u2028\\u2029\\u2060-\\u2065\\u206a-\\u206f\\ufeff\\ufff9-\\ufffb';
const tags = '\\udb40[\\udc00-\\udc7f]';
const halves = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]';

const unwanted = new RegExp(`[${controls}${bidi}${invisible}]|${tags}|${halves}`);
const allUnwanted = new RegExp(`[${controls}${bidi}${invisible}]|${tags}|${halves}`, 'g');

/** Line breaks and tabs become a space, all else U+FFFD, so that no reader takes the text for another one. Clean text is given back as it is. */
export function plainText(text: string): string {
  if (!unwanted.test(text)) return text;
  return text.replace(/\r\n?|[\n\t\v\f\u0085\u2028\u2029]/g, ' ').replace(allUnwanted, '\ufffd');
}

/**
 * JSON that holds nothing of the kind, written out or as an escape, so that no text in it needs to be looked at. False is no
 * proof of the contrary. Go writes `<`, `>` and `&` as escapes, which are harmless.
 */
export function isPlainJson(json: string): boolean {
  return !suspicious.test(json);
}

const suspicious = new RegExp(`[\\x7f-\\x9f${bidi}${invisible}]|${tags}|${halves}|\\\\(?:[bfnrt]|u(?!003[cCeE]|0026))`);

/** A JSON text that means the same and holds nothing of the kind but as an escape. */
export function escapedJson(json: string): string {
  if (!unseen.test(json)) return json;
  return json.replace(allUnseen, (found) => found.replace(/[\s\S]/g, escaped));
}

/** Line ends of a JSON text are between its values. */
const unseen = new RegExp(`[\\x7f-\\x9f${bidi}${invisible}]|${tags}|${halves}`);
const allUnseen = new RegExp(`[\\x7f-\\x9f${bidi}${invisible}]|${tags}|${halves}`, 'g');

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** All texts within a parsed JSON value, names of members excepted, in place; gives the value back. */
export function plainTexts<T>(root: T): T {
  if (typeof root === 'string') return plainText(root) as T;
  const pending: unknown[] = [root];
  for (let holder = pending.pop(); holder !== undefined; holder = pending.pop()) {
    if (typeof holder !== 'object' || holder === null) continue;
    const members = holder as Record<string, unknown>;
    for (const name of Object.keys(members)) {
      const member = members[name];
      if (typeof member === 'string') members[name] = plainText(member);
      else if (typeof member === 'object' && member !== null) pending.push(member);
    }
  }
  return root;
}
