import type { ExplainLabels, ExplainList, ExplainReport } from '../../api/index.ts';
import { escapedJson, plainText } from '../../base/index.ts';
import { foreignSocket, getExplanation } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import { explainLabels } from './explain-labels.ts';
import { explainStory, explainTable } from './explain-text.ts';

export interface ExplainQuestion {
  /** Of an agent: `<kubevirt-private-dir>/virt-handler.sock`. */
  readonly socket: string;
  readonly namespace: string;
  /** Absent: all VMIs that the agent knows. */
  readonly name?: string | undefined;
  readonly output: 'text' | 'json';
  /** Ask about the labels of the node, those whose keys contain `name`. */
  readonly labels?: boolean;
}

type Answer = ExplainReport | ExplainList | ExplainLabels;

const kinds = ['Why', 'WhyList', 'WhyLabels'];

/** Asks the agent of this node why it does what it does. Throws NodeError, whose message says what to do. */
export async function askExplain({ socket, namespace, name, output, labels }: ExplainQuestion): Promise<string> {
  const part = encodeURIComponent;
  const ofVm = name === undefined ? '/why' : `/why/${part(namespace)}/${part(name)}`;
  const answer = await ask(socket, labels ? '/labels' : ofVm);
  if (output === 'json') return escapedJson(JSON.stringify(answer, undefined, 2));
  // Whatever a message contains, it moves no cursor.
  return linesOf(answer, socket, name)
    .map((line) => plainText(line))
    .join('\n');
}

function linesOf(answer: Answer, socket: string, name = ''): string[] {
  try {
    if (answer.kind === 'WhyLabels') return explainLabels(answer, name);
    return answer.kind === 'Why' ? explainStory(answer) : explainTable(answer);
  } catch (cause) {
    throw foreignSocket(socket, cause);
  }
}

async function ask(socket: string, target: string): Promise<Answer> {
  const { httpStatus, document } = await getExplanation(socket, target);
  if (document.kind === 'Error') {
    throw new NodeError(httpStatus === 404 ? 'NOT_FOUND' : 'CHILD_FAILED', String(document.message));
  }
  if (!kinds.includes(String(document.kind))) throw foreignSocket(socket);
  return document as unknown as Answer;
}
