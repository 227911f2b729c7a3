import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  readCapabilities,
  readDomainCapabilities,
  readSupportedFeatures,
} from '../../../../../src/agent/node/labels/documents.ts';
import type { Known, LabelFacts } from '../../../../../src/agent/node/labels/facts.ts';
import type { LabelSettings } from '../../../../../src/agent/node/labels/settings.ts';

export const hostsDir = 'test/unit/agent/node/labels/hosts';

export const defaults: LabelSettings = { obsoleteModels: undefined, crossArchitecture: false };

/** Facts of one of the hosts, as their files say; what a file says can be replaced. */
export function factsOf(host: string, arch: string, changes: Partial<LabelFacts> = {}): LabelFacts {
  const text = (file: string) => readFileSync(path.join(hostsDir, host, file), 'utf8');
  const known = <T>(file: string, read: (xml: string) => T): Known<T> => ({
    kind: 'known',
    value: read(text(file)),
    from: file,
  });
  const none: Known<readonly string[]> = { kind: 'unknown', because: 'supported_features.xml: it is not there' };
  return {
    arch,
    domain: known('virsh_domcapabilities.xml', readDomainCapabilities),
    machine: known('capabilities.xml', readCapabilities),
    features: arch === 'arm64' ? none : known('supported_features.xml', (xml) => readSupportedFeatures(xml, arch)),
    foreignArchs: { kind: 'known', value: [], from: 'foreign files' },
    realtime: { kind: 'known', value: false, from: 'sched_rt_runtime_us' },
    ...changes,
  };
}
