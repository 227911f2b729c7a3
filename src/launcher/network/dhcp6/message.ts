import { type Decoded, malformed } from '../answer.ts';
import { decodeOptions6, encodeOptions6, type Option6 } from './options.ts';

/** A message between client and server of RFC 8415 §8. */
export interface Message6 {
  readonly type: number;
  readonly transactionId: number;
  readonly options: readonly Option6[];
}

export const type6 = {
  SOLICIT: 1,
  ADVERTISE: 2,
  REQUEST: 3,
  CONFIRM: 4,
  RENEW: 5,
  REBIND: 6,
  REPLY: 7,
  RELEASE: 8,
  DECLINE: 9,
  INFORMATION_REQUEST: 11,
  RELAY_FORWARD: 12,
  RELAY_REPLY: 13,
} as const;

export function decodeMessage6(bytes: Buffer): Decoded<Message6> {
  if (bytes.length < 4) return malformed(`${bytes.length} bytes are no DHCPv6 message`);
  const type = bytes.readUInt8(0);
  // Their head is another one; between a guest and its own bridge there is no relay.
  if (type === type6.RELAY_FORWARD || type === type6.RELAY_REPLY) return malformed('it comes from a relay');
  const options = decodeOptions6(bytes.subarray(4));
  if (!options) return malformed('an option leads beyond its end');
  return { kind: 'message', message: { type, transactionId: bytes.readUIntBE(1, 3), options } };
}

export function encodeMessage6({ type, transactionId, options }: Message6): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt8(type, 0);
  head.writeUIntBE(transactionId, 1, 3);
  return Buffer.concat([head, encodeOptions6(options)]);
}
