import { pathText } from './node.ts';

const mostNamed = 100;
const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket, comma, colon] = [...'"\\{}[],:'].map(
  (sign) => sign.charCodeAt(0),
);

type Frame = { readonly seen: Set<string>; key: string; isKey: boolean } | { index: number };

/**
 * Members that occur twice in one object of a text that is JSON: what JSON.parse reads last is all that is left of them. Gives their
 * paths, in time proportional to the text.
 */
export function duplicateMembers(text: string): string[] {
  const found: string[] = [];
  const frames: Frame[] = [];
  const note = (name: string) => {
    const steps = frames.slice(0, -1).map((frame) => ('seen' in frame ? frame.key : frame.index));
    if (found.length < mostNamed) found.push(pathText([...steps, name]));
  };
  for (let at = 0; at < text.length; at++) {
    const sign = text.charCodeAt(at);
    const frame = frames.at(-1);
    if (sign === quote) {
      const end = endOfText(text, at);
      if (frame && 'seen' in frame && frame.isKey) {
        const name = nameOf(text.slice(at, end + 1));
        if (frame.seen.has(name)) note(name);
        frame.seen.add(name);
        frame.key = name;
      }
      at = end;
    } else if (sign === openBrace) frames.push({ seen: new Set(), key: '', isKey: true });
    else if (sign === openBracket) frames.push({ index: 0 });
    else if (sign === closeBrace || sign === closeBracket) frames.pop();
    else if (sign === comma && frame) {
      if ('seen' in frame) frame.isKey = true;
      else frame.index++;
    } else if (sign === colon && frame && 'seen' in frame) frame.isKey = false;
  }
  return found;
}

/** Index of the closing quotation mark. */
function endOfText(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text.charCodeAt(at) !== quote) at += text.charCodeAt(at) === backslash ? 2 : 1;
  return at;
}

function nameOf(literal: string): string {
  return literal.includes('\\') ? String(JSON.parse(literal)) : literal.slice(1, -1);
}
