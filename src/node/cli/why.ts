import { request } from 'node:http';
import { type WhyList, type WhyReport, whyApiVersion } from '../../api/index.ts';
import { errorCode, errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { whyStory, whyTable } from './why-text.ts';

export interface WhyQuestion {
  /** Of an agent: `<kubevirt-private-dir>/virt-handler.sock`. */
  readonly socket: string;
  readonly namespace: string;
  /** Absent: all VMIs that the agent knows. */
  readonly name?: string | undefined;
  readonly output: 'text' | 'json';
}

const timeoutMs = 5_000;
const maxBytes = 32 * 1024 * 1024;

/** Asks the agent of this node why it does what it does. Throws NodeError, whose message says what to do. */
export async function askWhy({ socket, namespace, name, output }: WhyQuestion): Promise<string> {
  const part = encodeURIComponent;
  const target = name === undefined ? '/why' : `/why/${part(namespace)}/${part(name)}`;
  const answer = await ask(socket, target);
  if (output === 'json') return JSON.stringify(answer, undefined, 2);
  // Whatever a message contains, it moves no cursor.
  return linesOf(answer, socket)
    .join('\n')
    .replaceAll(/[^\P{Cc}\n]/gu, '?');
}

function linesOf(answer: WhyReport | WhyList, socket: string): string[] {
  try {
    return answer.kind === 'Why' ? whyStory(answer) : whyTable(answer);
  } catch (cause) {
    throw foreign(socket, cause);
  }
}

async function ask(socket: string, target: string): Promise<WhyReport | WhyList> {
  const { httpStatus, text } = await get(socket, target);
  const document = parse(text, socket);
  if (document.kind === 'Error') {
    throw new NodeError(httpStatus === 404 ? 'NOT_FOUND' : 'CHILD_FAILED', String(document.message));
  }
  if (document.kind !== 'Why' && document.kind !== 'WhyList') throw foreign(socket);
  return document as unknown as WhyReport | WhyList;
}

/** Of the document only its version and kind are looked at: within a version fields are only added. */
function parse(text: string, socket: string): Readonly<Record<string, unknown>> {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    throw foreign(socket, cause);
  }
  if (typeof document !== 'object' || document === null) throw foreign(socket);
  const fields = document as Readonly<Record<string, unknown>>;
  if (fields.apiVersion !== whyApiVersion) throw foreign(socket);
  return fields;
}

function foreign(socket: string, cause?: unknown): NodeError {
  const text = `what answers on ${socket} is no virt-handler of this version: update both, or give another --socket`;
  return new NodeError('CHILD_FAILED', text, cause === undefined ? {} : { cause });
}

function get(socketPath: string, target: string): Promise<{ readonly httpStatus: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) => reject(explain(socketPath, cause));
    const signal = AbortSignal.timeout(timeoutMs);
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

function explain(socket: string, cause: unknown): NodeError {
  switch (errorCode(cause)) {
    case 'ENOENT':
    case 'ECONNREFUSED':
      return new NodeError(
        'NOT_RUNNING',
        `no virt-handler answers on ${socket}: is the node running here? (--state-dir and --socket say where to look)`,
        { cause },
      );
    case 'EACCES':
    case 'EPERM':
      return new NodeError('NO_PERMISSION', `${socket} is for root only: use sudo`, { cause });
    default:
      return new NodeError('CHILD_FAILED', `${socket}: ${errorMessage(cause)}`, { cause });
  }
}
