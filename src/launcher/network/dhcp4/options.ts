/** Codes of RFC 2132 and its followers that are written or read here. */
export const option4 = {
  PAD: 0,
  SUBNET_MASK: 1,
  ROUTER: 3,
  DNS: 6,
  HOST_NAME: 12,
  DOMAIN_NAME: 15,
  MTU: 26,
  NTP: 42,
  LEASE_SECONDS: 51,
  MESSAGE_TYPE: 53,
  SERVER_ID: 54,
  TFTP_SERVER: 66,
  BOOT_FILE: 67,
  DOMAIN_SEARCH: 119,
  CLASSLESS_ROUTES: 121,
  END: 255,
} as const;

export type Options4 = ReadonlyMap<number, Buffer>;

const maxPart = 255;

/** Code, length, value; a code that comes again goes on with its value (RFC 3396). Undefined when a length leads beyond the end. */
export function decodeOptions4(bytes: Buffer): Options4 | undefined {
  // Put together at the end: a value in thousands of parts must not be copied for each.
  const parts = new Map<number, Buffer[]>();
  let at = 0;
  while (at < bytes.length) {
    const code = bytes[at++] ?? option4.END;
    if (code === option4.END) break;
    if (code === option4.PAD) continue;
    const length = bytes[at++];
    if (length === undefined || at + length > bytes.length) return undefined;
    const value = bytes.subarray(at, at + length);
    const before = parts.get(code);
    if (before) before.push(value);
    else parts.set(code, [value]);
    at += length;
  }
  return new Map([...parts].map(([code, values]) => [code, Buffer.concat(values)]));
}

/** In the order of their codes: the mask must come before the router. What is longer than one option can be is split. */
export function encodeOptions4(options: Options4): Buffer {
  const parts: Buffer[] = [];
  for (const [code, value] of [...options].sort(([a], [b]) => a - b)) {
    for (let at = 0; at === 0 || at < value.length; at += maxPart) {
      const part = value.subarray(at, at + maxPart);
      parts.push(Buffer.from([code, part.length]), part);
    }
  }
  return Buffer.concat([...parts, Buffer.from([option4.END])]);
}
