import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { HostFacts, NumaCell } from '../../../api/index.ts';
import { type Clock, type Logger, systemClock } from '../../../base/index.ts';
import { cpuSetOf, readPlainFileSync } from '../../../host/index.ts';
import {
  attribute,
  children,
  elementAt,
  LibvirtFileError,
  maxDocumentBytes,
  parseDocument,
  textOf,
} from '../libvirt-xml/index.ts';
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
/** Every reconcile of every VMI asks. */
const lookEveryMs = 5_000;

/** Facts of this machine; libvirt's files are followed. A node without them simply has nothing to report. */
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
    cpuSet: (pid) => cpuSetOf(pid, procDir),
  };
}

function someTopology(capabilitiesXml: string): readonly NumaCell[] | undefined {
  const cells = readTopology(capabilitiesXml);
  return cells.length > 0 ? cells : undefined;
}

/**
 * What a file says, looked at again when it has become another one. What cannot be read or understood any more keeps its last
 * meaning; undefined: it never had one. Never throws, unless `parse` does.
 */
function followedFile<T>(file: string, parse: (text: string) => T | undefined, clock: Clock): () => T | undefined {
  let meaning: T | undefined;
  let identity: string | undefined;
  let lookedMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = clock.monotonicMs();
    if (nowMs - lookedMs < lookEveryMs) return meaning;
    lookedMs = nowMs;
    try {
      const stats = statSync(file);
      const seen = `${stats.ino} ${stats.ctimeMs} ${stats.size}`;
      if (seen === identity || stats.size > maxDocumentBytes) return meaning;
      identity = seen;
      meaning = parse(readPlainFileSync(file, maxDocumentBytes)) ?? meaning;
    } catch {
      identity = undefined;
    }
    return meaning;
  };
}

/**
 * CPU model of a guest with `host-model` on this node, from libvirt's `virsh_domcapabilities.xml`. Empty: the
 * document names none. Undefined: it is no such document, which proves nothing.
 */
export function readHostModel(domainCapabilitiesXml: string): string | undefined {
  try {
    const cpu = elementAt(parseDocument(domainCapabilitiesXml, 'domainCapabilities'), 'cpu');
    if (cpu === undefined) return undefined;
    const hostModel = children(cpu, 'mode').find((mode) => attribute(mode, 'name') === 'host-model');
    return textOf(elementAt(hostModel, 'model'));
  } catch (error) {
    if (error instanceof LibvirtFileError) return undefined;
    throw error;
  }
}
