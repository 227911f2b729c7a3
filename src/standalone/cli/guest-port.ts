import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocket } from 'ws';
import { errorMessage, memberAt } from '../../base/index.ts';
import { loadKubeAccess } from '../../kube/index.ts';
import { NodeError, type NodeErrorCode } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import type { VmName } from './vm-agent.ts';

/** As virt-api and its clients call it. */
const plainProtocol = 'plain.kubevirt.io';
const handshakeMs = 20_000;
const maxAnswerBytes = 64 * 1024;

/**
 * The bytes of a TCP port of a running VM, by the node's own API: it knows where the VM is, on whichever of its nodes. Rejects with NodeError: GUEST_PORT when
 * nothing listens there, NOT_FOUND, NOT_RUNNING, AGENT_REFUSED with the API's words.
 */
export async function openGuestPort(
  paths: NodePaths,
  { namespace, name }: VmName,
  port: number,
  signal: AbortSignal,
): Promise<Duplex> {
  const { server, ca, credentials } = await loadKubeAccess({ kubeconfig: paths.kubeconfig });
  const { headers } = await credentials.current();
  const vmi = `namespaces/${encodeURIComponent(namespace)}/virtualmachineinstances/${encodeURIComponent(name)}`;
  const url = `${server.replace(/^http/, 'ws')}/apis/subresources.kubevirt.io/v1/${vmi}/portforward/${port}/tcp`;
  signal.throwIfAborted();
  const socket = new WebSocket(url, [plainProtocol], {
    headers,
    ...(ca !== undefined && { ca }),
    perMessageDeflate: false,
    handshakeTimeout: handshakeMs,
  });
  const onAbort = () => socket.terminate();
  signal.addEventListener('abort', onAbort, { once: true });
  socket.once('close', () => signal.removeEventListener('abort', onAbort));
  await opened(socket);
  return createWebSocketStream(socket);
}

function opened(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    let isRefused = false;
    socket.on('error', (cause) => {
      const text = `the node's API does not answer: ${errorMessage(cause)}`;
      if (!isRefused) reject(new NodeError('NOT_RUNNING', text, { cause }));
    });
    socket.once('unexpected-response', (_request, response) => {
      isRefused = true;
      // Its end is the socket's error, too.
      refusalOf(response)
        .then(reject, reject)
        .finally(() => socket.terminate());
    });
    socket.once('open', () => {
      // Its stream, which lets it go on, is made later: what the guest says first may have come together with the answer.
      socket.pause();
      resolve();
    });
  });
}

async function refusalOf(response: IncomingMessage): Promise<NodeError> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > maxAnswerBytes) break;
    pieces.push(piece);
  }
  const text = Buffer.concat(pieces).toString('utf8').trim();
  const codes: Readonly<Record<number, NodeErrorCode>> = { 404: 'NOT_FOUND', 502: 'GUEST_PORT', 401: 'NO_PERMISSION' };
  return new NodeError(codes[response.statusCode ?? 0] ?? 'AGENT_REFUSED', messageOf(text));
}

/** Of a Status object, or the plain words of an upgrade that was refused. */
function messageOf(text: string): string {
  try {
    const message = memberAt(JSON.parse(text), 'message');
    return typeof message === 'string' ? message : text;
  } catch {
    return text;
  }
}
