import { ipv4Bytes } from '../../../base/index.ts';
import { type Answer, ignored, type Peer } from '../answer.ts';
import { type Lease4, leaseOptions4 } from './lease.ts';
import { decodeMessage4, encodeMessage4, type Message4, type4 } from './message.ts';
import { option4 } from './options.ts';

const clientPort = 68;
const nobody = '0.0.0.0';
const everybody = '255.255.255.255';

/** An offer for a discover, an acknowledgement for a request; all else is not answered (as upstream's `DHCPHandler`). Never throws. */
export function answer4(bytes: Buffer, from: Peer, lease: Lease4): Answer {
  const decoded = decodeMessage4(bytes);
  if (decoded.kind === 'malformed') return decoded;
  const { message } = decoded;
  const reason = reasonToIgnore(message, lease);
  if (reason) return ignored(reason);
  const reply = encodeMessage4({
    ...message,
    isRequest: false,
    yourAddress: lease.address,
    type: message.type === type4.DISCOVER ? type4.OFFER : type4.ACK,
    options: leaseOptions4(lease),
  });
  const hasNoAddress = message.broadcast || from.address === nobody;
  return { kind: 'reply', bytes: reply, to: { address: hasNoAddress ? everybody : from.address, port: clientPort } };
}

function reasonToIgnore({ isRequest, mac, type, options }: Message4, lease: Lease4): string | undefined {
  if (!isRequest) return 'it is an answer';
  if (lease.mac && mac !== lease.mac) return 'it is from another client';
  if (type !== type4.DISCOVER && type !== type4.REQUEST) return `message type ${type} is not answered`;
  const server = options.get(option4.SERVER_ID);
  // On a bridge to the pod's network another server may have been chosen.
  if (server && !ipv4Bytes(lease.server)?.equals(server)) return 'it is for another server';
  return undefined;
}
