import type { IncomingMessage } from 'node:http';
import type { PlainAnswer } from '../http/index.ts';

/** Upstream's: raw bytes, nothing else. */
const plainProtocol = 'plain.kubevirt.io';
/** Ours: the same bytes, and notices as text (notices.ts). */
export const awareProtocol = 'session.virt-handler.io';

const keyForm = /^[+/0-9A-Za-z]{22}==$/;
const tokenForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/**
 * What is wrong with a request to upgrade; undefined when nothing is. It is looked at before anything else happens, because a
 * request that cannot become a session must not end one (in upstream it does: pkg/virt-handler/rest/console.go).
 */
export function upgradeProblem(request: IncomingMessage): PlainAnswer | undefined {
  const { headers } = request;
  if (request.method !== 'GET') return { httpStatus: 405, message: 'a stream is asked for with GET' };
  if (headers.upgrade?.toLowerCase() !== 'websocket')
    return { httpStatus: 426, message: 'this is a websocket: ask for an upgrade' };
  if (headers['sec-websocket-version'] !== '13')
    return { httpStatus: 426, message: 'only version 13 of websocket is spoken here' };
  if (!keyForm.test(headers['sec-websocket-key'] ?? '')) {
    return { httpStatus: 400, message: 'Sec-WebSocket-Key is missing or is not 16 bytes in base64' };
  }
  if (offeredProtocols(request) === undefined) {
    return { httpStatus: 400, message: 'Sec-WebSocket-Protocol is not a list of different names' };
  }
  return undefined;
}

/** Ours when it is offered, else upstream's, else none: upstream's clients may offer no subprotocol, too. */
export function chooseProtocol(offered: ReadonlySet<string>): string | false {
  return [awareProtocol, plainProtocol].find((protocol) => offered.has(protocol)) ?? false;
}

function offeredProtocols(request: IncomingMessage): ReadonlySet<string> | undefined {
  const header = request.headers['sec-websocket-protocol'];
  if (header === undefined) return new Set();
  const names = header.split(',').map((name) => name.trim());
  const different = new Set(names);
  return different.size === names.length && names.every((name) => tokenForm.test(name)) ? different : undefined;
}
