import type { IncomingMessage } from 'node:http';
import { isKeyProtocol } from './access.ts';

const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const vmi = `/v1/namespaces/${label}/virtualmachineinstances/${label}(?:\\.${label}){0,8}`;

/** What the page asks the agent for, and no more. A name with any escape or trick in it is not one of Kubernetes' names. */
const reads = new RegExp(`^${vmi}/(?:vnc/screenshot|guestosinfo|userlist|filesystemlist)(?:\\?|$)`);
const writes = new RegExp(`^${vmi}/(?:pause|unpause|softreboot|reset)(?:\\?|$)`);
const streams = new RegExp(`^${vmi}/(?:console|vnc)(?:\\?|$)`);

/** May go on to the agent as it is. */
export function isVmApiRequest({ method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>): boolean {
  // A stream asked for without an upgrade is answered by the agent with the reason why it cannot be had.
  if (method === 'GET') return reads.test(url) || streams.test(url);
  return method === 'PUT' && writes.test(url);
}

export function isVmApiStream({ method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>): boolean {
  return method === 'GET' && streams.test(url);
}

/** Token and session of the page are for this server only; cookies are other servers' of this host. */
export function withoutSecrets(request: IncomingMessage): IncomingMessage {
  const { headers, rawHeaders } = request;
  for (const name of ['authorization', 'cookie']) delete headers[name];
  const protocols = headers['sec-websocket-protocol'];
  if (protocols !== undefined) headers['sec-websocket-protocol'] = withoutKey(protocols);
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    const name = rawHeaders[at] ?? '';
    if (/^(?:authorization|cookie)$/i.test(name)) rawHeaders.splice(at, 2);
    else if (/^sec-websocket-protocol$/i.test(name)) rawHeaders[at + 1] = withoutKey(rawHeaders[at + 1] ?? '');
  }
  return request;
}

function withoutKey(protocols: string): string {
  const names = protocols.split(',').map((name) => name.trim());
  return names.filter((name) => !isKeyProtocol(name)).join(', ');
}
