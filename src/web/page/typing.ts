/** Text as the keys of a keyboard with the layout of the United States, which is what a guest's screen takes. */

export interface Stroke {
  /** X11 keysym. */
  readonly keysym: number;
  /** `KeyboardEvent.code`: where it is on the keyboard, whatever the guest's layout makes of it. */
  readonly code: string;
  readonly shift: boolean;
}

export interface Typing {
  readonly strokes: readonly Stroke[];
  /** Characters that no such key writes, each once. */
  readonly missing: readonly string[];
}

/** What is beneath and above on the keys that are neither letters nor digits. */
const others: readonly (readonly [plain: string, shifted: string, code: string])[] = [
  ['`', '~', 'Backquote'],
  ['-', '_', 'Minus'],
  ['=', '+', 'Equal'],
  ['[', '{', 'BracketLeft'],
  [']', '}', 'BracketRight'],
  ['\\', '|', 'Backslash'],
  [';', ':', 'Semicolon'],
  ["'", '"', 'Quote'],
  [',', '<', 'Comma'],
  ['.', '>', 'Period'],
  ['/', '?', 'Slash'],
];
const aboveDigits = ')!@#$%^&*(';

function makeStrokes(): ReadonlyMap<string, Stroke> {
  const strokes = new Map<string, Stroke>();
  const add = (character: string, code: string, shift: boolean) =>
    strokes.set(character, { keysym: character.charCodeAt(0), code, shift });
  for (let letter = 0; letter < 26; letter++) {
    const upper = String.fromCharCode(65 + letter);
    add(upper, `Key${upper}`, true);
    add(upper.toLowerCase(), `Key${upper}`, false);
  }
  for (let digit = 0; digit < 10; digit++) {
    add(String(digit), `Digit${digit}`, false);
    add(aboveDigits.charAt(digit), `Digit${digit}`, true);
  }
  for (const [plain, shifted, code] of others) {
    add(plain, code, false);
    add(shifted, code, true);
  }
  add(' ', 'Space', false);
  strokes.set('\n', { keysym: 0xff0d, code: 'Enter', shift: false });
  strokes.set('\t', { keysym: 0xff09, code: 'Tab', shift: false });
  return strokes;
}

const known = makeStrokes();

export function typingOf(text: string): Typing {
  const strokes: Stroke[] = [];
  const missing = new Set<string>();
  for (const character of text.replace(/\r\n?/g, '\n')) {
    const stroke = known.get(character);
    if (stroke) strokes.push(stroke);
    else missing.add(character);
  }
  return { strokes, missing: [...missing] };
}

const maxTyped = 4_000;

/** Why a text cannot be typed; empty: it can. */
export function typingProblem(text: string): string {
  const { strokes, missing } = typingOf(text);
  if (strokes.length > maxTyped) return `${strokes.length} keys are too many for a keyboard: at most ${maxTyped}.`;
  if (missing.length === 0) return '';
  return `A keyboard of the United States has no key for ${missing.slice(0, 10).join(' ')}: take it out.`;
}

/** Bytes that a terminal sends for keys that a telephone has not got. */
export const terminalKeys: readonly (readonly [label: string, says: string, sends: string])[] = [
  ['Esc', 'Escape', '\u001b'],
  ['Tab', 'Tab', '\t'],
  ['^C', 'Control C', '\u0003'],
  ['^D', 'Control D', '\u0004'],
  ['^Z', 'Control Z', '\u001a'],
  ['←', 'Arrow left', '\u001b[D'],
  ['↓', 'Arrow down', '\u001b[B'],
  ['↑', 'Arrow up', '\u001b[A'],
  ['→', 'Arrow right', '\u001b[C'],
  ['↵', 'Enter', '\r'],
];

/** The same on a screen. */
export const screenKeys: readonly (readonly [label: string, says: string, stroke: Stroke, withControl: boolean])[] = [
  ['Esc', 'Escape', { keysym: 0xff1b, code: 'Escape', shift: false }, false],
  ['Tab', 'Tab', { keysym: 0xff09, code: 'Tab', shift: false }, false],
  ['^C', 'Control C', { keysym: 0x63, code: 'KeyC', shift: false }, true],
  ['←', 'Arrow left', { keysym: 0xff51, code: 'ArrowLeft', shift: false }, false],
  ['↓', 'Arrow down', { keysym: 0xff54, code: 'ArrowDown', shift: false }, false],
  ['↑', 'Arrow up', { keysym: 0xff52, code: 'ArrowUp', shift: false }, false],
  ['→', 'Arrow right', { keysym: 0xff53, code: 'ArrowRight', shift: false }, false],
  ['↵', 'Enter', { keysym: 0xff0d, code: 'Enter', shift: false }, false],
];
