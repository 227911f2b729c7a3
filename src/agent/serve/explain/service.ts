import {
  type AgentState,
  type ExplainDecision,
  type ExplainError,
  type ExplainItem,
  type ExplainLabels,
  type ExplainList,
  type ExplainReport,
  type ExplainSeen,
  type ExplainTry,
  explainApiVersion,
  type Key,
} from '../../../api/index.ts';
import { type Clock, unreachable } from '../../../base/index.ts';
import type { CrashLoopBackoff, DecisionLog } from '../../../reconcile/index.ts';
import { domainText, explanationOf, type VmiRecord } from '../../vmi/loop/index.ts';
import { parseExplainRequest } from './routes.ts';

/** Answers from memory only: nothing here waits for a launcher or for the API server. */
export interface ExplainSource {
  readonly decisions: DecisionLog<ExplainSeen>;
  readonly crashLoops: Pick<CrashLoopBackoff, 'of'>;
  tryOf(key: Key): ExplainTry;
}

export interface ExplainServiceDeps {
  readonly source: ExplainSource;
  readonly state: () => Promise<AgentState>;
  /** Undefined: this agent does not look after labels. */
  readonly labels?: () => Pick<ExplainLabels, 'state' | 'problem' | 'here' | 'notHere'> | undefined;
  readonly clock: Clock;
}

export interface ExplainAnswer {
  readonly httpStatus: number;
  readonly body: ExplainReport | ExplainList | ExplainLabels | AgentState | ExplainError;
}

/** The handlers, whoever serves them: the Unix socket, later the REST server. */
export class ExplainService {
  readonly #nodeName: string;
  readonly #deps: ExplainServiceDeps;

  constructor(options: { readonly nodeName: string }, deps: ExplainServiceDeps) {
    this.#nodeName = options.nodeName;
    this.#deps = deps;
  }

  /** `target`: path of the request, with or without a query. */
  async answer(method: string, target: string): Promise<ExplainAnswer> {
    const request = parseExplainRequest(method, target);
    switch (request.kind) {
      case 'state':
        return { httpStatus: 200, body: await this.#deps.state() };
      case 'labels':
        return this.#labels();
      case 'list':
        return { httpStatus: 200, body: this.#list() };
      case 'report':
        return this.#report(request.namespace, request.name, request.key);
      case 'refused':
        return errorAnswer(request.httpStatus, request.code, request.message);
      default:
        return unreachable(request);
    }
  }

  #report(namespace: string, name: string, key: Key): ExplainAnswer {
    const { source, clock } = this.#deps;
    const decisions = source.decisions.of(key);
    if (decisions.length === 0) return errorAnswer(404, 'NOT_FOUND', this.#unknown(key));
    const quarantine = source.crashLoops.of(key);
    const body: ExplainReport = {
      apiVersion: explainApiVersion,
      kind: 'Why',
      node: this.#nodeName,
      at: clock.now().toISOString(),
      namespace,
      name,
      ...this.#goneAt(key),
      ...problemOf(decisions.at(-1)),
      nextTry: source.tryOf(key),
      ...(quarantine && { quarantine }),
      decisions: decisions.map(explained),
    };
    return { httpStatus: 200, body };
  }

  #list(): ExplainList {
    const { source, clock } = this.#deps;
    const items = source.decisions.keys().flatMap((key) => this.#item(key) ?? []);
    items.sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
    return {
      apiVersion: explainApiVersion,
      kind: 'WhyList',
      node: this.#nodeName,
      at: clock.now().toISOString(),
      items,
    };
  }

  #labels(): ExplainAnswer {
    const { labels, clock } = this.#deps;
    const report = labels?.();
    if (!report)
      return errorAnswer(404, 'NOT_FOUND', 'this agent does not look after labels (--enable-node-labeller=false)');
    const at = clock.now().toISOString();
    return {
      httpStatus: 200,
      body: { apiVersion: explainApiVersion, kind: 'WhyLabels', node: this.#nodeName, at, ...report },
    };
  }

  #item(key: Key): ExplainItem | undefined {
    const { source } = this.#deps;
    const last = source.decisions.last(key);
    if (!last) return undefined;
    const [namespace = '', name = ''] = key.split('/');
    return {
      namespace,
      name,
      uid: last.uid,
      ...this.#goneAt(key),
      phase: last.newPhase ?? last.seen.vmi.phase ?? '',
      domain: domainText(last.seen.domain),
      rule: last.rule,
      why: explanationOf(last),
      since: last.firstAt,
      ...problemOf(last),
      nextTry: source.tryOf(key),
      quarantined: source.crashLoops.of(key) !== undefined,
    };
  }

  #goneAt(key: Key): { readonly goneAt?: string } {
    const goneAt = this.#deps.source.decisions.goneAt(key);
    return goneAt ? { goneAt: goneAt.toISOString() } : {};
  }

  #unknown(key: Key): string {
    return (
      `node ${this.#nodeName} has decided nothing about ${key} since its agent started: it is not on this node, or not yet. ` +
      '`kubectl get vmi -o wide` shows the node of each VirtualMachineInstance'
    );
  }
}

export function errorAnswer(httpStatus: number, code: ExplainError['code'], message: string): ExplainAnswer {
  return { httpStatus, body: { apiVersion: explainApiVersion, kind: 'Error', code, message } };
}

function explained(record: VmiRecord): ExplainDecision {
  return { ...record, why: explanationOf(record) };
}

/** While one thing is awaited, what the user was told of another still holds. */
function problemOf(last: VmiRecord | undefined): { readonly problem?: string } {
  const problem = last?.problem ?? (last?.healthy ? undefined : last?.seen.memory.toldProblem);
  return typeof problem === 'string' && problem !== '' ? { problem } : {};
}
