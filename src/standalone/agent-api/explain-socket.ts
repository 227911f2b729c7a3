import { request } from 'node:http';
import { explainApiVersion } from '../../api/index.ts';
import { deadline, errorCode, errorMessage, isRecord } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

const timeoutMs = 5_000;
const maxBytes = 32 * 1024 * 1024;

export interface ExplanationOptions {
  readonly signal?: AbortSignal | undefined;
  /** Of the documents; the agent's unless given. */
  readonly apiVersion?: string;
  /** What should serve there; the agent unless given. */
  readonly server?: 'virt-handler' | 'virt-controller';
}

/** One question to a socket of explanations, as it answers it. Rejects with NodeError. */
export async function getExplanation(
  socket: string,
  target: string,
  { signal, apiVersion = explainApiVersion, server = 'virt-handler' }: ExplanationOptions = {},
): Promise<{ readonly httpStatus: number; readonly document: Readonly<Record<string, unknown>> }> {
  const { httpStatus, text } = await get(socket, target, server, signal);
  return { httpStatus, document: parse(text, socket, apiVersion) };
}

/** Of the document only its version and kind are looked at: within a version fields are only added. */
function parse(text: string, socket: string, apiVersion: string): Readonly<Record<string, unknown>> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    throw foreignSocket(socket, cause);
  }
  if (!isRecord(document) || document.apiVersion !== apiVersion) throw foreignSocket(socket);
  return document;
}

/** Something else listens there. */
export function foreignSocket(socket: string, cause?: unknown): NodeError {
  const text = `what answers on ${socket} is no virt-handler of this version and no virt-controller: update both, or give another --socket`;
  return new NodeError('CHILD_FAILED', text, cause === undefined ? {} : { cause });
}

function get(
  socketPath: string,
  target: string,
  server: string,
  caller?: AbortSignal,
): Promise<{ readonly httpStatus: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const signal = deadline(timeoutMs, caller);
    const isLate = () => signal.aborted && caller?.aborted !== true;
    const fail = (cause: unknown) =>
      reject(isLate() ? silent(socketPath, server, cause) : explain(socketPath, server, cause));
    const call = request({ socketPath, path: target, signal, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > maxBytes) response.destroy(new Error(`the answer is longer than ${maxBytes} bytes`));
        else chunks.push(chunk);
      });
      response.on('error', fail);
      response.once('end', () =>
        resolve({ httpStatus: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
      );
    });
    call.on('error', fail);
    call.end();
  });
}

function silent(socket: string, server: string, cause: unknown): NodeError {
  const text = `${server} takes the question on ${socket} and does not answer within ${timeoutMs / 1000} s: it hangs or is stopped, look at its log`;
  return new NodeError('CHILD_FAILED', text, { cause });
}

function explain(socket: string, server: string, cause: unknown): NodeError {
  switch (errorCode(cause)) {
    case 'ENOENT':
    case 'ECONNREFUSED':
      return new NodeError(
        'NOT_RUNNING',
        `no ${server} answers on ${socket}: is the node running here? (--state-dir and --socket say where to look)`,
        { cause },
      );
    case 'ENOTDIR': {
      const text = `${socket} cannot be there: what is above it is a file and no directory (--state-dir and --socket say where to look)`;
      return new NodeError('NOT_RUNNING', text, { cause });
    }
    case 'EACCES':
    case 'EPERM':
      return new NodeError('NO_PERMISSION', `${socket} is for root only: use sudo`, { cause });
    default:
      return new NodeError('CHILD_FAILED', `${socket}: ${errorMessage(cause)}`, { cause });
  }
}
