import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '../../base/index.ts';
import type { HostFacts } from '../ports.ts';
import { readHostModel } from './host-cpu-model.ts';
import { launcherCpuSet } from './host-cpu-set.ts';
import { launcherFileSizes } from './host-file-sizes.ts';
import { type SelinuxOptions, selinuxContexts } from './host-selinux.ts';
import { readTopology } from './host-topology.ts';

export interface NodeFactsOptions extends SelinuxOptions {
  /** Where an init container left libvirt's capabilities. */
  readonly labellerDir: string;
  /** As Node.js names it: `x64`. */
  readonly arch: string;
}

export type NodeFacts = Omit<HostFacts, 'nodeName'>;

const kubernetesArch: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64', s390x: 's390x' };

/** What does not change while the agent runs, read once. A node without libvirt's files simply has nothing to tell. */
export async function readNodeFacts(options: NodeFactsOptions, log: Logger): Promise<NodeFacts> {
  const { labellerDir, arch, procDir } = options;
  const capabilities = textOf(join(labellerDir, 'capabilities.xml'));
  const topology = capabilities === undefined ? [] : readTopology(capabilities);
  const domainCapabilities = textOf(join(labellerDir, 'virsh_domcapabilities.xml'));
  const hostModel = domainCapabilities === undefined ? undefined : readHostModel(domainCapabilities);
  const architecture = kubernetesArch[arch];
  return {
    ...(topology.length > 0 && { topology }),
    ...(hostModel !== undefined && { hostModel }),
    ...(architecture && { architecture }),
    selinuxContext: await selinuxContexts(options, log),
    fileSizes: (pid, paths) => launcherFileSizes(pid, paths, procDir),
    cpuSet: (pid) => launcherCpuSet(pid, procDir),
  };
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
