import { join } from 'node:path';
import { type Clock, type Logger, systemClock } from '../../../base/index.ts';
import type { HostFacts, NumaCell } from '../../vmi/ports.ts';
import { followedFile } from './followed-file.ts';
import { readHostModel } from './host-cpu-model.ts';
import { launcherCpuSet } from './host-cpu-set.ts';
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

/** Facts of this machine; libvirt's files are followed. A node without them simply has nothing to tell. */
export async function readNodeFacts(
  options: NodeFactsOptions,
  log: Logger,
  clock: Clock = systemClock,
): Promise<NodeFacts> {
  const { labellerDir, arch, procDir } = options;
  const topology = followedFile(join(labellerDir, 'capabilities.xml'), someTopology, clock);
  const hostModel = followedFile(join(labellerDir, 'virsh_domcapabilities.xml'), readHostModel, clock);
  const architecture = kubernetesArch[arch];
  return {
    get topology() {
      return topology();
    },
    get hostModel() {
      return hostModel();
    },
    ...(architecture && { architecture }),
    selinuxContext: await selinuxContexts(options, log),
    cpuSet: (pid) => launcherCpuSet(pid, procDir),
  };
}

function someTopology(capabilitiesXml: string): readonly NumaCell[] | undefined {
  const cells = readTopology(capabilitiesXml);
  return cells.length > 0 ? cells : undefined;
}
