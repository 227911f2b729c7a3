import {
  type ControllerKind,
  type ControllerList,
  type ControllerReport,
  controllerExplainApiVersion,
  controllerKinds,
  controllerNodeKinds,
  type ExplainLabel,
  type ExplainLabels,
  type ExplainList,
  type ExplainReport,
  type TimelineReport,
  type WaitingReport,
} from '../../api/index.ts';
import { errorMessage, plainText } from '../../base/index.ts';
import { KubeError } from '../../kube/index.ts';
import { foreignSocket, getExplanation, knownAgents } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import { nodePaths } from '../paths.ts';
import { readTimeline } from '../timeline/index.ts';
import { readWaiting } from '../waiting/index.ts';
import { documentText } from './answer-format.ts';
import { controllerStory, controllerTable, explainStory, explainTable, table } from './explain-text.ts';
import { connectToNode, notAnswering, notFound } from './find-vmi.ts';
import { type Paint, plain } from './style.ts';
import { timelineLines } from './timeline-text.ts';
import { waitingLines } from './waiting-text.ts';

export interface ExplainQuestion {
  /** Of an agent: `<kubevirt-private-dir>/virt-handler.sock`. */
  readonly socket: string;
  readonly namespace: string;
  /** Absent: all VMIs that the agent knows. */
  readonly name?: string | undefined;
  readonly output: 'text' | 'json' | 'yaml';
  /** The question is for virt-controller about an object of this kind. */
  readonly kind?: ControllerKind;
  /** Ask about the labels of the node, those whose keys contain `name`. */
  readonly labels?: boolean;
  /** How the VM came to run, instead of what was decided. */
  readonly timeline?: boolean;
  /** The agents of all nodes are asked that run on this state directory; `socket` is the first one's. */
  readonly stateDir?: string;
}

type Answer =
  | ExplainReport
  | ExplainList
  | ExplainLabels
  | ControllerReport
  | ControllerList
  | WaitingReport
  | TimelineReport;

const agentAnswers = ['Why', 'WhyList', 'WhyLabels'];
const controllerAnswers = ['Explanation', 'ExplanationList'];

/** `vm/NAME` and the same for each other kind, `node/NODE`, `vm/` (all) and so on: what virt-controller decided. `NAME`: what the agent did. Throws NodeError USAGE. */
function explainTarget(text: string | undefined): Pick<ExplainQuestion, 'kind' | 'name'> {
  const [first = '', name, ...more] = (text ?? '').split('/');
  if (name === undefined) return first === '' ? {} : { name: first };
  const kind = controllerKinds.find((each) => each === first);
  if (kind && more.length === 0) return { kind, ...(name !== '' && { name }) };
  throw new NodeError(
    'USAGE',
    `${JSON.stringify(text)} is neither NAME nor ${controllerKinds.map((each) => `${each}/NAME`).join(' nor ')}`,
  );
}

interface ExplainValues {
  readonly 'state-dir': string;
  readonly namespace: string;
  readonly name: string | undefined;
  readonly labels: boolean;
  readonly timeline: boolean;
  readonly output: 'text' | 'json' | 'yaml';
  readonly socket: string | undefined;
}

/** What the flags of the command ask. Throws NodeError USAGE. */
export function explainQuestion(given: ExplainValues): ExplainQuestion {
  const { output, namespace, labels } = given;
  // With --labels it is a part of keys of labels, which have slashes, too.
  const named: ReturnType<typeof explainTarget> = labels ? { name: given.name } : explainTarget(given.name);
  const target: typeof named = given.timeline ? vmOfTimeline(named, given) : named;
  const stateDir = given['state-dir'];
  const { agentSocket, controllerSocket } = nodePaths(stateDir);
  const socket = given.socket ?? (target.kind ? controllerSocket : agentSocket);
  const ofNodes = given.socket === undefined && !target.kind && { stateDir };
  const timeline = given.timeline && { timeline: true };
  return { output, namespace, ...target, ...(labels && { labels }), ...timeline, socket, ...ofNodes };
}

/** What a timeline is made of is on this machine, and is about one VM: `NAME`, `vm/NAME` and `vmi/NAME` are the same one. */
function vmOfTimeline(
  { name, kind = 'vmi' }: ReturnType<typeof explainTarget>,
  { labels, socket }: Pick<ExplainValues, 'labels' | 'socket'>,
): { readonly name: string } {
  if (name && (kind === 'vm' || kind === 'vmi') && !labels && socket === undefined) return { name };
  throw new NodeError(
    'USAGE',
    '--timeline is of one VM of this node: give its NAME, and neither --labels nor --socket',
  );
}

/**
 * Asks the agent of this node, or virt-controller, why it does what it does. Throws NodeError, whose message says what to do.
 */
export async function askExplain(
  question: ExplainQuestion,
  { now = new Date(), paint = plain }: { readonly now?: Date; readonly paint?: Paint } = {},
): Promise<string> {
  if (question.timeline)
    return shownAll(question, [{ socket: question.socket, answer: await timeline(question, now) }], true, paint);
  const agents = question.stateDir === undefined ? [] : await knownAgents(nodePaths(question.stateDir));
  const isOne = agents.length <= 1;
  try {
    const answers = isOne ? [{ socket: question.socket, answer: await ask(question) }] : await askAll(question, agents);
    return shownAll(question, [...answers, ...(await startedAgain(question, answers, now))], isOne, paint);
  } catch (error) {
    // No agent knows it, or none answers: what keeps it from them is in the API.
    const waiting = await waitingFor(question, now).catch((cause: unknown) => {
      const isNoAnswer = cause instanceof KubeError || (cause instanceof NodeError && cause.code !== 'NOT_FOUND');
      throw isNoAnswer ? error : cause;
    });
    if (!waiting) throw error;
    return shownAll(question, [{ socket: question.socket, answer: waiting }], true, paint);
  }
}

async function timeline({ stateDir = '', namespace, name = '' }: ExplainQuestion, now: Date): Promise<TimelineReport> {
  const paths = nodePaths(stateDir);
  const client = await connectToNode(paths);
  try {
    const report = await readTimeline(client, paths, { namespace, name }, now);
    if (!report) throw await notFound(client, namespace, name);
    return report;
  } catch (error) {
    throw notAnswering(error);
  } finally {
    client.close();
  }
}

interface Told {
  readonly socket: string;
  readonly answer: Answer | NodeError;
}

/** What the agents know is over, and there is a VM of that name still: what becomes of it now. */
async function startedAgain(question: ExplainQuestion, answers: readonly Told[], now: Date): Promise<Told[]> {
  const isOver = ({ answer }: Told) =>
    !(answer instanceof NodeError) &&
    answer.kind === 'Why' &&
    answer.goneAt !== undefined &&
    !answer.decisions.at(-1)?.seen.vmi.moved;
  if (answers.length === 0 || !answers.every(isOver)) return [];
  const waiting = await waitingFor(question, now).catch(() => undefined);
  return waiting ? [{ socket: question.socket, answer: waiting }] : [];
}

/** Of one VM, asked about on a node of this machine. */
async function waitingFor({ namespace, name, stateDir, labels }: ExplainQuestion, now: Date) {
  if (stateDir === undefined || name === undefined || labels) return undefined;
  const paths = nodePaths(stateDir);
  const client = await connectToNode(paths);
  try {
    const waiting = await readWaiting(client, paths, { namespace, name }, now);
    if (!waiting) throw await notFound(client, namespace, name);
    return waiting;
  } finally {
    client.close();
  }
}

/** A VM that has moved is known to both nodes. */
async function askAll(question: ExplainQuestion, agents: readonly { readonly socket: string }[]): Promise<Told[]> {
  const asking = agents.map(async ({ socket }) => ({ socket, answer: await ask({ ...question, socket }) }));
  const asked = await Promise.allSettled(asking);
  const answers = asked.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const failed = asked.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  // That one node does not know a VM is no answer, where another one does.
  const problems = failed.filter((error) => !(error instanceof NodeError && error.code === 'NOT_FOUND'));
  if (answers.length === 0) throw problems[0] ?? failed[0];
  const unasked = problems.map((error) => new NodeError('AGENT_AWAY', errorMessage(error)));
  return [...answers, ...unasked.map((answer) => ({ socket: question.socket, answer }))];
}

/** In JSON the answers of several nodes are a list, those that did not answer among them, and so are what is over and what becomes of the VM now. */
function shownAll({ output, name }: ExplainQuestion, told: readonly Told[], isOne: boolean, paint: Paint): string {
  if (output !== 'text') {
    const answers = told.map(({ answer }) =>
      answer instanceof NodeError ? { kind: 'Error', code: answer.code, message: answer.message } : answer,
    );
    return documentText(output, isOne && answers.length === 1 ? answers[0] : answers);
  }
  const texts = told.map(({ socket, answer }) => {
    const lines = answer instanceof NodeError ? [answer.message] : linesOf(answer, socket, name);
    // Whatever a message contains, it moves no cursor.
    return lines.map((line) => emphasized(plainText(line), paint)).join('\n');
  });
  return texts.join('\n\n');
}

/** The words at the beginnings of a story's lines that matter most. */
function emphasized(line: string, paint: Paint): string {
  const [, label = ''] = /^ {2}(problem|warning|quarantine|back-off|waits for|do)\b/.exec(line) ?? [];
  if (label === '') return line;
  const tone = label === 'do' ? 'good' : label === 'waits for' ? 'waiting' : 'bad';
  return `  ${paint(label, tone)}${line.slice(2 + label.length)}`;
}

function linesOf(answer: Answer, socket: string, name = ''): string[] {
  try {
    switch (answer.kind) {
      case 'WhyLabels':
        return explainLabels(answer, name);
      case 'Why':
        return explainStory(answer);
      case 'WhyList':
        return explainTable(answer);
      case 'Explanation':
        return controllerStory(answer);
      case 'ExplanationList':
        return controllerTable(answer);
      case 'Waiting':
        return waitingLines(answer);
      case 'Timeline':
        return timelineLines(answer);
    }
    return answer satisfies never;
  } catch (cause) {
    throw foreignSocket(socket, cause);
  }
}

function pathOf({ namespace, name, labels, kind }: ExplainQuestion): string {
  if (labels) return '/labels';
  const base = kind ? `/explain/${kind}` : '/why';
  if (name === undefined) return base;
  const names = kind && controllerNodeKinds.includes(kind) ? [name] : [namespace, name];
  return [base, ...names.map((each) => encodeURIComponent(each))].join('/');
}

async function ask(question: ExplainQuestion): Promise<Answer> {
  const { socket, kind } = question;
  const options = kind ? ({ apiVersion: controllerExplainApiVersion, server: 'virt-controller' } as const) : {};
  const { httpStatus, document } = await getExplanation(socket, pathOf(question), options);
  if (document.kind === 'Error') {
    if (typeof document.message !== 'string') throw foreignSocket(socket);
    throw new NodeError(httpStatus === 404 ? 'NOT_FOUND' : 'CHILD_FAILED', plainText(document.message));
  }
  const kinds = kind ? controllerAnswers : agentAnswers;
  if (!kinds.includes(String(document.kind))) throw foreignSocket(socket);
  return document as unknown as Answer;
}

/** The agent's labels of the node whose keys contain `part`, for a person. Lines without their ends. */
function explainLabels({ node, state, problem, here, notHere }: ExplainLabels, part: string): string[] {
  const asked = ({ key }: ExplainLabel) => key.includes(part);
  const [present, absent] = [here.filter(asked), notHere.filter(asked)];
  const pending = [...here, ...notHere].filter((label) => label.state === 'pending').length;
  return [
    `${stories[state](node)}: ${here.length} labels of the agent are there, ${pending} are to be changed`,
    ...(problem === undefined ? [] : [`  problem  ${problem}`]),
    '',
    ...(present.length === 0 ? [] : table(['HERE', 'VALUE', 'STATE', 'BECAUSE'], present.map(row))),
    ...(present.length > 0 && absent.length > 0 ? [''] : []),
    ...(absent.length === 0 ? [] : table(['NOT HERE', '', 'STATE', 'BECAUSE'], absent.map(row))),
    ...(present.length + absent.length === 0 ? [`no label with "${part}" in its key is known to the agent`] : []),
  ];
}

const stories: Readonly<Record<ExplainLabels['state'], (node: string) => string>> = {
  present: (node) => `node ${node}`,
  absent: (node) => `node ${node} does not exist in the cluster yet`,
  skipped: (node) => `node ${node} is left alone, its annotation node-labeller.kubevirt.io/skip-node says so`,
};

function row({ key, value = '', state, because }: ExplainLabel): string[] {
  return [key, value, state, because];
}
