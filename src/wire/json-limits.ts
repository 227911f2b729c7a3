import { errorMessage, isPlainJson, plainText, plainTexts } from '../base/index.ts';
import { WireError } from './errors.ts';

export interface JsonLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

/** Enough for any real domain (tens of KiB, ten levels), and parsed in a few milliseconds. */
export const domainJsonLimits: JsonLimits = { maxBytes: 1024 * 1024, maxDepth: 64 };

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const openBracket = 0x5b;
const closeBrace = 0x7d;
const closeBracket = 0x5d;

/**
 * JSON.parse for input that others wrote: size and nesting are checked before anything is built. Without the check a
 * megabyte of `[` parses well and overflows the stack of the code that walks the value. Texts in it are a guest's as well: they are made
 * plain here, once, before they go into objects, events, logs and onto terminals.
 * Throws WireError JSON_TOO_LARGE, JSON_TOO_DEEP, JSON_INVALID.
 */
export function parseJson(input: Buffer | string, limits: JsonLimits = domainJsonLimits): unknown {
  const bytes = typeof input === 'string' ? Buffer.from(input) : input;
  if (bytes.length > limits.maxBytes) {
    throw new WireError('JSON_TOO_LARGE', `JSON of ${bytes.length} bytes is above the limit of ${limits.maxBytes}`);
  }
  if (isDeeperThan(bytes, limits.maxDepth)) {
    throw new WireError('JSON_TOO_DEEP', `JSON is nested deeper than ${limits.maxDepth} levels`);
  }
  const text = typeof input === 'string' ? input : bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    // It cites the text.
    throw new WireError('JSON_INVALID', `invalid JSON: ${plainText(errorMessage(cause))}`, { cause });
  }
  return isPlainJson(text) ? value : plainTexts(value);
}

function isDeeperThan(bytes: Buffer, maxDepth: number): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (inString) {
      if (byte === backslash) at++;
      else if (byte === quote) inString = false;
    } else if (byte === quote) inString = true;
    else if (byte === openBrace || byte === openBracket) {
      if (++depth > maxDepth) return true;
    } else if (byte === closeBrace || byte === closeBracket) depth--;
  }
  return false;
}
