import path from 'node:path';
import { explainSocketName } from '../../../api/index.ts';
import type { Clock, Logger } from '../../../base/index.ts';
import { type JsonAnswer, JsonSocket } from '../../../http/index.ts';
import { errorAnswer } from './service.ts';

export interface ExplainServerOptions {
  /** `--kubevirt-private-dir` */
  readonly privateDir: string;
  readonly pid: number;
}

export interface ExplainServerDeps {
  /** `target`: path of the request, with a query if it has one. */
  readonly service: { answer(method: string, target: string): Promise<JsonAnswer> };
  readonly log: Logger;
  readonly clock: Clock;
}

/** Explanations of this agent on its socket. */
export class ExplainServer extends JsonSocket {
  constructor({ privateDir, pid }: ExplainServerOptions, { service, log, clock }: ExplainServerDeps) {
    const socketFile = path.join(privateDir, explainSocketName);
    super(
      { name: 'explain server', socketFile, pid, other: 'another agent' },
      { answer: (method, target) => service.answer(method, target), refuse: errorAnswer, log, clock },
    );
  }
}
