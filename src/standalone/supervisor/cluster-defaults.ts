import type { KubeObject } from '../../api/index.ts';
import { jsonRecord, memberAt } from '../../base/index.ts';

/** What of the KubeVirt object's configuration is the node's own choice, as JSON: a value that differs is the user's, and stays. */
const annotation = 'virt-node/chosen-configuration';

/** The fields that depend on whether there is another node to move to. */
const choices = {
  /** CPUs and memory come to a guest with a migration; without another node a change waits for the next start, and the VM says so. */
  vmRolloutStrategy: { alone: 'Stage', among: 'LiveUpdate' },
  /** A drain moves what can move, and shuts the rest down. */
  evictionStrategy: { alone: undefined, among: 'LiveMigrateIfPossible' },
  /** libvirt takes a file of this machine for one that the other node has not got; here both ends have the very same. */
  'migrations.unsafeMigrationOverride': { alone: undefined, among: true },
} as const;

/** Before the annotation there was one node and one such field. */
const ofOlderVersion: JsonRecord = { vmRolloutStrategy: choices.vmRolloutStrategy.alone };

export interface ChosenDefaults {
  /** For a merge patch: null takes a field away. */
  readonly configuration: JsonRecord;
  readonly annotations: Readonly<Record<string, string>>;
}

type JsonRecord = Readonly<Record<string, unknown>>;

/** `a.b` is member b of a. */
function nested(chosen: JsonRecord): JsonRecord {
  const configuration: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(chosen)) {
    const [name = '', inner] = field.split('.');
    configuration[name] = inner === undefined ? value : { [inner]: value };
  }
  return configuration;
}

/** What this many nodes want of the KubeVirt object, where a user has not set something else. */
export function defaultsFor(nodes: number, kubevirt: KubeObject): ChosenDefaults {
  const present = memberAt(kubevirt, 'spec', 'configuration');
  const written = kubevirt.metadata.annotations?.[annotation];
  const before = written === undefined ? ofOlderVersion : (jsonRecord(written) ?? {});
  const chosen: Record<string, string | boolean | null> = {};
  for (const [field, choice] of Object.entries(choices)) {
    const value = memberAt(present, ...field.split('.'));
    const isOurs = value === undefined || value === before[field];
    if (isOurs) chosen[field] = (nodes > 1 ? choice.among : choice.alone) ?? null;
  }
  return { configuration: nested(chosen), annotations: { [annotation]: JSON.stringify(chosen) } };
}
