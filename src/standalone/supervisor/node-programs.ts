import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from '../../base/index.ts';
import { memberIndex, memberName, type NodePaths } from '../paths.ts';
import type { HealthOptions } from './health-watch.ts';
import { controlPrograms, type ProgramName, type StandaloneNodeOptions } from './node-options.ts';
import { endLeftover, Program } from './program.ts';

/** Which program of which node: the agent of the second one is `virt-handler-2`. */
export interface ProgramOf {
  readonly name: ProgramName;
  readonly index: number;
  readonly nodeName: string;
  readonly paths: NodePaths;
}

/** The programs of the node as child processes: command lines, environment, logs and pid files. */
export class NodePrograms {
  readonly #options: StandaloneNodeOptions;
  readonly #log: Logger;
  readonly #programs = new Map<string, Program>();

  constructor(options: StandaloneNodeOptions, deps: { readonly log: Logger }) {
    this.#options = options;
    this.#log = deps.log;
  }

  /** Ends what a supervisor left that was killed, the agents of nodes that are no more among it. */
  async endLeftovers(): Promise<void> {
    const { runDir } = this.#options.paths;
    const files = await readdir(runDir);
    const agents = files.filter((file) => memberIndex(file, 'virt-handler', '.pid') !== undefined);
    const names = [...agents, ...controlPrograms.map((name) => `${name}.pid`)];
    for (const file of names) await endLeftover(path.join(runDir, file), 5_000);
  }

  /** The same of a program of another name, that the node does without from now on. */
  endLeftover(name: string): Promise<void> {
    return endLeftover(this.filesOf(name).pidFile, 5_000);
  }

  async start(of: ProgramOf, args: readonly string[], health?: HealthOptions): Promise<void> {
    const { programs, env, verbosity } = this.#options;
    const [command, ...script] = programs[of.name];
    const access = of.name === 'apiserver' ? [] : ['--kubeconfig', of.paths.kubeconfigs[of.name]];
    const name = memberName(of.name, of.index);
    const program = new Program(
      {
        name,
        argv: [command, ...script, ...access, ...args, '-v', String(verbosity)],
        env: {
          ...env,
          NODE_NAME: of.nodeName,
          KUBEVIRT_PODS_DIR: of.paths.podsDir,
          KUBEVIRT_HOST_ROOT: '/',
          KUBEVIRT_NODE_LABELLER_DIR: of.paths.labellerDir,
        },
        ...this.filesOf(name),
        ...(health && { health }),
      },
      { log: this.#log },
    );
    this.#programs.set(name, program);
    await program.start();
  }

  /** Where a program of this name writes. */
  filesOf(name: string): { readonly logFile: string; readonly pidFile: string } {
    const { logDir, runDir } = this.#options.paths;
    return { logFile: path.join(logDir, `${name}.log`), pidFile: path.join(runDir, `${name}.pid`) };
  }

  async stop(name: ProgramName, index = 1): Promise<void> {
    await this.#programs.get(memberName(name, index))?.stop();
  }

  /** All at once. */
  kill(): void {
    for (const program of this.#programs.values()) program.kill();
  }
}
