import {
  type AgentState,
  type ExplainError,
  type ExplainLabels,
  type ExplainList,
  type ExplainMigration,
  type ExplainReport,
  type ExplainSeen,
  explainApiVersion,
  type Key,
} from '../../../api/index.ts';
import { type Clock, unreachable } from '../../../base/index.ts';
import { type ExplainSource, type ExplainWords, explainAll, explainObject } from '../../../reconcile/index.ts';
import { domainText, explanationOf, type VmiRecord } from '../../vmi/loop/index.ts';
import { parseExplainRequest } from './routes.ts';

export interface ExplainServiceDeps {
  /** Nothing here waits for a launcher or for the API server. */
  readonly source: ExplainSource<ExplainSeen>;
  readonly state: () => Promise<AgentState>;
  /** Undefined: this agent does not look after labels. */
  readonly labels?: () => Pick<ExplainLabels, 'state' | 'problem' | 'here' | 'notHere'> | undefined;
  /** Undefined: no streams of a migration of this VMI are open here. */
  readonly migration?: (key: Key) => ExplainMigration | undefined;
  readonly clock: Clock;
}

export interface ExplainAnswer {
  readonly httpStatus: number;
  readonly body: ExplainReport | ExplainList | ExplainLabels | AgentState | ExplainError;
}

/** The handlers, for all that serve them: the Unix socket and the agent's page. */
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
        return this.#report(request.key);
      case 'refused':
        return errorAnswer(request.httpStatus, request.code, request.message);
      default:
        return unreachable(request);
    }
  }

  #report(key: Key): ExplainAnswer {
    const { source, clock } = this.#deps;
    const found = explainObject(key, source, words);
    if (!found) return errorAnswer(404, 'NOT_FOUND', this.#unknown(key));
    const { state, crashLoop, decisions } = found;
    const migration = this.#deps.migration?.(key);
    const body: ExplainReport = {
      apiVersion: explainApiVersion,
      kind: 'Why',
      node: this.#nodeName,
      at: clock.now().toISOString(),
      ...state,
      ...(crashLoop && { quarantine: crashLoop }),
      ...(migration && { migration }),
      decisions,
    };
    return { httpStatus: 200, body };
  }

  #list(): ExplainList {
    const { source, clock } = this.#deps;
    const items = explainAll(source, words).map(({ key, last, object, decision }) => ({
      ...object,
      ...(last.seen.vmi.moved && { moved: last.seen.vmi.moved }),
      phase: last.newPhase ?? last.seen.vmi.phase ?? '',
      domain: domainText(last.seen.domain),
      ...decision,
      quarantined: source.crashLoops.of(key) !== undefined,
    }));
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

const words: ExplainWords<ExplainSeen> = { why: explanationOf, problem: problemOf };

/** While one thing is awaited, what the user was told of another still holds. */
function problemOf({ problem, healthy, seen }: VmiRecord): string | undefined {
  const current = problem ?? (healthy ? undefined : seen.memory.reportedProblem);
  return typeof current === 'string' && current !== '' ? current : undefined;
}
