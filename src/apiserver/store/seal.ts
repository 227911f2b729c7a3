import { crc32 } from 'node:zlib';

const sealPattern = /#([0-9a-f]{8})$/;

/** The JSON text with a CRC-32 over key and text behind it: LevelDB reads damaged bytes of its tables without a word. */
export function seal(key: string, json: string): string {
  return `${json}#${checksum(key, json)}`;
}

/**
 * The JSON text of a sealed one; undefined: it is not what was written. Until format 2 records had no seal: they pass as they
 * are, and JSON ends with no letter or digit of a seal.
 */
export function unseal(key: string, text: string): string | undefined {
  const seal = sealPattern.exec(text);
  if (!seal) return text.endsWith('}') ? text : undefined;
  const json = text.slice(0, seal.index);
  return checksum(key, json) === seal[1] ? json : undefined;
}

function checksum(key: string, json: string): string {
  return crc32(json, crc32(key)).toString(16).padStart(8, '0');
}
