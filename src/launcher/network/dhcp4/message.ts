import { ipv4Bytes, ipv4Text } from '../../../base/index.ts';
import { type Decoded, malformed } from '../answer.ts';
import { decodeOptions4, encodeOptions4, type Options4, option4 } from './options.ts';

/** A message of RFC 2131, as far as a server with one client looks at it. */
export interface Message4 {
  readonly isRequest: boolean;
  readonly transactionId: number;
  /** The client cannot take unicast yet. */
  readonly broadcast: boolean;
  readonly relayAddress: string;
  /** Of the client, `02:00:00:00:00:01`. */
  readonly mac: string;
  readonly yourAddress: string;
  readonly type: number;
  readonly options: Options4;
}

export const type4 = { DISCOVER: 1, OFFER: 2, REQUEST: 3, ACK: 5 } as const;

const fixedBytes = 236;
const magic = 0x63825363;
const ethernet = { type: 1, macBytes: 6 };
const broadcastFlag = 0x8000;
/** Old clients expect a BOOTP message's size. */
const minBytes = 300;

export function decodeMessage4(bytes: Buffer): Decoded<Message4> {
  if (bytes.length < fixedBytes + 4) return malformed(`${bytes.length} bytes are no DHCP message`);
  if (bytes.readUInt32BE(fixedBytes) !== magic) return malformed('it has no DHCP magic number');
  const operation = bytes[0];
  if (operation !== 1 && operation !== 2) return malformed(`operation ${operation} is unknown`);
  if (bytes[1] !== ethernet.type || bytes[2] !== ethernet.macBytes) return malformed('its client is not on Ethernet');
  const options = decodeOptions4(bytes.subarray(fixedBytes + 4));
  if (!options) return malformed('an option leads beyond its end');
  const type = options.get(option4.MESSAGE_TYPE);
  if (type?.length !== 1) return malformed('it has no message type');
  return {
    kind: 'message',
    message: {
      isRequest: operation === 1,
      transactionId: bytes.readUInt32BE(4),
      broadcast: (bytes.readUInt16BE(10) & broadcastFlag) !== 0,
      yourAddress: ipv4Text(bytes.subarray(16)),
      relayAddress: ipv4Text(bytes.subarray(24)),
      mac: macText(bytes.subarray(28, 28 + ethernet.macBytes)),
      type: type.readUInt8(),
      options,
    },
  };
}

/** The message type comes before the options: some boot ROMs look for it there only. */
export function encodeMessage4(message: Message4): Buffer {
  const fixed = Buffer.alloc(fixedBytes + 4);
  fixed.set([message.isRequest ? 1 : 2, ethernet.type, ethernet.macBytes, 0]);
  fixed.writeUInt32BE(message.transactionId, 4);
  fixed.writeUInt16BE(message.broadcast ? broadcastFlag : 0, 10);
  fixed.set(ipv4Bytes(message.yourAddress) ?? [], 16);
  fixed.set(ipv4Bytes(message.relayAddress) ?? [], 24);
  fixed.set(macBytes(message.mac), 28);
  fixed.writeUInt32BE(magic, fixedBytes);
  const type = Buffer.from([option4.MESSAGE_TYPE, 1, message.type]);
  const others = [...message.options].filter(([code]) => code !== option4.MESSAGE_TYPE);
  const bytes = Buffer.concat([fixed, type, encodeOptions4(new Map(others))]);
  return bytes.length >= minBytes ? bytes : Buffer.concat([bytes, Buffer.alloc(minBytes - bytes.length)]);
}

function macText(bytes: Buffer): string {
  return bytes.toString('hex').match(/../g)?.join(':') ?? '';
}

function macBytes(mac: string): Buffer {
  return Buffer.from(mac.replaceAll(':', ''), 'hex');
}
