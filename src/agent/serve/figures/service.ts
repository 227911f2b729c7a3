import {
  type ExplainError,
  explainApiVersion,
  type GuestFigures,
  type Key,
  type VirtualMachineInstance,
} from '../../../api/index.ts';
import { type Clock, deadline, errorMessage } from '../../../base/index.ts';
import { explainKey, explainPath } from '../../../reconcile/index.ts';
import { figuresDocument, measuredFigures } from './guest-figures.ts';

export interface FiguresDeps {
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined };
  /** Undefined: there is no open connection now. Nothing is dialled for figures. */
  readonly launchers: {
    find(
      vmi: VirtualMachineInstance,
    ): { /** DomainStats JSON. */ domainStats(signal: AbortSignal): Promise<string> } | undefined;
  };
  readonly clock: Clock;
}

export interface FiguresAnswer {
  readonly httpStatus: number;
  readonly body: GuestFigures | ExplainError;
}

const answerMs = 3_000;
/** Who asks within this time of another is given the same answer: any number of pages costs a launcher one question. */
const keptMs = 1_000;
/** VMs that are looked at at once; more are refused. */
const maxAsked = 64;

/** `GET /figures/<namespace>/<name>`. A launcher is asked when somebody looks, and not otherwise. */
export class FiguresService {
  readonly #nodeName: string;
  readonly #deps: FiguresDeps;
  readonly #answers = new Map<Key, Promise<FiguresAnswer>>();

  constructor(options: { readonly nodeName: string }, deps: FiguresDeps) {
    this.#nodeName = options.nodeName;
    this.#deps = deps;
  }

  /** Undefined: it is asked for something else. */
  answer(method: string, target: string): Promise<FiguresAnswer> | undefined {
    if (method !== 'GET' || !target.startsWith('/figures/')) return undefined;
    const path = explainPath(target, decodeURIComponent);
    const [, namespace = '', name = '', ...more] = path.kind === 'refused' ? [] : path.parts;
    const named = explainKey(namespace, name);
    if (path.kind === 'refused') return Promise.resolve(refused(path.httpStatus, path.code, path.message));
    if (named.kind !== 'key' || more.length > 0) {
      return Promise.resolve(refused(404, 'NOT_FOUND', 'there is GET /figures/<namespace>/<name>'));
    }
    return this.#kept(named.key);
  }

  #kept(key: Key): Promise<FiguresAnswer> {
    const known = this.#answers.get(key);
    if (known) return known;
    if (this.#answers.size >= maxAsked) {
      return Promise.resolve(refused(503, 'INTERNAL', `figures of ${maxAsked} VMs are asked for already: try again`));
    }
    const answer = this.#ask(key);
    this.#answers.set(key, answer);
    void answer.then(() => this.#deps.clock.schedule(keptMs, () => this.#answers.delete(key)));
    return answer;
  }

  /** Never rejects. */
  async #ask(key: Key): Promise<FiguresAnswer> {
    const { vmis, launchers, clock } = this.#deps;
    const vmi = vmis.get(key);
    const launcher = vmi && launchers.find(vmi);
    if (!launcher) return refused(404, 'NOT_FOUND', `${key} has no guest on node ${this.#nodeName} now`);
    try {
      const json = await launcher.domainStats(deadline(answerMs));
      const measured = measuredFigures(json);
      if (!measured) return refused(404, 'NOT_FOUND', `${key} has no guest now`);
      const of = { node: this.#nodeName, uid: vmi.metadata.uid ?? '', at: clock.now() };
      return { httpStatus: 200, body: figuresDocument(measured, of) };
    } catch (error) {
      return refused(503, 'INTERNAL', `the launcher of ${key} gives no figures: ${errorMessage(error)}`);
    }
  }
}

function refused(httpStatus: number, code: ExplainError['code'], message: string): FiguresAnswer {
  return { httpStatus, body: { apiVersion: explainApiVersion, kind: 'Error', code, message } };
}
