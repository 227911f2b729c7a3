import {
  type ControllerDecision,
  type ControllerExplainError,
  type ControllerItem,
  type ControllerKind,
  type ControllerList,
  type ControllerReport,
  controllerExplainApiVersion,
  controllerKinds,
  type ExplainFacts,
  type ExplainTry,
  type Key,
} from '../../api/index.ts';
import type { Clock } from '../../base/index.ts';
import {
  type CrashLoopBackoff,
  type DecisionLog,
  type DecisionRecord,
  explainRule,
  faultRule,
} from '../../reconcile/index.ts';

type Reconciled = Pick<ExplainSource, 'decisions' | 'crashLoops'> & { tryOf(key: Key): ExplainTry };

export function explainSource(reconciler: Reconciled, rules: ExplainSource['rules']): ExplainSource {
  const { decisions, crashLoops } = reconciler;
  return { decisions, crashLoops, tryOf: (key) => reconciler.tryOf(key), rules };
}

/** What one controller remembers of its decisions, and the sentences of its rules. */
export interface ExplainSource {
  readonly decisions: DecisionLog<ExplainFacts>;
  readonly crashLoops: Pick<CrashLoopBackoff, 'of'>;
  tryOf(key: Key): ExplainTry;
  readonly rules: readonly { readonly name: string; readonly why: string }[];
}

export interface ExplainDeps {
  readonly sources: Readonly<Record<ControllerKind, ExplainSource>>;
  readonly clock: Clock;
}

export interface ExplainAnswer {
  readonly httpStatus: number;
  readonly body: ControllerReport | ControllerList | ControllerExplainError;
}

const longestTarget = 1024;
const validName = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;
const whatThereIs = controllerKinds
  .map((kind) => `GET /explain/${kind} and /explain/${kind}/<namespace>/<name>`)
  .join(', ');

/** What virt-controller decided, from memory only. Total: each request has an answer. `target`: path of the request. */
export function explain(method: string, target: string, deps: ExplainDeps): ExplainAnswer {
  if (method !== 'GET' && method !== 'HEAD') return errorAnswer(405, 'METHOD_NOT_ALLOWED', `there is ${whatThereIs}`);
  if (target.length > longestTarget) return errorAnswer(400, 'BAD_REQUEST', 'the address is too long');
  const [first, kind, namespace, name, ...more] = target.split(/[?#]/, 1).join('').split('/').filter(Boolean);
  const resource = controllerKinds.find((each) => each === kind);
  if (first !== 'explain' || !resource || more.length > 0 || (namespace !== undefined && name === undefined))
    return errorAnswer(404, 'NOT_FOUND', `there is nothing at this address: there is ${whatThereIs}`);
  if (namespace === undefined || name === undefined) return { httpStatus: 200, body: list(resource, deps) };
  if (validName.test(namespace) && validName.test(name)) return report(resource, namespace, name, deps);
  return errorAnswer(400, 'BAD_REQUEST', 'a namespace and a name are lower case letters, digits, "-" and "."');
}

export function errorAnswer(httpStatus: number, code: ControllerExplainError['code'], message: string): ExplainAnswer {
  return { httpStatus, body: { apiVersion: controllerExplainApiVersion, kind: 'Error', code, message } };
}

function report(
  resource: ControllerKind,
  namespace: string,
  name: string,
  { sources, clock }: ExplainDeps,
): ExplainAnswer {
  const source = sources[resource];
  const key = `${namespace}/${name}`;
  const decisions = source.decisions.of(key);
  if (decisions.length === 0) {
    const message =
      `virt-controller has decided nothing about ${resource} ${key} since it started: there is none, or another replica ` +
      'holds the lease virt-controller';
    return errorAnswer(404, 'NOT_FOUND', message);
  }
  const backoff = source.crashLoops.of(key);
  const body: ControllerReport = {
    apiVersion: controllerExplainApiVersion,
    kind: 'Explanation',
    at: clock.now().toISOString(),
    resource,
    namespace,
    name,
    ...goneAt(source, key),
    ...problemOf(decisions.at(-1)),
    nextTry: source.tryOf(key),
    ...(backoff && { crashLoopBackoff: backoff }),
    decisions: decisions.map((record): ControllerDecision => ({ ...record, why: sentenceOf(source, record) })),
  };
  return { httpStatus: 200, body };
}

function list(resource: ControllerKind, { sources, clock }: ExplainDeps): ControllerList {
  const source = sources[resource];
  const items = source.decisions.keys().flatMap((key) => itemOf(source, key) ?? []);
  items.sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
  const at = clock.now().toISOString();
  return { apiVersion: controllerExplainApiVersion, kind: 'ExplanationList', at, resource, items };
}

function itemOf(source: ExplainSource, key: Key): ControllerItem | undefined {
  const last = source.decisions.last(key);
  if (!last) return undefined;
  const [namespace = '', name = ''] = key.split('/');
  return {
    namespace,
    name,
    uid: last.uid,
    ...goneAt(source, key),
    rule: last.rule,
    why: sentenceOf(source, last),
    since: last.firstAt,
    ...problemOf(last),
    nextTry: source.tryOf(key),
  };
}

function goneAt({ decisions }: ExplainSource, key: Key): { readonly goneAt?: string } {
  const at = decisions.goneAt(key);
  return at ? { goneAt: at.toISOString() } : {};
}

function problemOf(last: DecisionRecord<ExplainFacts> | undefined): { readonly problem?: string } {
  return last?.problem === undefined ? {} : { problem: last.problem };
}

const explainFault = 'This virt-controller itself failed over the object, which is a bug; the object is tried again.';

function sentenceOf(source: ExplainSource, { rule }: DecisionRecord<ExplainFacts>): string {
  return rule === faultRule ? explainFault : explainRule(source, rule);
}
