import { errorCode, errorMessage } from '../../../../base/index.ts';
import {
  linkNamesIn,
  type NamespaceOwner,
  NetNamespace,
  readNetworkSetting,
  runInNamespace,
  writeNetworkSetting,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { type PodNetwork, parsePodNetwork, readCommands } from './pod-links.ts';
import { batchesOf, type TapLabelOf } from './tap-labels.ts';
import type { Setting } from './wanted.ts';

/** The network namespace of a launcher, for one pass. What it throws and rejects with is a HostError. */
export interface PodNamespace {
  /** The launcher has the machine's own network: nothing may be done there. */
  readonly isOfMachine: boolean;
  linkNames(): readonly string[];
  setting(name: string): string;
  /** By one process. */
  read(signal: AbortSignal): Promise<PodNetwork>;
  /** By one process, and where there is SELinux one more for each tap device; it ends at the first line that fails. */
  change(commands: readonly string[], signal: AbortSignal): Promise<void>;
  set(settings: readonly Setting[]): void;
  /** By one process, as a whole or not at all. */
  load(rules: string, signal: AbortSignal): Promise<void>;
  close(): void;
}

export type OpenPodNamespace = (owner: NamespaceOwner) => Promise<PodNamespace>;

/** Rejects with HostError POD_NETWORK when it cannot be entered: the launcher has ended, or this agent may not. */
export function podNamespaces(procDir?: string, labelOf: TapLabelOf = async () => undefined): OpenPodNamespace {
  return async (owner) => {
    try {
      const namespace = await NetNamespace.ofProcess(owner, procDir === undefined ? {} : { procDir });
      return new KernelNamespace(namespace, () => labelOf(owner.pid));
    } catch (cause) {
      throw notEntered(cause);
    }
  };
}

class KernelNamespace implements PodNamespace {
  readonly #namespace: NetNamespace;
  readonly #label: () => Promise<string | undefined>;

  constructor(namespace: NetNamespace, label: () => Promise<string | undefined>) {
    this.#namespace = namespace;
    this.#label = label;
  }

  get isOfMachine(): boolean {
    return this.#namespace.isOfMachine;
  }

  linkNames(): readonly string[] {
    return this.#inside(() => linkNamesIn(this.#namespace));
  }

  setting(name: string): string {
    return this.#inside(() => readNetworkSetting(this.#namespace, name));
  }

  set(settings: readonly Setting[]): void {
    for (const { name, value } of settings) {
      try {
        writeNetworkSetting(this.#namespace, name, value);
      } catch (cause) {
        const problem = `${name} cannot be set to ${value} in the pod (${errorMessage(cause)})`;
        throw new HostError('CRITICAL_NETWORK', `${problem}: /proc/sys of this agent must be writable`, { cause });
      }
    }
  }

  async read(signal: AbortSignal): Promise<PodNetwork> {
    const args = ['-json', '-details', '-batch', '-'];
    const read = runInNamespace(this.#namespace, { program: 'ip', args, input: readCommands }, signal);
    const printed = await read.catch((cause: unknown) => {
      throw new HostError('POD_NETWORK', `the links of the pod cannot be read: ${errorMessage(cause)}`, { cause });
    });
    return parsePodNetwork(printed);
  }

  async change(commands: readonly string[], signal: AbortSignal): Promise<void> {
    const label = await this.#label();
    for (const { lines, isLabelled } of batchesOf(commands, label !== undefined)) {
      const input = lines.map((line) => `${line}\n`).join('');
      const program = isLabelled
        ? { program: 'ip', args: lines.flatMap((line) => line.split(' ')), execLabel: label ?? '' }
        : { program: 'ip', args: ['-batch', '-'], input };
      await runInNamespace(this.#namespace, program, signal).catch((cause: unknown) => {
        throw refused('the links of the pod', linkProblem(errorMessage(cause), lines), cause);
      });
    }
  }

  async load(rules: string, signal: AbortSignal): Promise<void> {
    const load = runInNamespace(this.#namespace, { program: 'nft', args: ['-f', '-'], input: rules }, signal);
    await load.catch((cause: unknown) => {
      throw refused('address translation in the pod', errorMessage(cause), cause);
    });
  }

  close(): void {
    this.#namespace.close();
  }

  #inside<T>(work: () => T): T {
    try {
      return work();
    } catch (cause) {
      throw notEntered(cause);
    }
  }
}

function notEntered(cause: unknown): HostError {
  const problem = `the pod's network cannot be reached: ${errorMessage(cause)}`;
  return new HostError('POD_NETWORK', problem, { cause });
}

/** The next try may go well: of the kernel, and where an agent that was killed left an `ip` that ended only now. */
const passing =
  /file exists|resource busy|cannot allocate memory|no buffer space|temporarily unavailable|interrupted system call/i;

/** What a tool refuses is refused again: upstream ends such a VMI, too. What did not come to that is tried again. */
function refused(what: string, problem: string, cause: unknown): HostError {
  const isFinal = errorCode(cause) === 'FAILED' && !passing.test(problem);
  return new HostError(isFinal ? 'CRITICAL_NETWORK' : 'POD_NETWORK', `${what} cannot be set up: ${problem}`, { cause });
}

const failedLine = /Command failed -:(\d+)/;

/** With the line that failed, and what it may lack. */
function linkProblem(problem: string, commands: readonly string[]): string {
  const line = commands[Number(failedLine.exec(problem)?.[1]) - 1];
  if (line === undefined) return problem;
  const kind = line.split(' type ')[1];
  const isUnknown = kind !== undefined && /unknown device type|not supported/i.test(problem);
  const module = isUnknown ? kind : line.startsWith('tuntap') ? 'tun' : undefined;
  const advice = module && `; this node may lack it: modprobe ${module}`;
  return `${problem.replaceAll('\n', ' ')} (ip ${line})${advice ?? ''}`;
}
