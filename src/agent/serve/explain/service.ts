import {
  type AgentState,
  type Key,
  type WhyDecision,
  type WhyError,
  type WhyItem,
  type WhyLabels,
  type WhyList,
  type WhyQuarantine,
  type WhyReport,
  type WhyTry,
  whyApiVersion,
} from '../../../api/index.ts';
import { type Clock, unreachable } from '../../../base/index.ts';
import { explainRule, type Route } from '../../vmi/decide/index.ts';
import type { DecisionLog } from './decision-log.ts';
import { type DecisionRecord, domainText, faultRule, faultWhy } from './record.ts';
import { parseWhyRequest } from './routes.ts';

/** Answers from memory only: nothing here waits for a launcher or for the API server. */
export interface WhySource {
  readonly decisions: DecisionLog;
  readonly quarantine: { of(key: Key): WhyQuarantine | undefined };
  tryOf(key: Key): WhyTry;
}

export interface WhyServiceDeps {
  readonly source: WhySource;
  readonly state: () => Promise<AgentState>;
  /** Undefined: this agent does not look after labels. */
  readonly labels?: () => Pick<WhyLabels, 'state' | 'problem' | 'here' | 'notHere'> | undefined;
  readonly clock: Clock;
}

export interface WhyAnswer {
  readonly httpStatus: number;
  readonly body: WhyReport | WhyList | WhyLabels | AgentState | WhyError;
}

/** The handlers, whoever serves them: the Unix socket, later the REST server. */
export class WhyService {
  readonly #nodeName: string;
  readonly #deps: WhyServiceDeps;

  constructor(options: { readonly nodeName: string }, deps: WhyServiceDeps) {
    this.#nodeName = options.nodeName;
    this.#deps = deps;
  }

  /** `target`: path of the request, with or without a query. */
  async answer(method: string, target: string): Promise<WhyAnswer> {
    const request = parseWhyRequest(method, target);
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

  #report(namespace: string, name: string, key: Key): WhyAnswer {
    const { source, clock } = this.#deps;
    const decisions = source.decisions.of(key);
    if (decisions.length === 0) return errorAnswer(404, 'NOT_FOUND', this.#unknown(key));
    const quarantine = source.quarantine.of(key);
    const body: WhyReport = {
      apiVersion: whyApiVersion,
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

  #list(): WhyList {
    const { source, clock } = this.#deps;
    const items = source.decisions.keys().flatMap((key) => this.#item(key) ?? []);
    items.sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
    return { apiVersion: whyApiVersion, kind: 'WhyList', node: this.#nodeName, at: clock.now().toISOString(), items };
  }

  #labels(): WhyAnswer {
    const { labels, clock } = this.#deps;
    const report = labels?.();
    if (!report)
      return errorAnswer(404, 'NOT_FOUND', 'this agent does not look after labels (--enable-node-labeller=false)');
    const at = clock.now().toISOString();
    return {
      httpStatus: 200,
      body: { apiVersion: whyApiVersion, kind: 'WhyLabels', node: this.#nodeName, at, ...report },
    };
  }

  #item(key: Key): WhyItem | undefined {
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
      why: whyOf(last),
      since: last.firstAt,
      ...problemOf(last),
      nextTry: source.tryOf(key),
      quarantined: source.quarantine.of(key) !== undefined,
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

export function errorAnswer(httpStatus: number, code: WhyError['code'], message: string): WhyAnswer {
  return { httpStatus, body: { apiVersion: whyApiVersion, kind: 'Error', code, message } };
}

function explained(record: DecisionRecord): WhyDecision {
  return { ...record, why: whyOf(record) };
}

/** While one thing is awaited, what the user was told of another still holds. */
function problemOf(last: DecisionRecord | undefined): { readonly problem?: string } {
  const problem = last?.problem ?? (last?.healthy ? undefined : last?.seen.memory.toldProblem);
  return typeof problem === 'string' && problem !== '' ? { problem } : {};
}

function whyOf({ route, rule }: DecisionRecord): string {
  return rule === faultRule ? faultWhy : explainRule(route as Route, rule);
}
