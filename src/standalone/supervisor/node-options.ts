import type { Logger } from '../../base/index.ts';
import type { KvmProbeResult } from '../../host/index.ts';
import type { NodePaths } from '../paths.ts';

export const controlPrograms = ['virt-controller', 'apiserver'] as const;
export type ProgramName = (typeof controlPrograms)[number] | 'virt-handler';

/** What pods run. */
export type PodProgramName = 'virt-launcher' | 'container-disk' | 'virt-probe' | 'virt-exportserver';

/** More than these no one machine has room for; and each takes two programs' memory. */
export const maxNodes = 8;

export interface StandaloneNodeOptions {
  readonly paths: NodePaths;
  /** Of the first node; the second one's is NAME-2 and so on. */
  readonly nodeName: string;
  /** How many nodes this machine plays; from two on guests can move between them. */
  readonly nodes: number;
  /** Address of API server, agent and pods, a loopback one; further nodes have those that follow it. */
  readonly hostIp: string;
  /** First port to try for the API when none was used before. */
  readonly apiPort: number;
  /** First port to try for the web page; 0: no page. */
  readonly webPort: number;
  /** The built page. */
  readonly pageDir: string;
  /** node and the script of each program, without arguments. */
  readonly programs: Readonly<Record<ProgramName | PodProgramName, readonly [string, ...string[]]>>;
  /** `auto`, `none` or the IPv4 range of pods. */
  readonly podNetwork: string;
  /** Directories whose files VMs may have as `hostDisk`, besides the node's own; absolute. */
  readonly hostDiskDirs: readonly string[];
  /** What pods may read of this installation besides `/usr`: the programs. */
  readonly podPrograms: readonly string[];
  /** Environment of the programs. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  /** `-v` of the programs. */
  readonly verbosity: number;
}

export interface StandaloneNodeDeps {
  readonly log: Logger;
  /** For a person who waits: what has just been done. */
  readonly progress?: (step: string) => void;
  readonly probe?: () => Promise<KvmProbeResult>;
}
