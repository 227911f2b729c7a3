import type { WhyList, WhyReport } from '../../api/index.ts';
import { foreignSocket, getWhy } from '../agent-api/index.ts';
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
    throw foreignSocket(socket, cause);
  }
}

async function ask(socket: string, target: string): Promise<WhyReport | WhyList> {
  const { httpStatus, document } = await getWhy(socket, target);
  if (document.kind === 'Error') {
    throw new NodeError(httpStatus === 404 ? 'NOT_FOUND' : 'CHILD_FAILED', String(document.message));
  }
  if (document.kind !== 'Why' && document.kind !== 'WhyList') throw foreignSocket(socket);
  return document as unknown as WhyReport | WhyList;
}
