import type { IncomingMessage } from 'node:http';
import { errorCode, errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import type { AgentAddress } from './target.ts';

/** What the agent answered instead of doing it; the message is its own text. */
export class AgentRefusal extends NodeError {
  readonly httpStatus: number;

  constructor(httpStatus: number, message: string) {
    super('AGENT_REFUSED', message);
    this.httpStatus = httpStatus;
  }
}

/** A refusal is a sentence; more than this is no answer of an agent. */
const maxRefusalBytes = 64 * 1024;

/** Codes of OpenSSL's verification, and of alerts of the other side. */
const distrust = /^ERR_(?:SSL|TLS)|^INVALID_|CERT|ISSUER|VERIFY|CHAIN/;

/** Reads an answer to its end. Rejects with NodeError when it is cut off or longer than the limit. */
export async function readAnswer(response: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > limitBytes) throw new NodeError('AGENT_FOREIGN', `an answer of more than ${limitBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof NodeError) throw cause;
    throw new NodeError('AGENT_AWAY', `virt-handler's answer was cut off: ${errorMessage(cause)}`, { cause });
  }
  return Buffer.concat(chunks, bytes);
}

/** The refusal that an answer is. */
export async function refusalOf(response: IncomingMessage): Promise<AgentRefusal> {
  const status = response.statusCode ?? 0;
  const text = await readAnswer(response, maxRefusalBytes).then(
    (body) => body.toString('utf8').trim(),
    () => '',
  );
  return new AgentRefusal(status, text || `virt-handler answered ${status} ${response.statusMessage ?? ''}`.trim());
}

/** A connection that failed, in words. */
export function unreachable({ host, port }: AgentAddress, cause: unknown): NodeError {
  if (cause instanceof NodeError) return cause;
  const code = errorCode(cause) ?? '';
  const where = `${host}:${port}`;
  if (distrust.test(code)) {
    const text = `virt-handler on ${where} and this program do not trust each other (${code}): start the node again`;
    return new NodeError('AGENT_FOREIGN', text, { cause });
  }
  const reason = errorMessage(cause) || code;
  return new NodeError('AGENT_AWAY', `virt-handler does not answer on ${where} (${reason}): see virt-node status`, {
    cause,
  });
}
