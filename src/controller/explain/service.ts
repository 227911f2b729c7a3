import {
  type ControllerExplainError,
  type ControllerKind,
  type ControllerList,
  type ControllerReport,
  controllerExplainApiVersion,
  controllerKinds,
  controllerNodeKinds,
  type ExplainFacts,
  type Key,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import {
  type ExplainRefusal,
  type ExplainSource,
  type ExplainWords,
  explainAll,
  explainClusterKey,
  explainKey,
  explainObject,
  explainPath,
  explainRule,
  faultRule,
  unknownAddress,
} from '../../reconcile/index.ts';

/** What one controller remembers of its decisions, and the sentences of its rules. */
export interface ExplainedController {
  readonly source: ExplainSource<ExplainFacts>;
  readonly rules: readonly { readonly name: string; readonly why: string }[];
}

export interface ExplainDeps {
  readonly controllers: Readonly<Record<ControllerKind, ExplainedController>>;
  readonly clock: Clock;
}

export interface ExplainAnswer {
  readonly httpStatus: number;
  readonly body: ControllerReport | ControllerList | ControllerExplainError;
}

function isOfNode(kind: ControllerKind): boolean {
  return controllerNodeKinds.includes(kind);
}

const whatThereIs = controllerKinds
  .map((kind) => `GET /explain/${kind} and /explain/${kind}/${isOfNode(kind) ? '' : '<namespace>/'}<name>`)
  .join(', ');

/** What virt-controller decided, from memory only. Total: each request has an answer. `target`: path of the request. */
export function explain(method: string, target: string, deps: ExplainDeps): ExplainAnswer {
  if (method !== 'GET' && method !== 'HEAD') return errorAnswer(405, 'METHOD_NOT_ALLOWED', `there is ${whatThereIs}`);
  const path = explainPath(target);
  if (path.kind === 'refused') return refused(path);
  const [first, kind, ...names] = path.parts;
  const resource = controllerKinds.find((each) => each === kind);
  if (first !== 'explain' || !resource) return refused(unknownAddress(whatThereIs));
  if (names.length === 0) return { httpStatus: 200, body: list(resource, deps) };
  if (names.length !== (isOfNode(resource) ? 1 : 2)) return refused(unknownAddress(whatThereIs));
  const [one = '', other = ''] = names;
  const named = isOfNode(resource) ? explainClusterKey(one) : explainKey(one, other);
  return named.kind === 'key' ? report(resource, named.key, deps) : refused(named);
}

const refused = ({ httpStatus, code, message }: ExplainRefusal) => errorAnswer(httpStatus, code, message);

export function errorAnswer(httpStatus: number, code: ControllerExplainError['code'], message: string): ExplainAnswer {
  return { httpStatus, body: { apiVersion: controllerExplainApiVersion, kind: 'Error', code, message } };
}

function report(resource: ControllerKind, key: Key, { controllers, clock }: ExplainDeps): ExplainAnswer {
  const controller = controllers[resource];
  const found = explainObject(key, controller.source, wordsOf(controller));
  if (!found) {
    const message =
      `virt-controller has decided nothing about ${resource} ${key} since it started: there is none, or another replica ` +
      'holds the lease virt-controller';
    return errorAnswer(404, 'NOT_FOUND', message);
  }
  const { state, crashLoop, decisions } = found;
  const body: ControllerReport = {
    apiVersion: controllerExplainApiVersion,
    kind: 'Explanation',
    at: clock.now().toISOString(),
    resource,
    ...state,
    ...(crashLoop && { crashLoopBackoff: crashLoop }),
    decisions,
  };
  return { httpStatus: 200, body };
}

function list(resource: ControllerKind, { controllers, clock }: ExplainDeps): ControllerList {
  const controller = controllers[resource];
  const all = explainAll(controller.source, wordsOf(controller));
  const items = all.map(({ object, decision }) => ({ ...object, ...decision }));
  const at = clock.now().toISOString();
  return { apiVersion: controllerExplainApiVersion, kind: 'ExplanationList', at, resource, items };
}

function wordsOf(controller: ExplainedController): ExplainWords<ExplainFacts> {
  return { why: ({ rule }) => sentenceOf(controller, rule), problem: ({ problem }) => problem };
}

const explainFault = 'This virt-controller itself failed over the object, which is a bug; the object is tried again.';

function sentenceOf(controller: ExplainedController, rule: string): string {
  return rule === faultRule ? explainFault : explainRule(controller, rule);
}
