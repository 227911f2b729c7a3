import type { EventEmitter } from 'node:events';
import { errorCode, errorMessage } from '../../base/index.ts';

/** 128 + SIGPIPE: how a shell reports a program that wrote when nobody read any more. */
const closedPipeExit = 141;

export interface OutputOwner {
  /** Ends the process. */
  readonly exit: (code: number) => void;
  /** A line for people, beside the output. */
  readonly warn: (line: string) => void;
}

/**
 * What becomes of a command whose output cannot be written. `answer`: the output is what was asked for, and there is no use in the rest; a
 * closed pipe (`| head`) is nothing to talk about. `aside`: the command has something else to do (a node, a console, a proxy) and goes on.
 */
export function watchOutput(output: EventEmitter, role: 'answer' | 'aside', { exit, warn }: OutputOwner): void {
  output.on('error', (error: unknown) => {
    if (role === 'aside') return;
    if (errorCode(error) === 'EPIPE') return exit(closedPipeExit);
    warn(`virt-node: the output could not be written: ${errorMessage(error)}`);
    exit(1);
  });
}
