/** Codes of RFC 8415 and RFC 3646 that are written or read here. */
export const option6 = {
  CLIENT_ID: 1,
  SERVER_ID: 2,
  IA_NA: 3,
  IA_ADDRESS: 5,
  STATUS: 13,
  RAPID_COMMIT: 14,
  DNS: 23,
} as const;

/** One code may come several times. */
export interface Option6 {
  readonly code: number;
  readonly value: Buffer;
}

/** Undefined when a length leads beyond the end. */
export function decodeOptions6(bytes: Buffer): readonly Option6[] | undefined {
  const options: Option6[] = [];
  let at = 0;
  while (at < bytes.length) {
    if (at + 4 > bytes.length) return undefined;
    const code = bytes.readUInt16BE(at);
    const length = bytes.readUInt16BE(at + 2);
    at += 4;
    if (at + length > bytes.length) return undefined;
    options.push({ code, value: bytes.subarray(at, at + length) });
    at += length;
  }
  return options;
}

export function encodeOptions6(options: readonly Option6[]): Buffer {
  return Buffer.concat(
    options.flatMap(({ code, value }) => {
      const head = Buffer.alloc(4);
      head.writeUInt16BE(code, 0);
      head.writeUInt16BE(value.length, 2);
      return [head, value];
    }),
  );
}

/** The first of a code. */
export function optionOf(options: readonly Option6[], code: number): Buffer | undefined {
  return options.find((option) => option.code === code)?.value;
}
