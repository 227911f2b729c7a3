import { type Answer, ignored, type Peer } from '../answer.ts';
import { dnsOptions, iaNaOption, type Lease6, serverDuid } from './lease.ts';
import { decodeMessage6, encodeMessage6, type Message6, type6 } from './message.ts';
import { type Option6, option6, optionOf } from './options.ts';

const { SOLICIT, ADVERTISE, REQUEST, CONFIRM, RENEW, REBIND, REPLY, RELEASE, DECLINE, INFORMATION_REQUEST } = type6;
const asked: readonly number[] = [SOLICIT, REQUEST, CONFIRM, RENEW, REBIND, RELEASE, DECLINE, INFORMATION_REQUEST];
/** These must name their server (RFC 8415 §16). */
const namesServer: readonly number[] = [REQUEST, RENEW, RELEASE, DECLINE];
/** Only the client's state changes, or nothing: a status answers them. */
const givesNothing: readonly number[] = [CONFIRM, RELEASE, DECLINE];
const iaIdBytes = 4;
const iaNaBytes = 12;
const success: Option6 = { code: option6.STATUS, value: Buffer.alloc(2) };

/**
 * The one address for whoever asks on the bridge, at once where the client wants rapid commit (as upstream's `pkg/network/dhcp/serverv6`;
 * like there, no router advertisements are sent, so the guest sets its route itself). Never throws.
 */
export function answer6(bytes: Buffer, from: Peer, lease: Lease6): Answer {
  const decoded = decodeMessage6(bytes);
  if (decoded.kind === 'malformed') return decoded;
  const { message } = decoded;
  const reason = reasonToIgnore(message, lease);
  if (reason) return ignored(reason);
  const clientId = message.options.filter(({ code }) => code === option6.CLIENT_ID).slice(0, 1);
  const isRapid = message.type === SOLICIT && optionOf(message.options, option6.RAPID_COMMIT) !== undefined;
  const reply = encodeMessage6({
    type: message.type === SOLICIT && !isRapid ? ADVERTISE : REPLY,
    transactionId: message.transactionId,
    options: [
      ...clientId,
      { code: option6.SERVER_ID, value: serverDuid(lease) },
      ...(isRapid ? [{ code: option6.RAPID_COMMIT, value: Buffer.alloc(0) }] : []),
      ...(givesNothing.includes(message.type) ? [success] : given(message, lease)),
    ],
  });
  return { kind: 'reply', bytes: reply, to: from };
}

function reasonToIgnore({ type, options }: Message6, lease: Lease6): string | undefined {
  if (!asked.includes(type)) return `message type ${type} is not answered`;
  if (type !== INFORMATION_REQUEST && !optionOf(options, option6.CLIENT_ID)?.length)
    return 'its client has no identity';
  const server = optionOf(options, option6.SERVER_ID);
  if (server && !server.equals(serverDuid(lease))) return 'it is for another server';
  if (!server && namesServer.includes(type)) return 'it names no server';
  return undefined;
}

/** One client, one address: the first association that asks gets it. */
function given({ options }: Message6, lease: Lease6): Option6[] {
  const association = options.find(({ code, value }) => code === option6.IA_NA && value.length >= iaNaBytes);
  const iaId = association?.value.subarray(0, iaIdBytes);
  return [...(iaId ? [iaNaOption(iaId, lease)] : []), ...dnsOptions(lease)];
}
